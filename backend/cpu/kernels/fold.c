/* im2col copies elements, with zeros where a window exceeds the plane. col2im adds elements in the
 * order of the kernel and rounds after each addition. */
#include "backend/cpu/kernels/fold.h"

#include <string.h>

#include "backend/cpu/kernels/support/rows.h"

enum { GRAIN = 8 * 1024 };

static void unfold_rows(void *ctx, int64_t begin, int64_t end) {
  const fold_args *args = ctx;
  size_t size = dtype_size(args->type);
  for (int64_t row = begin; row < end; row++) { /* (plane, kernel row, kernel column, window row) */
    int64_t i = row % args->positions[0], k = row / args->positions[0];
    int64_t kx = k % args->kernel[1], ky = k / args->kernel[1] % args->kernel[0];
    int64_t plane = k / args->kernel[1] / args->kernel[0];
    int64_t y = i * args->stride[0] - args->padding[0] + ky * args->dilation[0];
    char *to = element_at(args->out, args->type, row * args->positions[1]);
    for (int64_t j = 0; j < args->positions[1]; j++, to += size) {
      int64_t x = j * args->stride[1] - args->padding[1] + kx * args->dilation[1];
      if (y < 0 || y >= args->size[0] || x < 0 || x >= args->size[1])
        memset(to, 0, size);
      else
        memcpy(to, element_at(args->x, args->type, (plane * args->size[0] + y) * args->size[1] + x),
               size);
    }
  }
}

static bool im2col(const kernel_context *ctx, const void *args) {
  fold_args task = *(const fold_args *)args;
  int64_t rows = task.planes * task.kernel[0] * task.kernel[1] * task.positions[0];
  ctx->parallel_for(ctx->pool, rows, GRAIN / task.positions[1] + 1, unfold_rows, &task);
  return true;
}

/* Finds the window position whose element k covers cell i of dimension d; returns false if none
 * does. */
static bool find_position(const fold_args *args, int d, int64_t i, int64_t k, int64_t *position) {
  int64_t from = i + args->padding[d] - k * args->dilation[d];
  *position = from / args->stride[d];
  return from >= 0 && from % args->stride[d] == 0 && *position < args->positions[d];
}

static void kernel_fold_add_element(compute_type c, dtype t, const void *x, void *sum) {
  union {
    float f;
    double d;
    int64_t i;
  } v;
  load_row(c, t, x, 1, 1, &v);
  if (c == COMPUTE_F32) {
    *(float *)sum += v.f;
    round_row(t, sum, 1);
  } else if (c == COMPUTE_F64) {
    *(double *)sum += v.d;
  } else {
    *(uint64_t *)sum += (uint64_t)v.i;
  }
}

static void fold_element(const fold_args *args, int64_t plane, int64_t y, int64_t x, void *out) {
  compute_type c = compute_type_of(args->type);
  uint64_t sum = 0; /* zero of any class */
  for (int64_t ky = 0; ky < args->kernel[0]; ky++)
    for (int64_t kx = 0; kx < args->kernel[1]; kx++) {
      int64_t i, j;
      if (!find_position(args, 0, y, ky, &i) || !find_position(args, 1, x, kx, &j)) continue;
      int64_t block = (plane * args->kernel[0] + ky) * args->kernel[1] + kx;
      int64_t from = (block * args->positions[0] + i) * args->positions[1] + j;
      kernel_fold_add_element(c, args->type, element_at(args->x, args->type, from), &sum);
    }
  store_row(c, args->type, out, 1, 1, &sum);
}

static void fold_rows(void *ctx, int64_t begin, int64_t end) {
  const fold_args *args = ctx;
  for (int64_t row = begin; row < end; row++)
    for (int64_t x = 0; x < args->size[1]; x++)
      fold_element(args, row / args->size[0], row % args->size[0], x,
                   element_at(args->out, args->type, row * args->size[1] + x));
}

static bool col2im(const kernel_context *ctx, const void *args) {
  fold_args task = *(const fold_args *)args;
  int64_t work = task.size[1] * task.kernel[0] * task.kernel[1];
  ctx->parallel_for(ctx->pool, task.planes * task.size[0], GRAIN / (work + 1) + 1, fold_rows,
                    &task);
  return true;
}

#define FOLD_OPERANDS \
  { OPERAND(fold_args, x), OPERAND(fold_args, out) }
const kernel_desc kernel_im2col = {
    .name = "im2col", .run = im2col, .args_size = sizeof(fold_args), .operands = FOLD_OPERANDS};
const kernel_desc kernel_col2im = {
    .name = "col2im", .run = col2im, .args_size = sizeof(fold_args), .operands = FOLD_OPERANDS};
