/* Attention, and attention over caches: new rows are stored there, rounded to the dtype of the
 * cache, then attended to by attend.c. In a cache without pages each sequence is a batch; in pages
 * the tokens of all sequences follow each other. */
#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/attention/attention.h"
#include "backend/cpu/kernels/support/rows.h"
#include "backend/cpu/kernels/support/walk.h"

enum { ELEMENTS_PER_THREAD = 16 * 1024 };

static attention attention_of_args(const attention_args *args) {
  return (attention){.q = &args->q,
                     .k = &args->k,
                     .v = &args->v,
                     .mask = args->mask.data ? &args->mask : NULL,
                     .out = &args->out,
                     .sizes = args->sizes,
                     .causal = args->causal,
                     .scale = args->scale,
                     .masked = args->masked,
                     .rounds = args->rounds,
                     .empty = args->empty_nan ? NAN : 0};
}

bool attention_rounds(const attention_args *args) {
  const attention attention = attention_of_args(args);
  return attend_rounds(&attention);
}

static size_t attention_scratch(const kernel_context *ctx, const void *args) {
  const attention attention = attention_of_args(args);
  return attend_scratch(ctx, &attention);
}

static bool run_attention(const kernel_context *ctx, const void *args) {
  const attention attention = attention_of_args(args);
  size_t bytes = attend_scratch(ctx, &attention);
  char *scratch = bytes > 0 ? ctx->scratch(ctx->pool, bytes) : NULL;
  if (bytes > 0 && !scratch) return false;
  attend_heads(ctx, &attention, scratch);
  return true;
}

const kernel_desc kernel_attention = {
    .name = "attention",
    .run = run_attention,
    .scratch = attention_scratch,
    .args_size = sizeof(attention_args),
    .operands = {OPERAND(attention_args, q), OPERAND(attention_args, k), OPERAND(attention_args, v),
                 OPERAND(attention_args, mask), OPERAND(attention_args, out)}};

/* ---------------------------------------------------------------- the cache */

/* The places of tokens in pages: token i is row `row` of page `outer`, (pages, n_kv, rows,
 * size). */
typedef struct page_places {
  const int64_t *positions;
  const int32_t *sequences, *table; /* (tokens), like positions; table: (n_sequences, most) */
  int64_t most, rows;               /* maximum number of pages of a sequence; rows of a page */
} page_places;

typedef struct storing {
  const ktensor *x, *cache, *scale;
  int64_t at;
  const page_places *pages; /* NULL: token i of batch b is at (b, (at + i) mod rows) */
} storing;

static const int32_t *pages_of(const page_places *places, int64_t token) {
  return places->table + places->sequences[token] * places->most;
}

static int64_t kernel_attention_block_end(int64_t i, int64_t n) {
  return n - i < ROW_BLOCK ? n : i + ROW_BLOCK;
}

/* Returns the largest magnitude, or NaN if an element is NaN. */
static float largest_magnitude(dtype t, const void *x, int64_t n) {
  row_block block;
  float largest = 0;
  for (int64_t from = 0; from < n; from += ROW_BLOCK) {
    int64_t count = kernel_attention_block_end(from, n) - from;
    load_row(COMPUTE_F32, t, element_at(x, t, from), 1, count, &block);
    for (int64_t i = 0; i < count; i++) {
      float v = fabsf(block.f32[i]);
      largest = v > largest || isnan(v) ? v : largest;
    }
  }
  return largest;
}

/* Returns x / scale, rounded to nearest even. It is 0 if the scale is 0, infinite or NaN. */
static float kernel_attention_quantize(float x, float scale) {
  float q = scale > 0 ? rintf(x / scale) : 0;
  return isnan(q) ? 0 : q > 127 ? 127 : q < -127 ? -127 : q;
}

static void store_cache_row(const storing *storing, const void *x, void *to, float *scale) {
  row_block block;
  int64_t n = storing->x->dims[3];
  if (scale) *scale = largest_magnitude(storing->x->type, x, n) / 127;
  for (int64_t from = 0; from < n; from += ROW_BLOCK) {
    int64_t count = kernel_attention_block_end(from, n) - from;
    load_row(COMPUTE_F32, storing->x->type, element_at(x, storing->x->type, from), 1, count,
             &block);
    for (int64_t i = 0; scale && i < count; i++)
      block.f32[i] = kernel_attention_quantize(block.f32[i], *scale);
    store_row(COMPUTE_F32, storing->cache->type, element_at(to, storing->cache->type, from), 1,
              count, &block);
  }
}

static void kernel_attention_store_rows(void *ctx, int64_t begin, int64_t end) {
  const storing *storing = ctx;
  const ktensor *x = storing->x, *cache = storing->cache, *scale = storing->scale;
  for (int64_t flat = begin; flat < end; flat++) {
    int64_t i = flat % x->dims[2], g = flat / x->dims[2] % x->dims[1],
            b = flat / x->dims[2] / x->dims[1], outer = b, row;
    if (storing->pages) {
      outer = pages_of(storing->pages, i)[storing->pages->positions[i] / storing->pages->rows];
      row = storing->pages->positions[i] % storing->pages->rows;
    } else {
      row = (storing->at + i) % cache->dims[2];
    }
    int64_t from = b * x->strides[0] + g * x->strides[1] + i * x->strides[2],
            to = outer * cache->strides[0] + g * cache->strides[1] + row * cache->strides[2];
    float *factor = NULL;
    if (scale)
      factor = (float *)scale->data + outer * scale->strides[0] + g * scale->strides[1] +
               row * scale->strides[2];
    store_cache_row(storing, element_at(x->data, x->type, from),
                    element_at(cache->data, cache->type, to), factor);
  }
}

/* Stores rows of x (B, n, L, size) to rows (at + i) mod rows of cache (B, n, rows, size) or
 * pages. */
static void store_new(const kernel_context *ctx, const ktensor *x, int64_t at, const ktensor *cache,
                      const ktensor *scale, const page_places *pages) {
  storing storing = {x, cache, scale, at % larger(cache->dims[2], 1), pages};
  int64_t grain = ELEMENTS_PER_THREAD / larger(x->dims[3], 1);
  ctx->parallel_for(ctx->pool, product_of(x->dims, 3), larger(grain, 1),
                    kernel_attention_store_rows, &storing);
}

/* ---------------------------------------------------------------- with a cache */

/* Returns rows [first, first + n) of t (B, heads, L, size). */
static ktensor kernel_attention_rows_from(const ktensor *t, int64_t first, int64_t n) {
  ktensor part = *t;
  part.data = element_at(t->data, t->type, first * t->strides[2]);
  part.dims[2] = n;
  return part;
}

static const ktensor *present(const ktensor *t) { return t->data ? t : NULL; }

/* Returns the attention of n rows that see up to n_keys keys, with q and out unset. */
static attention piece_of(const attention_cached_args *args, int64_t n, int64_t n_keys) {
  attention attention = {.k = &args->k,
                         .v = &args->v,
                         .k_scale = present(&args->k_scale),
                         .v_scale = present(&args->v_scale),
                         .sinks = args->sinks.data,
                         .sizes = args->sizes,
                         .causal = true,
                         .window = args->window,
                         .scale = args->scale,
                         .softcap = args->softcap};
  attention.sizes.n_queries = n;
  attention.sizes.n_keys = n_keys;
  return attention;
}

/* Stores rows [first, first + n), from position `at` on, and computes their attention. */
static void kernel_attention_attend_piece(const kernel_context *ctx,
                                          const attention_cached_args *args, int64_t first,
                                          int64_t n, int64_t at, char *scratch) {
  int64_t start = args->window && at >= args->window ? at - args->window + 1 : 0;
  ktensor q = kernel_attention_rows_from(&args->q, first, n),
          out = kernel_attention_rows_from(&args->out, first, n),
          k = kernel_attention_rows_from(&args->new_k, first, n),
          v = kernel_attention_rows_from(&args->new_v, first, n);
  attention attention = piece_of(args, n, at - start + n);
  attention.q = &q;
  attention.out = &out;
  attention.before = at - start;
  attention.first_row = start % args->sizes.n_keys;
  store_new(ctx, &k, at, attention.k, attention.k_scale, NULL);
  store_new(ctx, &v, at, attention.v, attention.v_scale, NULL);
  attend_heads(ctx, &attention, scratch);
}

/* Returns the size for the first piece, which has the most rows, when it sees the whole cache. */
static size_t attention_cached_scratch(const kernel_context *ctx, const void *args) {
  const attention_cached_args *own = args;
  int64_t rows = own->sizes.n_queries, n = rows < own->max_new_rows ? rows : own->max_new_rows;
  attention attention = piece_of(own, n, own->sizes.n_keys);
  attention.q = &own->q;
  return attend_scratch(ctx, &attention);
}

static bool run_attention_cached(const kernel_context *ctx, const void *args) {
  const attention_cached_args *own = args;
  int64_t rows = own->sizes.n_queries, size = own->sizes.n_keys,
          position = *(const int64_t *)own->position.data;
  int64_t last = own->window ? INT64_MAX - size : size;
  if (position < 0 || position > last - rows) {
    kernel_fault_set(ctx->fault, KERNEL_FAULT_ROWS, position, rows, size);
    return true;
  }
  size_t bytes = attention_cached_scratch(ctx, own);
  char *scratch = bytes > 0 ? ctx->scratch(ctx->pool, bytes) : NULL;
  if (bytes > 0 && !scratch) return false;
  for (int64_t first = 0; first < rows; first += own->max_new_rows)
    kernel_attention_attend_piece(
        ctx, own, first, rows - first < own->max_new_rows ? rows - first : own->max_new_rows,
        position + first, scratch);
  return true;
}

const kernel_desc kernel_attention_cached = {
    .name = "attention_cached",
    .run = run_attention_cached,
    .scratch = attention_cached_scratch,
    .args_size = sizeof(attention_cached_args),
    .operands = {OPERAND(attention_cached_args, q), OPERAND(attention_cached_args, new_k),
                 OPERAND(attention_cached_args, new_v), OPERAND(attention_cached_args, position),
                 OPERAND(attention_cached_args, k), OPERAND(attention_cached_args, v),
                 OPERAND(attention_cached_args, k_scale), OPERAND(attention_cached_args, v_scale),
                 OPERAND(attention_cached_args, sinks), OPERAND(attention_cached_args, out)}};

/* ---------------------------------------------------------------- paged caches */

/* True if the token's position, and the pages up to it, are valid; else records a fault. */
static bool kernel_attention_is_placed(const kernel_context *ctx, const attention_paged_args *args,
                                       const page_places *at, int64_t token) {
  int64_t position = at->positions[token], sequence = at->sequences[token],
          n_pages = args->cached.k.dims[0], n_keys = args->cached.sizes.n_keys;
  if (sequence < 0 || sequence >= args->n_sequences) {
    kernel_fault_set(ctx->fault, KERNEL_FAULT_INDEX, sequence, 0, args->n_sequences - 1);
    return false;
  }
  if (position < 0 || position >= n_keys) {
    kernel_fault_set(ctx->fault, KERNEL_FAULT_ROWS, position, 1, n_keys);
    return false;
  }
  for (int64_t i = 0; i <= position / at->rows; i++) {
    int32_t page = pages_of(at, token)[i];
    if (page >= 0 && page < n_pages) continue;
    kernel_fault_set(ctx->fault, KERNEL_FAULT_INDEX, page, 0, n_pages - 1);
    return false;
  }
  return true;
}

/* Finds the tokens [first, *to) of one sequence. Returns the number of keys that they may see. */
static int64_t find_run(const page_places *at, int64_t first, int64_t n, int64_t *to) {
  int64_t last = at->positions[first];
  for (*to = first + 1; *to < n && at->sequences[*to] == at->sequences[first]; ++*to)
    last = larger(last, at->positions[*to]);
  return last + 1;
}

/* Returns the size for the case that all tokens are in one sequence and see all n_keys keys. */
static size_t attention_paged_scratch(const kernel_context *ctx, const void *args) {
  const attention_paged_args *own = args;
  return attention_cached_scratch(ctx, &own->cached);
}

static void attend_run(const kernel_context *ctx, const attention_cached_args *args,
                       const page_places *at, int64_t first, int64_t to, int64_t n_keys,
                       char *scratch) {
  ktensor q = kernel_attention_rows_from(&args->q, first, to - first),
          out = kernel_attention_rows_from(&args->out, first, to - first);
  attention attention = piece_of(args, to - first, n_keys);
  attention.q = &q;
  attention.out = &out;
  attention.pages = pages_of(at, first);
  attention.positions = at->positions + first;
  attend_heads(ctx, &attention, scratch);
}

static bool run_attention_paged(const kernel_context *ctx, const void *args) {
  const attention_paged_args *own = args;
  const attention_cached_args *problem = &own->cached;
  const page_places at = {problem->position.data, own->sequence.data, own->page_table.data,
                          own->page_table.dims[1], problem->k.dims[2]};
  int64_t n = problem->sizes.n_queries;
  for (int64_t i = 0; i < n; i++)
    if (!kernel_attention_is_placed(ctx, own, &at, i)) return true;
  size_t bytes = attention_paged_scratch(ctx, own);
  char *scratch = bytes > 0 ? ctx->scratch(ctx->pool, bytes) : NULL;
  if (bytes > 0 && !scratch) return false;
  store_new(ctx, &problem->new_k, 0, &problem->k, present(&problem->k_scale), &at);
  store_new(ctx, &problem->new_v, 0, &problem->v, present(&problem->v_scale), &at);
  for (int64_t first = 0, to = 0; first < n; first = to) {
    int64_t n_keys = find_run(&at, first, n, &to);
    attend_run(ctx, problem, &at, first, to, n_keys, scratch);
  }
  return true;
}

const kernel_desc kernel_attention_paged = {
    .name = "attention_paged",
    .run = run_attention_paged,
    .scratch = attention_paged_scratch,
    .args_size = sizeof(attention_paged_args),
    .operands = {
        OPERAND(attention_paged_args, cached.q), OPERAND(attention_paged_args, cached.new_k),
        OPERAND(attention_paged_args, cached.new_v), OPERAND(attention_paged_args, cached.position),
        OPERAND(attention_paged_args, sequence), OPERAND(attention_paged_args, page_table),
        OPERAND(attention_paged_args, cached.k), OPERAND(attention_paged_args, cached.v),
        OPERAND(attention_paged_args, cached.k_scale),
        OPERAND(attention_paged_args, cached.v_scale), OPERAND(attention_paged_args, cached.sinks),
        OPERAND(attention_paged_args, cached.out)}};
