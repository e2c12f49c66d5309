/* Arange: rows of progressions, rounded once into the output's dtype. Full is one with step 0. */
#include "backend/cpu/kernels/arange.h"

#include "backend/cpu/kernels/support/rows.h"

enum { GRAIN = 16 * 1024 };

static void float_range(void *ctx, int64_t begin, int64_t end) {
  const arange_args *p = ctx;
  double row[ROW_BLOCK];
  for (int64_t at = begin; at < end; at += ROW_BLOCK) {
    int64_t n = end - at < ROW_BLOCK ? end - at : ROW_BLOCK;
    for (int64_t i = 0; i < n; i++)
      row[i] = p->step == 0 ? p->start : p->start + (double)(at + i) * p->step;
    store_row(COMPUTE_F64, p->type, element_at(p->out, p->type, at), 1, n, row);
  }
}

static void int_range(void *ctx, int64_t begin, int64_t end) {
  const arange_args *p = ctx;
  uint64_t start = (uint64_t)p->int_start, step = (uint64_t)p->int_step;
  int64_t row[ROW_BLOCK];
  for (int64_t at = begin; at < end; at += ROW_BLOCK) {
    int64_t n = end - at < ROW_BLOCK ? end - at : ROW_BLOCK;
    for (int64_t i = 0; i < n; i++) row[i] = (int64_t)(start + (uint64_t)(at + i) * step);
    store_row(COMPUTE_I64, p->type, element_at(p->out, p->type, at), 1, n, row);
  }
}

static bool arange(const kernel_context *ctx, const void *args) {
  arange_args p = *(const arange_args *)args;
  bool is_float = compute_class_of(p.type) != COMPUTE_I64;
  ctx->parallel_for(ctx->pool, p.n, GRAIN, is_float ? float_range : int_range, &p);
  return true;
}

const kernel_desc kernel_arange = {.name = "arange",
                                   .run = arange,
                                   .args_size = sizeof(arange_args),
                                   .operands = {OPERAND(arange_args, out)}};
