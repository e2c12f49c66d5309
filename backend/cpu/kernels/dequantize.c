/* Rows of encoded constants as plain floats. */
#include "backend/cpu/kernels/dequantize.h"

#include "backend/cpu/kernels/index.h"
#include "backend/cpu/kernels/support/rows.h"
#include "backend/cpu/kernels/support/walk.h"

enum { GRAIN = 16 * 1024 /* elements that justify waking a thread */ };

typedef struct dequantize_task {
  const kernel_context *ctx;
  const dequantize_args *args;
} dequantize_task;

/* Returns the row of place p. */
static int64_t kernel_dequantize_row_at(const dequantize_task *task, const walk *walk, int64_t p) {
  if (!task->args->index.data) return p;
  return load_row_index(task->ctx, &task->args->index, walk->offset[0], task->args->rows);
}

static void kernel_dequantize_decode_row(const dequantize_args *args, int64_t row, int64_t to) {
  code_bytes from =
      (code_bytes)args->x + (size_t)row * encoding_row_bytes(&args->encoding, args->row);
  float x[DECODED_AT_ONCE];
  for (int64_t k = 0; k < args->row; k += DECODED_AT_ONCE) {
    int64_t n = args->row - k < DECODED_AT_ONCE ? args->row - k : DECODED_AT_ONCE;
    encoding_decode(&args->encoding, from, args->row, k / DECODED_AT_ONCE, x);
    store_row(COMPUTE_F32, args->type, element_at(args->out, args->type, to * args->row + k), 1, n,
              x);
  }
}

static void decode_rows(void *ctx, int64_t begin, int64_t end) {
  const dequantize_task *task = ctx;
  walk w = {.rank = task->args->index.rank, .dims = task->args->index.dims};
  walk_add(&w, task->args->index.strides);
  walk_seek(&w, begin);
  for (int64_t p = begin; p < end; p++) {
    int64_t row = kernel_dequantize_row_at(task, &w, p);
    if (task->args->rows > 0) kernel_dequantize_decode_row(task->args, row, p);
    if (task->args->index.data) walk_next(&w);
  }
}

static bool dequantize(const kernel_context *ctx, const void *args) {
  const dequantize_args *own = args;
  dequantize_task task = {ctx, own};
  if (own->n_picks * own->row > 0)
    ctx->parallel_for(ctx->pool, own->n_picks, GRAIN / own->row + 1, decode_rows, &task);
  return true;
}

const kernel_desc kernel_dequantize = {
    .name = "dequantize",
    .run = dequantize,
    .args_size = sizeof(dequantize_args),
    .operands = {OPERAND(dequantize_args, x), OPERAND(dequantize_args, index),
                 OPERAND(dequantize_args, out)}};
