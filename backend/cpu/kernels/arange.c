/* Arange: rows of progressions, rounded once into the output's dtype. Full is one with step 0. */
#include "backend/cpu/kernels/arange.h"

#include "backend/cpu/kernels/rows.h"

enum { GRAIN = 16 * 1024 };

typedef struct arange_task {
  const ktensor *out; /* contiguous */
  double start, step;
  uint64_t start_int, step_int;
} arange_task;

static void arange_float(void *ctx, int64_t begin, int64_t end) {
  const arange_task *t = ctx;
  double row[ROW_BLOCK];
  for (int64_t at = begin; at < end; at += ROW_BLOCK) {
    int64_t n = end - at < ROW_BLOCK ? end - at : ROW_BLOCK;
    for (int64_t i = 0; i < n; i++)
      row[i] = t->step == 0 ? t->start : t->start + (double)(at + i) * t->step;
    store_row(COMPUTE_F64, t->out->type, element_at(t->out->data, t->out->type, at), 1, n, row);
  }
}

static void arange_int(void *ctx, int64_t begin, int64_t end) {
  const arange_task *t = ctx;
  int64_t row[ROW_BLOCK];
  for (int64_t at = begin; at < end; at += ROW_BLOCK) {
    int64_t n = end - at < ROW_BLOCK ? end - at : ROW_BLOCK;
    for (int64_t i = 0; i < n; i++)
      row[i] = (int64_t)(t->start_int + (uint64_t)(at + i) * t->step_int);
    store_row(COMPUTE_I64, t->out->type, element_at(t->out->data, t->out->type, at), 1, n, row);
  }
}

void kernel_arange_float(const kernel_context *ctx, double start, double step, const ktensor *out) {
  arange_task t = {.out = out, .start = start, .step = step};
  ctx->parallel_for(ctx->pool, ktensor_numel(out), GRAIN, arange_float, &t);
}

void kernel_arange_int(const kernel_context *ctx, int64_t start, int64_t step, const ktensor *out) {
  arange_task t = {.out = out, .start_int = (uint64_t)start, .step_int = (uint64_t)step};
  ctx->parallel_for(ctx->pool, ktensor_numel(out), GRAIN, arange_int, &t);
}
