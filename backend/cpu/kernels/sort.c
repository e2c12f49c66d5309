/* Stable sorting of rows by words of 64 bits. The high half is 32 bits of a key, an unsigned
 * integer that ascends in the wanted order. The low half is the position of the element. Keys of 64
 * bits are sorted by their low half first, then by their high half. If few elements are wanted,
 * only those are kept while a row is read. */
#include "backend/cpu/kernels/sort.h"

#include <string.h>

#include "backend/cpu/kernels/sort_words.h"
#include "backend/cpu/kernels/support/rows.h"
#include "backend/cpu/kernels/support/slots.h"
#include "backend/cpu/kernels/support/vec4.h"
#include "backend/cpu/kernels/support/walk.h"
#include "base/counts.h"

enum {
  ROW_WORK = 4096,     /* elements that justify waking a thread */
  FEW = 8,             /* only the first k are kept while reading if k < n / FEW */
  MIN_KEPT = 256,      /* least number of candidates */
  GROUP = 16,          /* keys that are compared at once */
  MIN_SHARE = 1 << 15, /* minimum elements of a row per additional thread */
  MAX_SHARES = 64
};
static const uint64_t HIGH = UINT64_C(0xffffffff) << 32;

/* ---------------------------------------------------------------- keys */

static bool is_long(dtype t) { return t == DTYPE_F64 || t == DTYPE_I64; }

/* Returns the key of a float. NaN is the greatest number; -0.0 has the key of 0.0. */
static uint32_t key_of_f32(uint32_t bits) {
  const uint32_t size = bits & 0x7fffffffu, sign = 0x80000000u;
  const uint32_t key = size == 0 ? sign : bits & sign ? ~bits : bits | sign;
  return size > 0x7f800000u ? UINT32_MAX : key;
}

/* Returns a float that has the key. */
static float f32_of_key(uint32_t key) {
  const uint32_t sign = 0x80000000u, bits = key & sign ? key ^ sign : ~key;
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static uint64_t key_of_f64(uint64_t bits) {
  const uint64_t sign = UINT64_C(1) << 63, size = bits & ~sign;
  const uint64_t key = size == 0 ? sign : bits & sign ? ~bits : bits | sign;
  return size > UINT64_C(0x7ff) << 52 ? UINT64_MAX : key;
}

/* Keys of a block of a row; the key type selects the member. */
typedef union key_block {
  uint32_t bits[ROW_BLOCK];
  uint64_t long_bits[ROW_BLOCK];
  row_block x;
} key_block;

/* Converts n elements in the block to keys in place. */
static void make_keys(compute_type c, int64_t n, uint32_t flip, key_block *block) {
  uint32_t *to = block->bits;
  if (c == COMPUTE_F32)
    for (int64_t i = 0; i < n; i++) to[i] = key_of_f32(to[i]) ^ flip;
  else
    for (int64_t i = 0; i < n; i++) to[i] = (uint32_t)block->long_bits[i] ^ 0x80000000u ^ flip;
}

static void make_long_keys(compute_type c, int64_t n, uint64_t flip, uint64_t *to) {
  if (c == COMPUTE_F64)
    for (int64_t i = 0; i < n; i++) to[i] = key_of_f64(to[i]) ^ flip;
  else
    for (int64_t i = 0; i < n; i++) to[i] ^= UINT64_C(1) << 63 ^ flip;
}

/* Loads the keys of elements [first, first + n) of the row at x, n <= ROW_BLOCK. */
static void load_keys(const sort_args *args, const char *x, int64_t first, int64_t n,
                      key_block *to) {
  const compute_type c = compute_type_of(args->x.type);
  const int64_t stride = args->x.strides[args->x.rank - 1];
  load_row(c, args->x.type, element_at(x, args->x.type, first * stride), stride, n, &to->x);
  if (is_long(args->x.type))
    make_long_keys(c, n, args->descending ? UINT64_MAX : 0, to->long_bits);
  else
    make_keys(c, n, args->descending ? UINT32_MAX : 0, to);
}

/* ---------------------------------------------------------------- sorting keys */

/* Memory of a sort of at most n elements. */
typedef struct sort_workspace {
  uint64_t *keys, *a, *b; /* (n) each; keys: whole keys, unused for rows of short keys */
} sort_workspace;

static size_t workspace_bytes(int64_t n, bool with_keys) {
  size_t bytes;
  if (__builtin_mul_overflow((size_t)n, (with_keys ? 3 : 2) * sizeof(uint64_t), &bytes))
    return SIZE_MAX / 2; /* more than any machine has */
  return bytes;
}

static sort_workspace workspace_at(char *scratch, int64_t n) {
  uint64_t *a = (uint64_t *)(void *)scratch;
  return (sort_workspace){.a = a, .b = a + n, .keys = a + 2 * n};
}

/* Replaces the low half of keys in words by the high half. */
static void next_half(const uint64_t *keys, int64_t n, uint64_t *words) {
  for (int64_t i = 0; i < n; i++) {
    const uint64_t place = words[i] & ~HIGH;
    words[i] = (keys[place] & HIGH) | place;
  }
}

/* Sorts the n words in workspace->a. Returns workspace->a or workspace->b, whichever has the
 * result. pool NULL: sorts on the calling thread. */
static const uint64_t *sorted_words(const sort_workspace *workspace, int64_t n, bool long_keys,
                                    const sort_pool *pool) {
  uint64_t *now = sort_words(workspace->a, workspace->b, n, pool);
  if (!long_keys) return now;
  next_half(workspace->keys, n, now);
  return sort_words(now, now == workspace->a ? workspace->b : workspace->a, n, pool);
}

/* Returns the word of the element at `place`. It has the key, or the low half of a long key. */
static uint64_t first_word(uint64_t key, int64_t place) { return key << 32 | (uint64_t)place; }

/* Reads elements [from, end) of a row into the workspace of the whole row. */
static void kernel_sort_read_row(const sort_args *args, const char *x, int64_t from, int64_t end,
                                 const sort_workspace *workspace) {
  const bool long_keys = is_long(args->x.type);
  key_block block;
  for (int64_t at = from; at < end; at += ROW_BLOCK) {
    const int64_t n = min_i64(ROW_BLOCK, end - at);
    load_keys(args, x, at, n, &block);
    if (long_keys) {
      memcpy(workspace->keys + at, block.long_bits, (size_t)n * sizeof *workspace->keys);
      for (int64_t i = 0; i < n; i++) workspace->a[at + i] = first_word(block.long_bits[i], at + i);
    } else {
      for (int64_t i = 0; i < n; i++) workspace->a[at + i] = first_word(block.bits[i], at + i);
    }
  }
}

/* ---------------------------------------------------------------- the first k */

/* Candidates for the first k elements among those read so far. */
typedef struct kept {
  uint64_t *keys, *places; /* (capacity) each */
  uint64_t last;           /* once k elements are kept, a further key must be below this one */
  int64_t count, k, capacity;
  bool long_keys, full;
  sort_workspace workspace; /* keys: as in sort_workspace */
} kept;

static int64_t capacity_of(int64_t k) { return k < MIN_KEPT / 2 ? MIN_KEPT : 2 * k; }
static size_t kept_bytes(int64_t k) {
  const size_t three = workspace_bytes(capacity_of(k), true);
  return three + three / 3;
}

static kept kept_at(const sort_args *args, char *scratch) {
  const int64_t capacity = capacity_of(args->k);
  const sort_workspace workspace = workspace_at(scratch, capacity);
  return (kept){.keys = workspace.keys,
                .places = workspace.keys + capacity,
                .k = args->k,
                .capacity = capacity,
                .long_keys = is_long(args->x.type),
                .workspace = workspace};
}

/* Reduces the candidates to the first k, in order. */
static void kernel_sort_reduce(kept *kept) {
  for (int64_t i = 0; i < kept->count; i++) kept->workspace.a[i] = first_word(kept->keys[i], i);
  const uint64_t *words = sorted_words(&kept->workspace, kept->count, kept->long_keys, NULL);
  uint64_t *keys = words == kept->workspace.a ? kept->workspace.b : kept->workspace.a,
           *places = (uint64_t *)words;
  const int64_t n = min_i64(kept->count, kept->k);
  for (int64_t i = 0; i < n; i++) {
    const uint64_t from = words[i] & ~HIGH;
    keys[i] = kept->keys[from];
    places[i] = kept->places[from];
  }
  memcpy(kept->keys, keys, (size_t)n * sizeof *keys);
  memcpy(kept->places, places, (size_t)n * sizeof *places);
  kept->count = n;
  kept->full = n == kept->k;
  kept->last = keys[n - 1];
}

static void kernel_sort_keep(kept *kept, uint64_t key, uint64_t place) {
  kept->keys[kept->count] = key;
  kept->places[kept->count++] = place;
  if (kept->count == kept->capacity) kernel_sort_reduce(kept);
}

static void kernel_sort_offer(kept *kept, uint64_t key, int64_t place) {
  if (!kept->full || key < kept->last) kernel_sort_keep(kept, key, (uint64_t)place);
}

/* Adds those of GROUP keys that are among the first k so far. The first key is at position `at`. */
static void offer_group(kept *kept, const uint32_t *keys, int64_t at) {
  if (kept->count > kept->capacity - GROUP) kernel_sort_reduce(kept);
  const uint64_t last = kept->full ? kept->last : UINT64_MAX;
  for (int64_t i = 0; i < GROUP; i++) {
    kept->keys[kept->count] = keys[i];
    kept->places[kept->count] = (uint64_t)(at + i);
    kept->count += keys[i] < last;
  }
}

/* True if none of GROUP keys would be kept. */
static bool passes(const kept *kept, const uint32_t *keys) {
  const int4 zero = {0}, sign = zero + INT32_MIN, last = (zero + (int32_t)kept->last) ^ sign;
  int4 below = zero;
  uint64_t any[2];
  for (int i = 0; i < GROUP; i += 4) {
    int4 four;
    memcpy(&four, keys + i, sizeof four);
    below |= (four ^ sign) < last;
  }
  memcpy(any, &below, sizeof any);
  return kept->full && !(any[0] | any[1]);
}

static void keep_keys(const uint32_t *keys, int64_t n, int64_t at, kept *kept) {
  int64_t i = 0;
  for (; i + GROUP <= n; i += GROUP)
    if (!passes(kept, keys + i)) offer_group(kept, keys + i, at + i);
  for (; i < n; i++) kernel_sort_offer(kept, keys[i], at + i);
}

/* Returns the number of leading groups of x (n) that have no element to keep. It does not compute
 * keys. A group with a NaN always counts as one to read. */
static int64_t groups_to_pass(const kept *kept, const float *x, int64_t n, uint32_t flip) {
  const float last = f32_of_key((uint32_t)kept->last ^ flip);
  const vec4 sign = vec4_fill(flip ? -1 : 1), bound = vec4_fill(last) * sign;
  int64_t i = 0;
  for (; i + GROUP <= n; i += GROUP) {
    int4 above = {-1, -1, -1, -1};
    uint64_t all[2];
    for (int64_t k = i; k < i + GROUP; k += 4) above &= vec4_load(x + k) * sign >= bound;
    memcpy(all, &above, sizeof all);
    if ((all[0] & all[1]) != UINT64_MAX) break;
  }
  return i / GROUP;
}

static void keep_floats(const float *x, int64_t from, int64_t end, uint32_t flip, kept *kept) {
  key_block block;
  for (int64_t at = from; at < end;) {
    if (kept->full) at += groups_to_pass(kept, x + at, end - at, flip) * GROUP;
    const int64_t n = min_i64(GROUP, end - at);
    memcpy(block.bits, x + at, (size_t)n * sizeof *x);
    make_keys(COMPUTE_F32, n, flip, &block);
    keep_keys(block.bits, n, at, kept);
    at += n;
  }
}

/* Keeps the first k elements of [from, end). Among equal keys, those read first are kept. */
static void keep_blocks(const sort_args *args, const char *x, int64_t from, int64_t end,
                        kept *kept) {
  key_block block;
  for (int64_t at = from; at < end; at += ROW_BLOCK) {
    const int64_t n = min_i64(ROW_BLOCK, end - at);
    load_keys(args, x, at, n, &block);
    if (kept->long_keys)
      for (int64_t i = 0; i < n; i++) kernel_sort_offer(kept, block.long_bits[i], at + i);
    else
      keep_keys(block.bits, n, at, kept);
  }
}

static void keep_row(const sort_args *args, const char *x, int64_t from, int64_t end, kept *kept) {
  if (args->x.type == DTYPE_F32 && args->x.strides[args->x.rank - 1] == 1)
    keep_floats((const float *)(const void *)x, from, end, args->descending ? UINT32_MAX : 0, kept);
  else
    keep_blocks(args, x, from, end, kept);
  if (kept->count > 0) kernel_sort_reduce(kept);
}

/* ---------------------------------------------------------------- rows */

typedef struct row_at {
  const char *x;
  char *out;
  int64_t *indices; /* NULL: not wanted */
} row_at;

static row_at kernel_sort_find_row(const sort_args *args, int64_t row) {
  walk w = {.rank = args->x.rank - 1, .dims = args->x.dims};
  walk_add(&w, args->x.strides);
  walk_add(&w, args->out.strides);
  walk_seek(&w, row);
  return (row_at){element_at(args->x.data, args->x.type, w.offset[0]),
                  element_at(args->out.data, args->out.type, w.offset[1]),
                  args->indices.data ? (int64_t *)args->indices.data + w.offset[1] : NULL};
}

/* Stores results [from, end) of a row; the low halves of words are the positions. */
static void store_row_results(const sort_args *args, const row_at *at, const uint64_t *words,
                              int64_t from, int64_t end) {
  const int64_t size = (int64_t)dtype_size(args->x.type),
                x_stride = args->x.strides[args->x.rank - 1] * size,
                out_stride = args->out.strides[args->out.rank - 1];
  if (size == 4)
    for (int64_t i = from; i < end; i++)
      memcpy(at->out + i * out_stride * 4, at->x + (int64_t)(words[i] & ~HIGH) * x_stride, 4);
  else
    for (int64_t i = from; i < end; i++)
      memcpy(at->out + i * out_stride * size, at->x + (int64_t)(words[i] & ~HIGH) * x_stride,
             (size_t)size);
  if (!at->indices) return;
  for (int64_t i = from; i < end; i++) at->indices[i * out_stride] = (int64_t)(words[i] & ~HIGH);
}

static void sort_one(const void *user, int64_t row, char *scratch) {
  const sort_args *args = user;
  const row_at at = kernel_sort_find_row(args, row);
  const sort_workspace workspace = workspace_at(scratch, args->n);
  kernel_sort_read_row(args, at.x, 0, args->n, &workspace);
  store_row_results(args, &at, sorted_words(&workspace, args->n, is_long(args->x.type), NULL), 0,
                    args->k);
}

static void keep_one(const void *user, int64_t row, char *scratch) {
  const sort_args *args = user;
  const row_at at = kernel_sort_find_row(args, row);
  kept kept = kept_at(args, scratch);
  keep_row(args, at.x, 0, args->n, &kept);
  store_row_results(args, &at, kept.places, 0, args->k);
}

/* ---------------------------------------------------------------- a row by several threads */

typedef struct row_shares {
  const sort_args *args;
  row_at at;
  sort_workspace workspace;
  const uint64_t *words; /* the sorted words */
  char *scratch;         /* kept_bytes of each share */
  int64_t shares;
} row_shares;

static int64_t kernel_sort_share_begin(const row_shares *shares, int64_t n, int64_t share) {
  return share_begin(n, shares->shares, share);
}

static void kernel_sort_read_shares(void *ctx, int64_t begin, int64_t end) {
  const row_shares *shares = ctx;
  const int64_t from = kernel_sort_share_begin(shares, shares->args->n, begin);
  kernel_sort_read_row(shares->args, shares->at.x, from,
                       kernel_sort_share_begin(shares, shares->args->n, end), &shares->workspace);
}

static void store_shares(void *ctx, int64_t begin, int64_t end) {
  const row_shares *shares = ctx;
  store_row_results(shares->args, &shares->at, shares->words,
                    kernel_sort_share_begin(shares, shares->args->k, begin),
                    kernel_sort_share_begin(shares, shares->args->k, end));
}

static void sort_by_shares(const kernel_context *ctx, row_shares *shares, uint32_t *counts) {
  const sort_pool pool = {ctx, shares->shares, counts};
  ctx->parallel_for(ctx->pool, shares->shares, 1, kernel_sort_read_shares, shares);
  shares->words =
      sorted_words(&shares->workspace, shares->args->n, is_long(shares->args->x.type), &pool);
  ctx->parallel_for(ctx->pool, shares->shares, 1, store_shares, shares);
}

static void keep_shares(void *ctx, int64_t begin, int64_t end) {
  const row_shares *shares = ctx;
  for (int64_t i = begin; i < end; i++) {
    kept kept = kept_at(shares->args, shares->scratch + (size_t)i * kept_bytes(shares->args->k));
    keep_row(shares->args, shares->at.x, kernel_sort_share_begin(shares, shares->args->n, i),
             kernel_sort_share_begin(shares, shares->args->n, i + 1), &kept);
  }
}

/* Finds the first k elements of each share, then the first k of all shares' results. */
static void keep_by_shares(const kernel_context *ctx, row_shares *shares) {
  const size_t bytes = kept_bytes(shares->args->k);
  ctx->parallel_for(ctx->pool, shares->shares, 1, keep_shares, shares);
  kept all = kept_at(shares->args, shares->scratch + (size_t)shares->shares * bytes);
  for (int64_t share = 0; share < shares->shares; share++) {
    const kept share_kept = kept_at(shares->args, shares->scratch + (size_t)share * bytes);
    const int64_t n = kernel_sort_share_begin(shares, shares->args->n, share + 1) -
                      kernel_sort_share_begin(shares, shares->args->n, share);
    for (int64_t i = 0; i < min_i64(n, share_kept.k); i++)
      kernel_sort_offer(&all, share_kept.keys[i], (int64_t)share_kept.places[i]);
  }
  kernel_sort_reduce(&all);
  store_row_results(shares->args, &shares->at, all.places, 0, shares->args->k);
}

/* ---------------------------------------------------------------- the kernel */

static int64_t kernel_sort_work_of(const sort_args *args) {
  return args->n_rows * args->n / ROW_WORK;
}
static int64_t tasks_of(const sort_args *args) { return args->k > 0 ? args->n_rows : 0; }
static bool wants_few(const sort_args *args) { return args->k < args->n / FEW; }

/* Returns the number of shares of each row, which is 1 if each row is a task. */
static int64_t kernel_sort_shares_of(const kernel_context *ctx, const sort_args *args) {
  if (tasks_of(args) >= ctx->n_threads) return 1;
  const int64_t shares = min_i64(min_i64(ctx->n_threads, MAX_SHARES), args->n / MIN_SHARE);
  return shares > 1 ? shares : 1;
}

static size_t kernel_sort_row_bytes(const sort_args *args) {
  return wants_few(args) ? kept_bytes(args->k) : workspace_bytes(args->n, is_long(args->x.type));
}

static size_t counts_bytes(int64_t shares) {
  return (size_t)shares * SORT_DIGITS * sizeof(uint32_t);
}

static size_t shares_bytes(const sort_args *args, int64_t shares) {
  if (wants_few(args)) return (size_t)(shares + 1) * kept_bytes(args->k);
  return kernel_sort_row_bytes(args) + counts_bytes(shares);
}

static size_t sort_scratch(const kernel_context *ctx, const void *args) {
  const sort_args *own = args;
  const int64_t shares = kernel_sort_shares_of(ctx, own);
  return shares > 1 ? kernel_scratch_size(shares_bytes(own, shares))
                    : slots_bytes(ctx, tasks_of(own), kernel_sort_work_of(own),
                                  kernel_sort_row_bytes(own));
}

static bool kernel_sort_run_shares(const kernel_context *ctx, const sort_args *args,
                                   int64_t shares) {
  char *scratch = ctx->scratch(ctx->pool, shares_bytes(args, shares));
  if (!scratch) return false;
  row_shares row_shares = {.args = args,
                           .shares = shares,
                           .scratch = scratch,
                           .workspace = workspace_at(scratch, args->n)};
  for (int64_t row = 0; row < tasks_of(args); row++) {
    row_shares.at = kernel_sort_find_row(args, row);
    if (wants_few(args))
      keep_by_shares(ctx, &row_shares);
    else
      sort_by_shares(ctx, &row_shares, (uint32_t *)(void *)(scratch + kernel_sort_row_bytes(args)));
  }
  return true;
}

static bool sort(const kernel_context *ctx, const void *args) {
  const sort_args *own = args;
  const int64_t shares = kernel_sort_shares_of(ctx, own);
  if (shares > 1) return kernel_sort_run_shares(ctx, own, shares);
  return run_slots(ctx, tasks_of(own), kernel_sort_work_of(own), kernel_sort_row_bytes(own),
                   wants_few(own) ? keep_one : sort_one, own);
}

const kernel_desc kernel_sort = {
    .name = "sort",
    .run = sort,
    .scratch = sort_scratch,
    .args_size = sizeof(sort_args),
    .operands = {OPERAND(sort_args, x), OPERAND(sort_args, out), OPERAND(sort_args, indices)}};
