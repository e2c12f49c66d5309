/* Binary search: the number of boundaries below x, or with `right` not above it; a NaN x is above
 * all. */
#include "backend/cpu/kernels/search.h"

#include "backend/cpu/kernels/rows.h"

enum { GRAIN = 1024 };

typedef struct search_task {
  const kernel_context *ctx;
  const ksearch *s;
  compute_class c;
} search_task;

static int64_t sorted_place(const search_task *t, int64_t row, int64_t i) {
  const ksearch *s = t->s;
  if (!s->sorter) return row * s->n + i;
  int64_t at = s->sorter[row * s->n + i];
  if (at >= 0 && at < s->n) return row * s->n + at;
  kernel_fault_set(t->ctx->fault, KERNEL_FAULT_INDEX, at, 0, s->n - 1);
  return row * s->n;
}

static int64_t search_f64(const search_task *t, int64_t row, double x) {
  int64_t low = 0, high = t->s->n;
  while (low < high) {
    int64_t mid = low + (high - low) / 2;
    double b;
    load_row(COMPUTE_F64, t->s->boundaries->type,
             element_at(t->s->boundaries->data, t->s->boundaries->type, sorted_place(t, row, mid)),
             1, 1, &b);
    if (t->s->right ? !(b > x) : !(b >= x))
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

static int64_t search_i64(const search_task *t, int64_t row, int64_t x) {
  int64_t low = 0, high = t->s->n;
  while (low < high) {
    int64_t mid = low + (high - low) / 2, b;
    load_row(COMPUTE_I64, t->s->boundaries->type,
             element_at(t->s->boundaries->data, t->s->boundaries->type, sorted_place(t, row, mid)),
             1, 1, &b);
    if (t->s->right ? b <= x : b < x)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

static void search_range(void *ctx, int64_t begin, int64_t end) {
  const search_task *t = ctx;
  const ktensor *x = t->s->x, *out = t->s->out;
  for (int64_t at = begin; at < end; at += ROW_BLOCK) {
    int64_t n = end - at < ROW_BLOCK ? end - at : ROW_BLOCK, found[ROW_BLOCK];
    row_block block;
    load_row(t->c, x->type, element_at(x->data, x->type, at), 1, n, &block);
    for (int64_t i = 0; i < n; i++) {
      int64_t row = t->s->shared ? 0 : (at + i) / t->s->per_row;
      found[i] =
          t->c == COMPUTE_I64 ? search_i64(t, row, block.i64[i]) : search_f64(t, row, block.f64[i]);
    }
    store_row(COMPUTE_I64, out->type, element_at(out->data, out->type, at), 1, n, found);
  }
}

void kernel_search(const kernel_context *ctx, const ksearch *s) {
  search_task t = {.ctx = ctx, .s = s};
  t.c = compute_class_of(s->x->type) == COMPUTE_I64 ? COMPUTE_I64 : COMPUTE_F64;
  ctx->parallel_for(ctx->pool, ktensor_numel(s->x), GRAIN, search_range, &t);
}
