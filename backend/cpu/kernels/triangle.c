/* Triangle: each row is a copied part and a zeroed part. */
#include "backend/cpu/kernels/triangle.h"

#include <string.h>

#include "backend/cpu/kernels/copy.h"
#include "backend/cpu/kernels/support/walk.h"

enum { GRAIN = 16 * 1024 /* elements worth a thread */ };

/* The first column of row i that belongs to the upper part (upper), or the first beyond the lower
 * part. */
static int64_t boundary(const triangle_args *p, int64_t i) {
  int64_t n = p->columns, column;
  if (__builtin_add_overflow(i, p->diagonal, &column)) return p->diagonal < 0 ? 0 : n;
  if (!p->upper && column < n) column++;
  return column < 0 ? 0 : column > n ? n : column;
}

static void triangle_rows(void *ctx, int64_t begin, int64_t end) {
  const triangle_args *p = ctx;
  int64_t n = p->columns, size = (int64_t)dtype_size(p->x.type);
  walk w = {.rank = p->x.rank, .dims = p->x.dims};
  walk_add(&w, p->x.strides);
  walk_seek(&w, begin);
  for (int64_t r = begin; r < end; r++, walk_next(&w)) {
    int64_t split = boundary(p, w.index[p->x.rank - 1]);
    int64_t first = p->upper ? split : 0, stop = p->upper ? n : split;
    char *out = (char *)p->out.data + r * n * size;
    const char *row = (const char *)p->x.data + w.offset[0] * size;
    memset(out, 0, (size_t)(first * size));
    copy_row((size_t)size, stop - first, row + first * p->step * size, p->step, out + first * size,
             1);
    memset(out + stop * size, 0, (size_t)((n - stop) * size));
  }
}

static bool triangle(const kernel_context *ctx, const void *args) {
  triangle_args p = *(const triangle_args *)args;
  if (p.columns > 0)
    ctx->parallel_for(ctx->pool, p.n_rows, GRAIN / p.columns + 1, triangle_rows, &p);
  return true;
}

const kernel_desc kernel_triangle = {
    .name = "triangle",
    .run = triangle,
    .args_size = sizeof(triangle_args),
    .operands = {OPERAND(triangle_args, x), OPERAND(triangle_args, out)}};
