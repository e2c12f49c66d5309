/* Triangle: copies a part of each row and zeroes the rest. */
#include "backend/cpu/kernels/triangle.h"

#include <string.h>

#include "backend/cpu/kernels/copy.h"
#include "backend/cpu/kernels/support/walk.h"

enum { GRAIN = 16 * 1024 /* elements that justify waking a thread */ };

/* Returns the first column of row i that is in the upper part (if `upper`), or the first one after
 * the lower part. */
static int64_t boundary(const triangle_args *args, int64_t i) {
  int64_t n = args->columns, column;
  if (__builtin_add_overflow(i, args->diagonal, &column)) return args->diagonal < 0 ? 0 : n;
  if (!args->upper && column < n) column++;
  return column < 0 ? 0 : column > n ? n : column;
}

static void triangle_rows(void *ctx, int64_t begin, int64_t end) {
  const triangle_args *args = ctx;
  int64_t n = args->columns, size = (int64_t)dtype_size(args->x.type);
  walk w = {.rank = args->x.rank, .dims = args->x.dims};
  walk_add(&w, args->x.strides);
  walk_seek(&w, begin);
  for (int64_t r = begin; r < end; r++, walk_next(&w)) {
    int64_t split = boundary(args, w.index[args->x.rank - 1]);
    int64_t first = args->upper ? split : 0, stop = args->upper ? n : split;
    char *out = (char *)args->out.data + r * n * size;
    const char *row = (const char *)args->x.data + w.offset[0] * size;
    memset(out, 0, (size_t)(first * size));
    copy_row((size_t)size, stop - first, row + first * args->step * size, args->step,
             out + first * size, 1);
    memset(out + stop * size, 0, (size_t)((n - stop) * size));
  }
}

static bool triangle(const kernel_context *ctx, const void *args) {
  triangle_args own = *(const triangle_args *)args;
  if (own.columns > 0)
    ctx->parallel_for(ctx->pool, own.n_rows, GRAIN / own.columns + 1, triangle_rows, &own);
  return true;
}

const kernel_desc kernel_triangle = {
    .name = "triangle",
    .run = triangle,
    .args_size = sizeof(triangle_args),
    .operands = {OPERAND(triangle_args, x), OPERAND(triangle_args, out)}};
