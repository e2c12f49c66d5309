/* Pooling of planes (depth, rows, columns); missing leading dimensions are 1. A work-item computes
 * an output row (BY_ROW) or one cell of it.
 *
 *   pool_max       the maximum of the window (NaN wins). HAS_INDICES: also its flat position in the
 *                  plane (the first of equal ones, but the last NaN)
 *   pool_average   the sum of the window / divisor (0: the window's size, COUNT_PAD: with its
 *                  padding)
 *   pool_adaptive  cell i of a dimension covers [floor(i * in / out), ceil((i + 1) * in / out))
 *
 * Windows of more than BLOCK elements are summed by rows of at most BLOCK. */
#include "common.h"
#include "pool.h"
#ifndef X_TYPE
#define X_TYPE F32
#endif
#ifndef OUT_TYPE
#define OUT_TYPE X_TYPE /* x and out may each hold floats as BF16 */
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

typedef const __global STORAGE(X_TYPE) * x_pointer;
#if IS_FLOAT(COMPUTE)
#define LOWEST ((real)(-INFINITY))
#define IS_NAN(v) isnan(v)
#else
#define LOWEST LONG_MIN
#define IS_NAN(v) 0
#endif

/* Returns the maximum of a window of plane p and stores its position in *where. */
static inline real window_max(x_pointer p, int rows, index_t columns, range z, range y, range x,
                              long *where) {
  real best = LOWEST;
  long at = ((long)z.begin * rows + y.begin) * columns + x.begin;
  for (int h = z.begin; h < z.end; h += z.step)
    for (int i = y.begin; i < y.end; i += y.step) {
      const index_t row = (h * rows + i) * columns;
      for (int j = x.begin; j < x.end; j += x.step) {
        const real v = LOAD(X_TYPE, p, row + j);
        const int better = (v > best) | IS_NAN(v); /* selects: branches would be mispredicted */
        best = better ? v : best;
        at = better ? row + j : at;
      }
    }
  *where = at;
  return best;
}

static inline real window_sum(x_pointer p, int rows, index_t columns, range z, range y, range x) {
  real total = 0;
  for (int h = z.begin; h < z.end; h++)
    for (int i = y.begin; i < y.end; i++) {
      real row = 0;
      for (int from = x.begin; from < x.end; from += BLOCK) {
        const int end = min(from + BLOCK, x.end);
        real partial = 0;
        for (int j = from; j < end; j++) partial += LOAD(X_TYPE, p, (h * rows + i) * columns + j);
        row += partial;
      }
      total += row;
    }
  return total;
}

static inline int range_size(range r) { return max(r.end - r.begin, 0); }

/* Returns the input range of cell i of an adaptive dimension. */
static inline range adaptive_range(int i, int in, int out) {
  const range r = {(int)((long)i * in / out), (int)((((long)i + 1) * in + out - 1) / out), 1};
  return r;
}

/* Splits item, a row or cell of all planes, into its plane, slice z, row y and columns [cell,
 * cell_end). */
#define BEGIN_CELLS                                                                     \
  const index_t item = (index_t)get_global_id(0);                                       \
  if (item >= items) return;                                                            \
  const index_t line = BY_ROW ? item : item / out_columns;                              \
  const index_t plane = line / out_rows / out_depth;                                    \
  const int out_z = (int)(line / out_rows % out_depth), out_y = (int)(line % out_rows); \
  const int cell = BY_ROW ? 0 : (int)(item % out_columns);                              \
  const int cell_end = BY_ROW ? out_columns : cell + 1;                                 \
  x += x_offset + plane * depth * rows * columns;                                       \
  out += out_offset + line * out_columns;

__kernel void pool_max(const __global STORAGE(X_TYPE) * x, const long x_offset,
                       __global STORAGE(OUT_TYPE) * out, const long out_offset,
                       __global long *indices, const long indices_offset, PLANES_PARAMS,
                       WINDOW_PARAMS, const int dilation_z, const int dilation_y,
                       const int dilation_x) {
  BEGIN_CELLS
  const range z = window_inside(out_z * stride_z - pad_z, kernel_z, dilation_z, depth);
  const range y = window_inside(out_y * stride_y - pad_y, kernel_y, dilation_y, rows);
  for (int k = cell; k < cell_end; k++) {
    long where;
    const range c = window_inside(k * stride_x - pad_x, kernel_x, dilation_x, columns);
    const real v = window_max(x, rows, columns, z, y, c, &where);
    STORE(OUT_TYPE, out, k, v);
#if HAS_INDICES
    indices[indices_offset + line * out_columns + k] = where;
#endif
  }
}

/* Returns the size of a window from `start` on, including the padding that it covers. */
static inline long padded_size(int start, int kernel_size, int pad, int size) {
  return min(start + kernel_size, size + pad) - start;
}

__kernel void pool_average(const __global STORAGE(X_TYPE) * x, const long x_offset,
                           __global STORAGE(OUT_TYPE) * out, const long out_offset, PLANES_PARAMS,
                           WINDOW_PARAMS, const long divisor) {
  BEGIN_CELLS
  const int first_z = out_z * stride_z - pad_z, first_y = out_y * stride_y - pad_y;
  const range z = window_inside(first_z, kernel_z, 1, depth),
              y = window_inside(first_y, kernel_y, 1, rows);
  const long padded =
      padded_size(first_z, kernel_z, pad_z, depth) * padded_size(first_y, kernel_y, pad_y, rows);
  for (int k = cell; k < cell_end; k++) {
    const int first_x = k * stride_x - pad_x;
    const range c = window_inside(first_x, kernel_x, 1, columns);
    const long count = (long)range_size(z) * range_size(y) * range_size(c);
    const long covered =
        COUNT_PAD ? padded * padded_size(first_x, kernel_x, pad_x, columns) : count;
    const real sum = window_sum(x, rows, columns, z, y, c);
    const real mean = count == 0 ? (real)0 : sum / (real)(divisor != 0 ? divisor : covered);
    STORE(OUT_TYPE, out, k, mean);
  }
}

__kernel void pool_adaptive(const __global STORAGE(X_TYPE) * x, const long x_offset,
                            __global STORAGE(OUT_TYPE) * out, const long out_offset,
                            __global long *indices, const long indices_offset, PLANES_PARAMS) {
  BEGIN_CELLS
  const range z = adaptive_range(out_z, depth, out_depth),
              y = adaptive_range(out_y, rows, out_rows);
  for (int k = cell; k < cell_end; k++) {
    const range c = adaptive_range(k, columns, out_columns);
#if MAX
    long where;
    const real v = window_max(x, rows, columns, z, y, c, &where);
#if HAS_INDICES
    indices[indices_offset + line * out_columns + k] = where;
#endif
#else
    const long count = (long)range_size(z) * range_size(y) * range_size(c);
    const real v = window_sum(x, rows, columns, z, y, c) / (real)count;
#endif
    STORE(OUT_TYPE, out, k, v);
  }
}
