/* Reductions: walks the reduced dimensions of each output in blocks, or, where outputs lie side by
 * side in memory and their elements do not, of a row of outputs at once. */
#include "backend/cpu/kernels/reduce.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/reduce_parts.h"
#include "backend/cpu/kernels/support/bf16.h"
#include "backend/cpu/kernels/support/walk.h"

enum {
  GRAIN = 16 * 1024,       /* elements worth a thread */
  SPLIT_OUTPUTS = 16,      /* fewer outputs than this, and */
  SPLIT_SIZE = 128 * 1024, /* more elements for each: their ranges are split */
  SPLIT_CHUNKS =
      64 /* at most; depends on sizes only, so that results do not depend on the threads */
};

/* The kept or the reduced dimensions of x; rank 1 at least. */
typedef struct part {
  int rank;
  int64_t dims[KERNEL_MAX_RANK], strides[KERNEL_MAX_RANK], n;
} part;

typedef struct reduce_task {
  kreduce_kind kind;
  compute_class c; /* COMPUTE_F64 or COMPUTE_I64 */
  const ktensor *x, *out;
  part kept, reduced;
  double divisor;
  int64_t chunk, n_chunks; /* of a split reduction */
  accumulator *partial;    /* (kept.n, n_chunks) */
  bool minimum;            /* of arg_reduce */
} reduce_task;

static part make_part(const klayout *from) {
  part p = {.rank = from->rank, .n = product_of(from->dims, from->rank)};
  memcpy(p.dims, from->dims, sizeof p.dims);
  memcpy(p.strides, from->strides, sizeof p.strides);
  if (p.rank == 0) { /* one element: a row of it */
    p.rank = 1;
    p.dims[0] = 1;
  }
  return p;
}

/* Element offset in x of output `k`. */
static int64_t output_offset(const part *kept, int64_t k) {
  int64_t offset = 0;
  for (int d = kept->rank - 1; d >= 0; k /= kept->dims[d], d--)
    offset += k % kept->dims[d] * kept->strides[d];
  return offset;
}

/* Reads the elements at [at, stop) of a part, up to ROW_BLOCK of them, starting at `base`; returns
 * how many. */
static int64_t gather_block(const reduce_task *t, const part *p, int64_t base, int64_t at,
                            int64_t stop, void *block) {
  int last = p->rank - 1;
  int64_t row = p->dims[last], column = at % row, n = stop - at < ROW_BLOCK ? stop - at : ROW_BLOCK;
  walk w = {.rank = last, .dims = p->dims};
  walk_add(&w, p->strides);
  walk_seek(&w, at / row);
  for (int64_t done = 0; done < n; walk_next(&w), column = 0) {
    int64_t m = row - column < n - done ? row - column : n - done;
    int64_t offset = base + w.offset[0] + column * p->strides[last];
    load_row(t->c, t->x->type, element_at(t->x->data, t->x->type, offset), p->strides[last], m,
             (char *)block + done * 8);
    done += m;
  }
  return n;
}

/* Sums of floats that lie behind one another. */
static bool is_float_sum(const reduce_task *t) {
  return (t->kind == KREDUCE_SUM || t->kind == KREDUCE_MEAN) &&
         (t->x->type == DTYPE_F32 || t->x->type == DTYPE_BF16) && t->reduced.rank == 1 &&
         t->reduced.strides[0] == 1;
}

/* Elements [at, at + n) of x, of F32 or BF16. */
static double sum_neighbours(const reduce_task *t, int64_t at, int64_t n) {
  if (t->x->type == DTYPE_F32) return accumulate_floats((const float *)t->x->data + at, n);
  return bf16_sum((const uint16_t *)t->x->data + at, n);
}

static accumulator reduce_range(const reduce_task *t, int64_t k, int64_t begin, int64_t end) {
  row_block block;
  accumulator a = accumulator_start(t->kind);
  int64_t base = output_offset(&t->kept, k);
  if (is_float_sum(t)) {
    a.f = sum_neighbours(t, base + begin, end - begin);
    a.n = end - begin;
    return a;
  }
  for (int64_t at = begin; at < end;) {
    int64_t n = gather_block(t, &t->reduced, base, at, end, &block);
    accumulate_block(t->kind, t->c, &a, &block, n);
    at += n;
  }
  return a;
}

static void store_output(const reduce_task *t, int64_t k, const accumulator *a) {
  accumulator_store(t->kind, t->c, a, t->divisor, t->out->type,
                    element_at(t->out->data, t->out->type, k));
}

static void reduce_outputs(void *ctx, int64_t begin, int64_t end) {
  const reduce_task *t = ctx;
  for (int64_t k = begin; k < end; k++) {
    accumulator a = reduce_range(t, k, 0, t->reduced.n);
    store_output(t, k, &a);
  }
}

/* Outputs [begin, end) in rows of up to ROW_BLOCK neighbours along the last kept dimension. */
static void reduce_lanes(void *ctx, int64_t begin, int64_t end) {
  const reduce_task *t = ctx;
  int last = t->kept.rank - 1;
  int64_t row = t->kept.dims[last], stride = t->kept.strides[last];
  row_block block;
  accumulator a[ROW_BLOCK];
  for (int64_t k = begin; k < end;) {
    int64_t n = row - k % row < end - k ? row - k % row : end - k;
    if (n > ROW_BLOCK) n = ROW_BLOCK;
    for (int64_t i = 0; i < n; i++) a[i] = accumulator_start(t->kind);
    int64_t base = output_offset(&t->kept, k);
    walk w = {.rank = t->reduced.rank, .dims = t->reduced.dims};
    walk_add(&w, t->reduced.strides);
    walk_seek(&w, 0);
    for (int64_t r = 0; r < t->reduced.n; r++, walk_next(&w)) {
      load_row(t->c, t->x->type, element_at(t->x->data, t->x->type, base + w.offset[0]), stride, n,
               &block);
      accumulate_lanes(t->kind, t->c, a, &block, n);
    }
    for (int64_t i = 0; i < n; i++) store_output(t, k + i, &a[i]);
    k += n;
  }
}

static void reduce_chunks(void *ctx, int64_t begin, int64_t end) {
  const reduce_task *t = ctx;
  for (int64_t k = begin; k < end; k++) {
    int64_t from = k % t->n_chunks * t->chunk, to = from + t->chunk;
    t->partial[k] = reduce_range(t, k / t->n_chunks, from, to < t->reduced.n ? to : t->reduced.n);
  }
}

/* Few outputs of many elements: each range in chunks, joined in order. */
static bool is_split(const reduce_task *t) {
  return t->kept.n < SPLIT_OUTPUTS && t->reduced.n >= SPLIT_SIZE;
}

static bool reduce_split(const kernel_context *ctx, reduce_task *t) {
  int64_t n = t->kept.n * t->n_chunks;
  t->partial = ctx->scratch(ctx->pool, (size_t)n * sizeof *t->partial);
  if (!t->partial) return false;
  ctx->parallel_for(ctx->pool, n, 1, reduce_chunks, t);
  for (int64_t k = 0; k < t->kept.n; k++) {
    accumulator a = t->partial[k * t->n_chunks];
    for (int64_t i = 1; i < t->n_chunks; i++)
      accumulate_other(t->kind, &a, &t->partial[k * t->n_chunks + i]);
    store_output(t, k, &a);
  }
  return true;
}

static bool reduces_lanes(const reduce_task *t) {
  int kept = t->kept.rank - 1, reduced = t->reduced.rank - 1;
  return t->kept.strides[kept] == 1 && t->kept.dims[kept] >= 8 &&
         t->reduced.strides[reduced] != 1 && t->reduced.n > 1;
}

static int64_t grain_for(const reduce_task *t) {
  return GRAIN / (t->reduced.n > 0 ? t->reduced.n : 1) + 1;
}

static bool is_float_kind(kreduce_kind k) {
  return k == KREDUCE_MEAN || k == KREDUCE_VAR || k == KREDUCE_STD || k == KREDUCE_NORM1 ||
         k == KREDUCE_NORM2;
}

static reduce_task make_task(const reduce_args *p) {
  reduce_task t = {.kind = p->kind,
                   .x = &p->x,
                   .out = &p->out,
                   .divisor = p->divisor,
                   .kept = make_part(&p->kept),
                   .reduced = make_part(&p->over)};
  bool is_integer = compute_class_of(p->x.type) == COMPUTE_I64 && !is_float_kind(p->kind);
  t.c = is_integer ? COMPUTE_I64 : COMPUTE_F64;
  t.chunk = (t.reduced.n + SPLIT_CHUNKS - 1) / SPLIT_CHUNKS;
  if (t.chunk < SPLIT_SIZE / 4) t.chunk = SPLIT_SIZE / 4;
  t.n_chunks = (t.reduced.n + t.chunk - 1) / t.chunk;
  return t;
}

static size_t reduce_scratch(const kernel_context *ctx, const void *args) {
  (void)ctx;
  reduce_task t = make_task(args);
  return is_split(&t) ? kernel_scratch_size((size_t)(t.kept.n * t.n_chunks) * sizeof *t.partial)
                      : 0;
}

static bool reduce(const kernel_context *ctx, const void *args) {
  reduce_task t = make_task(args);
  if (is_split(&t)) return reduce_split(ctx, &t);
  ctx->parallel_for(ctx->pool, t.kept.n, grain_for(&t),
                    reduces_lanes(&t) ? reduce_lanes : reduce_outputs, &t);
  return true;
}

const kernel_desc kernel_reduce = {
    .name = "reduce",
    .run = reduce,
    .scratch = reduce_scratch,
    .args_size = sizeof(reduce_args),
    .operands = {OPERAND(reduce_args, x), OPERAND(reduce_args, out)}};

/* ---------------------------------------------------------------- arg_reduce */

/* The first position in x of a value above (below) *best, which it replaces; a NaN beats all
 * others; -1 if none. */
static int64_t better_f64(const double *x, int64_t n, bool minimum, double *best) {
  int64_t at = -1;
  for (int64_t i = 0; i < n && !isnan(*best); i++) {
    if (!(isnan(x[i]) || (minimum ? x[i] < *best : x[i] > *best))) continue;
    *best = x[i];
    at = i;
  }
  return at;
}

static int64_t better_i64(const int64_t *x, int64_t n, bool minimum, int64_t *best) {
  int64_t at = -1;
  for (int64_t i = 0; i < n; i++) {
    if (minimum ? x[i] >= *best : x[i] <= *best) continue;
    *best = x[i];
    at = i;
  }
  return at;
}

static int64_t find_extreme(const reduce_task *t, int64_t k) {
  row_block block;
  int64_t base = output_offset(&t->kept, k), found = 0;
  double best_f = t->minimum ? INFINITY : -INFINITY;
  int64_t best_i = t->minimum ? INT64_MAX : INT64_MIN;
  for (int64_t at = 0; at < t->reduced.n;) {
    int64_t n = gather_block(t, &t->reduced, base, at, t->reduced.n, &block);
    int64_t i = t->c == COMPUTE_I64 ? better_i64(block.i64, n, t->minimum, &best_i)
                                    : better_f64(block.f64, n, t->minimum, &best_f);
    if (i >= 0) found = at + i;
    at += n;
  }
  return found;
}

static void find_extremes(void *ctx, int64_t begin, int64_t end) {
  const reduce_task *t = ctx;
  int64_t *out = t->out->data;
  for (int64_t k = begin; k < end; k++) out[k] = find_extreme(t, k);
}

static bool arg_reduce(const kernel_context *ctx, const void *args) {
  const arg_reduce_args *p = args;
  reduce_task t = {.x = &p->x,
                   .out = &p->out,
                   .minimum = p->minimum,
                   .kept = make_part(&p->kept),
                   .reduced = make_part(&p->over)};
  t.c = compute_class_of(p->x.type) == COMPUTE_I64 ? COMPUTE_I64 : COMPUTE_F64;
  ctx->parallel_for(ctx->pool, t.kept.n, grain_for(&t), find_extremes, &t);
  return true;
}

const kernel_desc kernel_arg_reduce = {
    .name = "arg_reduce",
    .run = arg_reduce,
    .args_size = sizeof(arg_reduce_args),
    .operands = {OPERAND(arg_reduce_args, x), OPERAND(arg_reduce_args, out)}};
