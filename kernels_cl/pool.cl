/* Pooling of planes (rows, columns); 1-d planes have one row. A work-item makes an output row (BY_ROW) or
 * one cell of it.
 *   pool_max       the maximum of the window (NaN wins); HAS_INDICES: where, flat in the plane (first, but the last NaN)
 *   pool_average   the sum of the window / divisor (0: the window's size, COUNT_PAD: with its padding)
 *   pool_adaptive  cell i of a dimension covers [floor(i * in / out), ceil((i + 1) * in / out))
 * Windows of more than BLOCK elements are summed by rows of at most BLOCK. */
#include "common.h"
#ifndef X_TYPE
#define X_TYPE F32
#endif
#ifndef HAS_INDICES
#define HAS_INDICES 0
#endif
#ifndef BY_ROW
#define BY_ROW ON_CPU
#endif
#ifndef COUNT_PAD
#define COUNT_PAD 1
#endif
#ifndef MAX
#define MAX 0
#endif
#ifndef BLOCK
#define BLOCK 256
#endif

typedef const __global STORAGE(X_TYPE) *x_pointer;
#if IS_FLOAT(COMPUTE)
#define LOWEST ((real)(-INFINITY))
#define IS_NAN(v) isnan(v)
#else
#define LOWEST LONG_MIN
#define IS_NAN(v) 0
#endif

/* Elements (y, x) with y in [y0, y1) by dy, x in [x0, x1) by dx of a plane. */
static inline real window_max(x_pointer p, index_t columns, int y0, int y1, int dy, int x0, int x1, int dx, long *where) {
  real best = LOWEST;
  long at = (long)y0 * columns + x0;
  for (int y = y0; y < y1; y += dy)
    for (int x = x0; x < x1; x += dx) {
      const index_t i = y * columns + x;
      const real v = LOAD(X_TYPE, p, i);
      const int better = (v > best) | IS_NAN(v); /* selects: branches would be mispredicted */
      best = better ? v : best;
      at = better ? i : at;
    }
  *where = at;
  return best;
}

static inline real window_sum(x_pointer p, index_t columns, int y0, int y1, int x0, int x1) {
  real total = 0;
  for (int y = y0; y < y1; y++) {
    real row = 0;
    for (int from = x0; from < x1; from += BLOCK) {
      const int end = min(from + BLOCK, x1);
      real part = 0;
      for (int x = from; x < end; x++) part += LOAD(X_TYPE, p, y * columns + x);
      row += part;
    }
    total += row;
  }
  return total;
}

/* item: a row or cell of all planes. Leaves its plane, row y and columns [cell, cell_end). */
#define BEGIN_CELLS                                                             \
  const index_t item = (index_t)get_global_id(0);                               \
  if (item >= items) return;                                                    \
  const index_t line = BY_ROW ? item : item / out_columns;                      \
  const index_t plane = line / out_rows;                                        \
  const int out_y = (int)(line % out_rows), cell = BY_ROW ? 0 : (int)(item % out_columns); \
  const int cell_end = BY_ROW ? out_columns : cell + 1;                         \
  x += x_offset + plane * rows * columns;                                       \
  out += out_offset + line * out_columns;

/* The first position >= 0 of a window that starts at `start` in steps of d. */
static inline int first_inside(int start, int d) { return start >= 0 ? start : start + (-start + d - 1) / d * d; }

__kernel void pool_max(const __global STORAGE(X_TYPE) *x, const long x_offset, __global STORAGE(X_TYPE) *out,
                       const long out_offset, __global long *indices, const long indices_offset, const index_t items,
                       const int rows, const int columns, const int out_rows, const int out_columns, const int kernel_y,
                       const int kernel_x, const int stride_y, const int stride_x, const int pad_y, const int pad_x,
                       const int dilation_y, const int dilation_x) {
  BEGIN_CELLS
  const int y = out_y * stride_y - pad_y, y0 = first_inside(y, dilation_y);
  const int y1 = min(y + (kernel_y - 1) * dilation_y + 1, rows);
  for (int k = cell; k < cell_end; k++) {
    const int c = k * stride_x - pad_x, c1 = min(c + (kernel_x - 1) * dilation_x + 1, columns);
    long where;
    const real v = window_max(x, columns, y0, y1, dilation_y, first_inside(c, dilation_x), c1, dilation_x, &where);
    STORE(X_TYPE, out, k, v);
#if HAS_INDICES
    indices[indices_offset + line * out_columns + k] = where;
#endif
  }
}

__kernel void pool_average(const __global STORAGE(X_TYPE) *x, const long x_offset, __global STORAGE(X_TYPE) *out,
                           const long out_offset, const index_t items, const int rows, const int columns,
                           const int out_rows, const int out_columns, const int kernel_y, const int kernel_x,
                           const int stride_y, const int stride_x, const int pad_y, const int pad_x, const long divisor) {
  BEGIN_CELLS
  const int y = out_y * stride_y - pad_y, y_end = min(y + kernel_y, rows + pad_y), y0 = max(y, 0), y1 = min(y_end, rows);
  for (int k = cell; k < cell_end; k++) {
    const int c = k * stride_x - pad_x, c_end = min(c + kernel_x, columns + pad_x), c0 = max(c, 0), c1 = min(c_end, columns);
    const long size = divisor != 0 ? divisor : COUNT_PAD ? (long)(y_end - y) * (c_end - c) : (long)(y1 - y0) * (c1 - c0);
    const real sum = window_sum(x, columns, y0, y1, c0, c1);
    const real mean = y0 >= y1 || c0 >= c1 ? (real)0 : sum / (real)size;
    STORE(X_TYPE, out, k, mean);
  }
}

__kernel void pool_adaptive(const __global STORAGE(X_TYPE) *x, const long x_offset, __global STORAGE(X_TYPE) *out,
                            const long out_offset, __global long *indices, const long indices_offset, const index_t items,
                            const int rows, const int columns, const int out_rows, const int out_columns) {
  BEGIN_CELLS
  const int y0 = (int)((long)out_y * rows / out_rows), y1 = (int)((((long)out_y + 1) * rows + out_rows - 1) / out_rows);
  for (int k = cell; k < cell_end; k++) {
    const int c0 = (int)((long)k * columns / out_columns);
    const int c1 = (int)((((long)k + 1) * columns + out_columns - 1) / out_columns);
#if MAX
    long where;
    const real v = window_max(x, columns, y0, y1, 1, c0, c1, 1, &where);
#if HAS_INDICES
    indices[indices_offset + line * out_columns + k] = where;
#endif
#else
    const real v = window_sum(x, columns, y0, y1, c0, c1) / (real)((y1 - y0) * (c1 - c0));
#endif
    STORE(X_TYPE, out, k, v);
  }
}
