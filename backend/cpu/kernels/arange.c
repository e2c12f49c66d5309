/* Arange: arithmetic progressions, rounded once to the dtype of the output. Full is a progression
 * with step 0. */
#include "backend/cpu/kernels/arange.h"

#include "backend/cpu/kernels/support/rows.h"

enum { GRAIN = 16 * 1024 };

static void float_range(void *ctx, int64_t begin, int64_t end) {
  const arange_args *args = ctx;
  double row[ROW_BLOCK];
  for (int64_t at = begin; at < end; at += ROW_BLOCK) {
    int64_t n = end - at < ROW_BLOCK ? end - at : ROW_BLOCK;
    for (int64_t i = 0; i < n; i++)
      row[i] = args->step == 0 ? args->start : args->start + (double)(at + i) * args->step;
    store_row(COMPUTE_F64, args->type, element_at(args->out, args->type, at), 1, n, row);
  }
}

static void int_range(void *ctx, int64_t begin, int64_t end) {
  const arange_args *args = ctx;
  uint64_t start = (uint64_t)args->int_start, step = (uint64_t)args->int_step;
  int64_t row[ROW_BLOCK];
  for (int64_t at = begin; at < end; at += ROW_BLOCK) {
    int64_t n = end - at < ROW_BLOCK ? end - at : ROW_BLOCK;
    for (int64_t i = 0; i < n; i++) row[i] = (int64_t)(start + (uint64_t)(at + i) * step);
    store_row(COMPUTE_I64, args->type, element_at(args->out, args->type, at), 1, n, row);
  }
}

static bool arange(const kernel_context *ctx, const void *args) {
  arange_args own = *(const arange_args *)args;
  bool is_float = compute_type_of(own.type) != COMPUTE_I64;
  ctx->parallel_for(ctx->pool, own.n, GRAIN, is_float ? float_range : int_range, &own);
  return true;
}

const kernel_desc kernel_arange = {.name = "arange",
                                   .run = arange,
                                   .args_size = sizeof(arange_args),
                                   .operands = {OPERAND(arange_args, out)}};
