/* Softmax by passes over each row in blocks: maximum, sum of exponentials, result. F64 rows compute
 * in double, all others in float with the sum in double. */
#include "backend/cpu/kernels/softmax.h"

#include <math.h>

#include "backend/cpu/kernels/support/rows.h"
#include "backend/cpu/kernels/support/vector.h"
#include "backend/cpu/kernels/support/walk.h"

enum { GRAIN = 4 * 1024 /* elements that justify waking a thread */ };

/* A row of n elements of the operand or of the result. */
typedef struct row {
  char *data;
  dtype type;
  int64_t stride, n; /* stride: in elements */
} row;

static int64_t block_size(const row *row, int64_t at) {
  return row->n - at < ROW_BLOCK ? row->n - at : ROW_BLOCK;
}

static void load_block(compute_type c, const row *row, int64_t at, void *block) {
  load_row(c, row->type, element_at(row->data, row->type, at * row->stride), row->stride,
           block_size(row, at), block);
}

static void kernel_softmax_store_block(compute_type c, const row *row, int64_t at,
                                       const void *block) {
  store_row(c, row->type, element_at(row->data, row->type, at * row->stride), row->stride,
            block_size(row, at), block);
}

static float max_f32(const row *row, float *block) {
  float max = -INFINITY;
  for (int64_t at = 0; at < row->n; at += ROW_BLOCK) {
    load_block(COMPUTE_F32, row, at, block);
    float largest = largest_f32(block_size(row, at), block);
    max = largest > max || isnan(largest) ? largest : max;
  }
  return max;
}

static void softmax_row_f32(const row *input, const row *out) {
  float block[ROW_BLOCK], max = max_f32(input, block);
  bool keep = out->type == DTYPE_F32; /* the output keeps the exponentials */
  double sum = 0;
  for (int64_t at = 0; at < input->n; at += ROW_BLOCK) {
    load_block(COMPUTE_F32, input, at, block);
    sum += exponentials_f32(block_size(input, at), max, block, block);
    if (keep) kernel_softmax_store_block(COMPUTE_F32, out, at, block);
  }
  float scale = (float)(1 / sum);
  for (int64_t at = 0; at < input->n; at += ROW_BLOCK) {
    load_block(COMPUTE_F32, keep ? out : input, at, block);
    if (!keep) (void)exponentials_f32(block_size(input, at), max, block, block);
    for (int64_t i = 0; i < block_size(input, at); i++) block[i] *= scale;
    kernel_softmax_store_block(COMPUTE_F32, out, at, block);
  }
}

static void log_softmax_row_f32(const row *input, const row *out) {
  float block[ROW_BLOCK], max = max_f32(input, block);
  double sum = 0;
  for (int64_t at = 0; at < input->n; at += ROW_BLOCK) {
    load_block(COMPUTE_F32, input, at, block);
    sum += exponentials_f32(block_size(input, at), max, block, block);
  }
  float shift = (float)log(sum);
  for (int64_t at = 0; at < input->n; at += ROW_BLOCK) {
    load_block(COMPUTE_F32, input, at, block);
    for (int64_t i = 0; i < block_size(input, at); i++) block[i] = block[i] - max - shift;
    kernel_softmax_store_block(COMPUTE_F32, out, at, block);
  }
}

static void softmax_row_f64(bool is_log, const row *input, const row *out) {
  double block[ROW_BLOCK], max = -INFINITY, sum = 0;
  for (int64_t at = 0; at < input->n; at += ROW_BLOCK) {
    load_block(COMPUTE_F64, input, at, block);
    for (int64_t i = 0; i < block_size(input, at); i++) max = block[i] > max ? block[i] : max;
  }
  for (int64_t at = 0; at < input->n; at += ROW_BLOCK) {
    load_block(COMPUTE_F64, input, at, block);
    for (int64_t i = 0; i < block_size(input, at); i++) sum += exp(block[i] - max);
  }
  double shift = log(sum);
  for (int64_t at = 0; at < input->n; at += ROW_BLOCK) {
    load_block(COMPUTE_F64, input, at, block);
    for (int64_t i = 0; i < block_size(input, at); i++)
      block[i] = is_log ? block[i] - max - shift : exp(block[i] - max) / sum;
    kernel_softmax_store_block(COMPUTE_F64, out, at, block);
  }
}

static void softmax_rows(void *ctx, int64_t begin, int64_t end) {
  const softmax_args *args = ctx;
  const ktensor *x = &args->x, *out = &args->out;
  int last = x->rank - 1;
  walk w = {.rank = last, .dims = x->dims};
  walk_add(&w, x->strides);
  walk_add(&w, out->strides);
  walk_seek(&w, begin);
  for (int64_t r = begin; r < end; r++, walk_next(&w)) {
    row from = {element_at(x->data, x->type, w.offset[0]), x->type, x->strides[last], args->row};
    row to = {element_at(out->data, out->type, w.offset[1]), out->type, out->strides[last],
              args->row};
    if (x->type == DTYPE_F64) {
      softmax_row_f64(args->log, &from, &to);
    } else if (args->log) {
      log_softmax_row_f32(&from, &to);
    } else {
      softmax_row_f32(&from, &to);
    }
  }
}

static bool softmax(const kernel_context *ctx, const void *args) {
  softmax_args own = *(const softmax_args *)args;
  if (own.row > 0)
    ctx->parallel_for(ctx->pool, own.n_rows, GRAIN / own.row + 1, softmax_rows, &own);
  return true;
}

const kernel_desc kernel_softmax = {
    .name = "softmax",
    .run = softmax,
    .args_size = sizeof(softmax_args),
    .operands = {OPERAND(softmax_args, x), OPERAND(softmax_args, out)}};
