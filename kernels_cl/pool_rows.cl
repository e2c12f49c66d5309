/* Maxima of windows without their positions, for CPUs: pool_max of pool.cl. A work-item computes a
 * row of outputs, up to CHUNK cells at a time. It first computes the maximum of each column over
 * the rows of the window, with the lowest value in the padding. It then computes the maximum over
 * the columns of each window, W windows at once. NaN wins. Floats are compared as `real`, integers
 * in their own type. */
#include "common.h"
#include "pool.h"
#ifndef X_TYPE
#define X_TYPE F32
#endif
#ifndef OUT_TYPE
#define OUT_TYPE X_TYPE /* x and out may each hold floats as BF16 */
#endif
#ifndef STRIDE
#define STRIDE 1 /* stride of the windows along a row, 1 or 2 */
#endif
#ifndef CHUNK
#define CHUNK 128
#endif
#ifndef REACH
#define REACH 64 /* maximum columns that a window covers */
#endif
#include "vector.h"

#if IS_FLOAT(X_TYPE)
typedef real cell;
typedef realw cells;
#define LOWEST ((real)(-INFINITY))
#define LOAD_CELLS(p) LOADW(X_TYPE, p)
#define LOAD_CELL(p, l) LOAD(X_TYPE, p, l)
#define STORE_CELLS(p, v) STOREW(OUT_TYPE, p, v)
#define STORE_CELL(p, l, v) STORE(OUT_TYPE, p, l, v)
#else
typedef STORAGE(X_TYPE) cell;
typedef PASTE(STORAGE(X_TYPE), W) cells;
#define lowest_I8 CHAR_MIN
#define lowest_U8 0
#define lowest_I16 SHRT_MIN
#define lowest_I32 INT_MIN
#define lowest_I64 LONG_MIN
#define LOWEST PASTE(lowest_, X_TYPE)
#define LOAD_CELLS(p) vload16(0, p)
#define LOAD_CELL(p, l) (p)[l]
#define STORE_CELLS(p, v) vstore16(v, 0, p)
#define STORE_CELL(p, l, v) (p)[l] = (v)
#endif

/* Loads every STRIDE-th of STRIDE * W neighbours. */
static inline cells load_windows(const cell *p) {
#if STRIDE == 1
  return vload16(0, p);
#else
  return (cells)(vload16(0, p).even, vload16(0, p + W).even);
#endif
}

/* Loads W neighbours at p, of which only n are in memory. The others are LOWEST. */
static inline cells load_cells(const __global STORAGE(X_TYPE) * p, index_t n) {
  if (n >= W) return LOAD_CELLS(p);
  cell lanes[W];
  for (int l = 0; l < W; l++) lanes[l] = l < n ? LOAD_CELL(p, l) : (cell)LOWEST;
  return vload16(0, lanes);
}

/* Stores the first n of W neighbours. */
static inline void store_cells(__global STORAGE(OUT_TYPE) * p, int n, cells v) {
  if (n >= W) {
    STORE_CELLS(p, v);
    return;
  }
  cell lanes[W];
  vstore16(v, 0, lanes);
  for (int l = 0; l < n; l++) STORE_CELL(p, l, lanes[l]);
}

/* The input rows that one row of outputs reads, in a plane at x. `size` is the number of cells from
 * x to the end of the buffer. */
typedef struct seen {
  const __global STORAGE(X_TYPE) * x;
  index_t size;
  range z, y;
  int rows, columns;
} seen;

/* Returns the maximum of each of the W columns from `column` on. */
static inline cells largest_of_columns(const seen *s, int column) {
  cells best = (cells)(cell)LOWEST;
  for (int z = s->z.begin; z < s->z.end; z += s->z.step)
    for (int y = s->y.begin; y < s->y.end; y += s->y.step) {
      const index_t at = (index_t)(z * s->rows + y) * s->columns + column;
      const cells v = load_cells(s->x + at, s->size - at);
      best = larger(best, v);
    }
  return best;
}

/* Sets to[i] to the maximum of column first + i, for i < width. */
static inline void make_columns(const seen *s, int first, int width, cell *to) {
  const int begin = max(-first, 0), end = max(min(s->columns - first, width), begin);
  for (int i = 0; i < begin; i += W) vstore16((cells)(cell)LOWEST, 0, to + i);
  for (int i = begin; i < end; i += W) vstore16(largest_of_columns(s, first + i), 0, to + i);
  for (int i = end; i < width; i += W) vstore16((cells)(cell)LOWEST, 0, to + i);
}

/* items: output rows of all planes. kernel_x + (kernel_x - 1) * (dilation_x - 1) <= REACH. */
__kernel void pool_rows(const __global STORAGE(X_TYPE) * x, const long x_offset,
                        __global STORAGE(OUT_TYPE) * out, const long out_offset, PLANES_PARAMS,
                        WINDOW_PARAMS, const int dilation_z, const int dilation_y,
                        const int dilation_x) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t plane = item / out_rows / out_depth, size = (index_t)depth * rows * columns;
  const int out_z = (int)(item / out_rows % out_depth), out_y = (int)(item % out_rows);
  const seen s = {.x = x + x_offset + plane * size,
                  .size = (items / out_rows / out_depth - plane) * size,
                  .z = window_inside(out_z * stride_z - pad_z, kernel_z, dilation_z, depth),
                  .y = window_inside(out_y * stride_y - pad_y, kernel_y, dilation_y, rows),
                  .rows = rows,
                  .columns = columns};
  cell columns_made[(CHUNK + W) * STRIDE + REACH + W];
  out += out_offset + item * out_columns;
  for (int k = 0; k < out_columns; k += CHUNK) {
    const int n = min(CHUNK, out_columns - k),
              width = (n - 1) * STRIDE + (kernel_x - 1) * dilation_x + 1;
    make_columns(&s, k * STRIDE - pad_x, width, columns_made);
    for (int i = 0; i < n; i += W) {
      cells best = load_windows(columns_made + i * STRIDE);
      for (int j = 1; j < kernel_x; j++) {
        const cells v = load_windows(columns_made + i * STRIDE + j * dilation_x);
        best = larger(best, v);
      }
      store_cells(out + k + i, n - i, best);
    }
  }
}
