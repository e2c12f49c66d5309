/* Stable merge sort of (key, position) pairs: runs made by insertion, then merged two by two. Of
 * each run only its first k entries are kept, which is what makes a small k cheap. */
#include "backend/cpu/kernels/sort.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/rows.h"
#include "backend/cpu/kernels/slots.h"
#include "backend/cpu/kernels/walk.h"

enum { RUN = 32, LONG_RUN = 1024, ROW_WORK = 4096 };

typedef struct entry {
  uint64_t key; /* in the order wanted */
  int64_t at;
} entry;

/* ---------------------------------------------------------------- keys */

static uint64_t key_of_f64(double v) {
  uint64_t bits;
  if (isnan(v)) return UINT64_MAX;
  if (v == 0) v = 0; /* -0.0 too */
  memcpy(&bits, &v, sizeof bits);
  return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}

static uint64_t key_of_i64(int64_t v) { return (uint64_t)v ^ (uint64_t)1 << 63; }

/* to[i] for element first + i of the row at x, i < n <= ROW_BLOCK. */
static void load_entries(const sort_args *t, const char *x, int64_t first, int64_t n, entry *to) {
  row_block block;
  compute_class c = compute_class_of(t->x.type) == COMPUTE_I64 ? COMPUTE_I64 : COMPUTE_F64;
  int64_t stride = t->x.strides[t->x.rank - 1];
  load_row(c, t->x.type, element_at(x, t->x.type, first * stride), stride, n, &block);
  for (int64_t i = 0; i < n; i++) {
    uint64_t key = c == COMPUTE_I64 ? key_of_i64(block.i64[i]) : key_of_f64(block.f64[i]);
    to[i] = (entry){t->descending ? ~key : key, first + i};
  }
}

/* ---------------------------------------------------------------- runs */

/* Puts e into the sorted run of `count` entries, of which `keep` are kept; returns the new count.
 */
static int64_t insert(entry *run, int64_t count, int64_t keep, entry e) {
  int64_t i = count;
  if (count == keep) {
    if (e.key >= run[count - 1].key) return count;
    i = count - 1;
  }
  for (; i > 0 && run[i - 1].key > e.key; i--) run[i] = run[i - 1];
  run[i] = e;
  return count < keep ? count + 1 : count;
}

/* Makes runs of `keep` entries from stretches of `stretch` elements; returns all their entries. */
static int64_t make_runs(const sort_args *t, const char *x, int64_t stretch, int64_t keep,
                         entry *to) {
  entry block[ROW_BLOCK];
  int64_t made = 0;
  for (int64_t from = 0; from < t->n; from += stretch) {
    int64_t end = from + stretch < t->n ? from + stretch : t->n, count = 0;
    for (int64_t at = from; at < end; at += ROW_BLOCK) {
      int64_t n = end - at < ROW_BLOCK ? end - at : ROW_BLOCK;
      load_entries(t, x, at, n, block);
      for (int64_t i = 0; i < n; i++) count = insert(to + made, count, keep, block[i]);
    }
    made += count;
  }
  return made;
}

/* The first `keep` of the sorted a and b. */
static int64_t merge_two(const entry *a, int64_t n_a, const entry *b, int64_t n_b, int64_t keep,
                         entry *to) {
  int64_t n = n_a + n_b < keep ? n_a + n_b : keep, i = 0, j = 0;
  for (int64_t o = 0; o < n; o++)
    to[o] = i < n_a && (j >= n_b || a[i].key <= b[j].key) ? a[i++] : b[j++];
  return n;
}

/* Merges the runs of *length entries in `from` two by two; returns how many entries are left. */
static int64_t merge_runs(const sort_args *t, const entry *from, int64_t n, int64_t *length,
                          entry *to) {
  int64_t l = *length, keep = 2 * l < t->k ? 2 * l : t->k, made = 0;
  for (int64_t a = 0; a < n; a += 2 * l) {
    int64_t n_a = n - a < l ? n - a : l, rest = n - a - n_a;
    made += merge_two(from + a, n_a, from + a + n_a, rest < l ? rest : l, keep, to + made);
  }
  *length = keep;
  return made;
}

static const entry *sort_row(const sort_args *t, const char *x, entry *a, entry *b) {
  int64_t length = t->k < RUN ? t->k : RUN;
  int64_t n = make_runs(t, x, t->k < RUN ? LONG_RUN : RUN, length, a);
  while (n > length) {
    n = merge_runs(t, a, n, &length, b);
    entry *swap = a;
    a = b;
    b = swap;
  }
  return a;
}

/* ---------------------------------------------------------------- rows */

static void store_values(const sort_args *t, const char *x, const entry *e, char *out) {
  int64_t size = (int64_t)dtype_size(t->x.type), from = t->x.strides[t->x.rank - 1] * size,
          to = t->out.strides[t->out.rank - 1] * size;
  for (int64_t i = 0; i < t->k; i++) memcpy(out + i * to, x + e[i].at * from, (size_t)size);
}

static void sort_one(const void *user, int64_t row, char *scratch) {
  const sort_args *t = user;
  entry *a = (entry *)(void *)scratch;
  walk w = {.rank = t->x.rank - 1, .dims = t->x.dims};
  walk_add(&w, t->x.strides);
  walk_add(&w, t->out.strides);
  walk_seek(&w, row);
  const char *x = element_at(t->x.data, t->x.type, w.offset[0]);
  const entry *sorted = sort_row(t, x, a, a + t->n);
  store_values(t, x, sorted, element_at(t->out.data, t->out.type, w.offset[1]));
  if (!t->indices.data) return;
  int64_t *at = (int64_t *)t->indices.data + w.offset[1];
  int64_t step = t->out.strides[t->out.rank - 1];
  for (int64_t i = 0; i < t->k; i++) at[i * step] = sorted[i].at;
}

/* Of a row; more than there is where the number is too large. */
static size_t entry_bytes(const sort_args *t) {
  size_t bytes;
  return __builtin_mul_overflow((size_t)t->n, 2 * sizeof(entry), &bytes) ? SIZE_MAX : bytes;
}

static int64_t work_of(const sort_args *t) { return t->n_rows * t->n / ROW_WORK; }
static int64_t tasks_of(const sort_args *t) { return t->k > 0 ? t->n_rows : 0; }

static size_t sort_scratch(const kernel_context *ctx, const void *args) {
  const sort_args *t = args;
  return slots_bytes(ctx, tasks_of(t), work_of(t), entry_bytes(t));
}

static bool sort(const kernel_context *ctx, const void *args) {
  const sort_args *t = args;
  return run_slots(ctx, tasks_of(t), work_of(t), entry_bytes(t), sort_one, t);
}

const kernel_desc kernel_sort = {
    .name = "sort",
    .run = sort,
    .scratch = sort_scratch,
    .args_size = sizeof(sort_args),
    .operands = {OPERAND(sort_args, x), OPERAND(sort_args, out), OPERAND(sort_args, indices)}};
