/* Running sums and products, row by row in blocks. */
#include "backend/cpu/kernels/cumulate.h"

#include "backend/cpu/kernels/rows.h"
#include "backend/cpu/kernels/walk.h"

typedef struct cumulate_task {
  bool product;
  const ktensor *x, *out;
} cumulate_task;

static double cumulate_f64(bool product, double *x, int64_t n, double value) {
  for (int64_t i = 0; i < n; i++) x[i] = value = product ? value * x[i] : value + x[i];
  return value;
}

static int64_t cumulate_i64(bool product, int64_t *x, int64_t n, int64_t start) {
  uint64_t value = (uint64_t)start;
  for (int64_t i = 0; i < n; i++) {
    value = product ? value * (uint64_t)x[i] : value + (uint64_t)x[i];
    x[i] = (int64_t)value;
  }
  return (int64_t)value;
}

static void cumulate_row(const cumulate_task *t, const char *from, char *to) {
  const ktensor *x = t->x, *out = t->out;
  compute_class c = compute_class_of(x->type) == COMPUTE_I64 ? COMPUTE_I64 : COMPUTE_F64;
  int last = x->rank - 1;
  double row_f[ROW_BLOCK], value_f = t->product;
  int64_t row_i[ROW_BLOCK], value_i = t->product;
  void *row = c == COMPUTE_I64 ? (void *)row_i : (void *)row_f;
  for (int64_t at = 0; at < x->dims[last]; at += ROW_BLOCK) {
    int64_t n = x->dims[last] - at < ROW_BLOCK ? x->dims[last] - at : ROW_BLOCK;
    load_row(c, x->type, element_at(from, x->type, at * x->strides[last]), x->strides[last], n,
             row);
    if (c == COMPUTE_I64) {
      value_i = cumulate_i64(t->product, row_i, n, value_i);
    } else {
      value_f = cumulate_f64(t->product, row_f, n, value_f);
    }
    store_row(c, out->type, element_at(to, out->type, at * out->strides[last]), out->strides[last],
              n, row);
  }
}

static void cumulate_rows(void *ctx, int64_t begin, int64_t end) {
  const cumulate_task *t = ctx;
  walk w = {.rank = t->x->rank - 1, .dims = t->x->dims};
  walk_add(&w, t->x->strides);
  walk_add(&w, t->out->strides);
  walk_seek(&w, begin);
  for (int64_t r = begin; r < end; r++, walk_next(&w))
    cumulate_row(t, element_at(t->x->data, t->x->type, w.offset[0]),
                 element_at(t->out->data, t->out->type, w.offset[1]));
}

void kernel_cumulate(const kernel_context *ctx, bool product, const ktensor *x,
                     const ktensor *out) {
  int64_t n = ktensor_numel(x);
  if (n == 0) return;
  cumulate_task t = {.product = product, .x = x, .out = out};
  int64_t row = x->dims[x->rank - 1];
  ctx->parallel_for(ctx->pool, n / row, 16 * 1024 / row + 1, cumulate_rows, &t);
}
