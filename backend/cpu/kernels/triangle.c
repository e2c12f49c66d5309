/* Triangle: each row is a copied part and a zeroed part. */
#include "backend/cpu/kernels/triangle.h"

#include <string.h>

#include "backend/cpu/kernels/copy.h"
#include "backend/cpu/kernels/walk.h"

typedef struct triangle_task {
  const ktensor *x, *out;
  int64_t diagonal;
  bool upper;
} triangle_task;

/* The first column of row i that belongs to the upper part (upper), or the first beyond the lower
 * part. */
static int64_t boundary(const triangle_task *t, int64_t i) {
  int64_t n = t->x->dims[t->x->rank - 1], column;
  if (__builtin_add_overflow(i, t->diagonal, &column)) return t->diagonal < 0 ? 0 : n;
  if (!t->upper && column < n) column++;
  return column < 0 ? 0 : column > n ? n : column;
}

static void triangle_rows(void *ctx, int64_t begin, int64_t end) {
  const triangle_task *t = ctx;
  int last = t->x->rank - 1;
  int64_t n = t->x->dims[last], size = (int64_t)dtype_size(t->x->type);
  walk w = {.rank = last, .dims = t->x->dims};
  walk_add(&w, t->x->strides);
  walk_seek(&w, begin);
  for (int64_t r = begin; r < end; r++, walk_next(&w)) {
    int64_t split = boundary(t, w.index[last - 1]);
    int64_t first = t->upper ? split : 0, stop = t->upper ? n : split;
    char *out = (char *)t->out->data + r * n * size;
    const char *row = (const char *)t->x->data + w.offset[0] * size;
    memset(out, 0, (size_t)(first * size));
    copy_row((size_t)size, stop - first, row + first * t->x->strides[last] * size,
             t->x->strides[last], out + first * size, 1);
    memset(out + stop * size, 0, (size_t)((n - stop) * size));
  }
}

void kernel_triangle(const kernel_context *ctx, const ktensor *x, int64_t diagonal, bool upper,
                     const ktensor *out) {
  int64_t n = ktensor_numel(x);
  if (n == 0) return;
  triangle_task t = {.x = x, .out = out, .diagonal = diagonal, .upper = upper};
  int64_t row = x->dims[x->rank - 1];
  ctx->parallel_for(ctx->pool, n / row, 16 * 1024 / row + 1, triangle_rows, &t);
}
