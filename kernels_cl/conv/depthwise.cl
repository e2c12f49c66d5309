/* out[n, o, y, x] = bias[o] + sum over i, j of weight[o, i, j] *
 *     padded[n, o / multiplier, y STRIDE + i, x STRIDE + j], i, j < SIDE
 * Depthwise convolution in float for CPUs. A work-item computes `block` rows of a plane. It sums
 * all taps of ROWS vectors of W neighbours at a time, from x in its own layout, and masks cells
 * outside of a row. The last vector of a row begins earlier if it would cross the end. A row
 * shorter than a vector is stored with excess cells, which the next row overwrites. */
#include "common.h"
#ifndef SIDE
#define SIDE 3
#endif
#ifndef STRIDE
#define STRIDE 1
#endif
#ifndef W
#define W 16
#endif
#ifndef HAS_BIAS
#define HAS_BIAS 1
#endif
#ifndef ROWS
#define ROWS 4
#endif

typedef PASTE(float, W) realw;
typedef PASTE(int, W) intw;
#define AS_INTS(v) PASTE(as_int, W)(v)
#define AS_REALS(v) PASTE(as_float, W)(v)
#define LOAD_LANES(p) PASTE(vload, W)(0, p)
#define STORE_LANES(p, v) PASTE(vstore, W)(v, 0, p)
#if W == 8
#define LANES_ (intw)(0, 1, 2, 3, 4, 5, 6, 7)
#else
#define LANES_ (intw)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#endif

/* The cells of a plane that a work-item computes, where x points to the plane. */
typedef struct cells {
  int first, rows, columns; /* position and size of the outputs */
  int in_rows, in_columns, top, left;
  index_t before, there; /* elements of x before the plane, and from it on */
} cells;

/* Returns W elements of x, every STRIDE-th from x[at] on; elements outside of the buffer are 0. */
static inline realw load_cells(const __global float *x, int at, const cells *t) {
  if (at + t->before >= 0 && at + W * STRIDE <= t->there) {
#if STRIDE == 1
    return LOAD_LANES(x + at);
#else
    return (realw)(LOAD_LANES(x + at).even, LOAD_LANES(x + at + W).even);
#endif
  }
  float lanes[W];
  for (int l = 0, k = at; l < W; l++, k += STRIDE) lanes[l] = k >= 0 && k < t->there ? x[k] : 0;
  return LOAD_LANES(lanes);
}

/* Sums the taps of ROWS rows of W outputs from row y and column c on. */
static inline void sum_taps(realw sums[ROWS], const __global float *x, const float *weight,
                            const cells *t, int y, int c) {
  intw masks[SIDE];
  const int row = y * STRIDE - t->top, column = c * STRIDE - t->left;
#pragma unroll
  for (int j = 0; j < SIDE; j++) {
    const intw at = column + j + STRIDE * LANES_;
    masks[j] = (at >= 0) & (at < t->in_columns);
  }
#pragma unroll
  for (int i = 0; i < ROWS; i++) sums[i] = (realw)0;
#pragma unroll
  for (int r = 0; r < (ROWS - 1) * STRIDE + SIDE; r++) {
    if (row + r < 0 || row + r >= t->in_rows) continue;
#pragma unroll
    for (int j = 0; j < SIDE; j++) {
      const realw cell = load_cells(x, (row + r) * t->in_columns + column + j, t),
                  in = AS_REALS(AS_INTS(cell) & masks[j]);
#pragma unroll
      for (int k = 0; k < ROWS; k++) {
        const int i = r - k * STRIDE;
        if (i >= 0 && i < SIDE) sums[k] = FMA((realw)weight[i * SIDE + j], in, sums[k]);
      }
    }
  }
}

/* Stores the first `size` lanes of a vector; the others are not outputs. */
static inline void store_cells(__global float *to, realw sum, int size) {
  if (size >= W) {
    STORE_LANES(to, sum);
  } else {
    float lanes[W];
    STORE_LANES(lanes, sum);
    for (int l = 0; l < size; l++) to[l] = lanes[l];
  }
}

/* Stores rows from `to` on; `size` outputs are left. The next row overwrites the excess cells of a
 * short row. */
static inline void store_rows(__global float *to, realw sums[ROWS], float shift, int columns,
                              int size) {
  for (int y = 0; y < ROWS && size > 0; y++, to += columns, size -= columns)
    store_cells(to, sums[y] + shift, size);
}

/* Computes all rows, ROWS rows and W columns at a time. */
static inline void make_rows(const __global float *x, const float *weight, float shift,
                             __global float *out, const cells *t) {
  const int last = max(t->columns - W, 0);
  for (int y = 0; y < t->rows; y += ROWS)
    for (int c = 0;; c = min(c + W, last)) {
      realw sums[ROWS];
      sum_taps(sums, x, weight, t, t->first + y, c);
      store_rows(out + y * t->columns + c, sums, shift, t->columns, (t->rows - y) * t->columns - c);
      if (c == last) break;
    }
}

/* Computes cell by cell and skips taps in the padding, as 0 times an infinite weight is NaN. */
static inline void make_directly(const __global float *x, const float *weight, float shift,
                                 __global float *out, const cells *t) {
  for (int y = t->first; y < t->first + t->rows; y++)
    for (int column = 0; column < t->columns; column++) {
      float sum = 0;
      for (int tap = 0; tap < SIDE * SIDE; tap++) {
        const int row = y * STRIDE + tap / SIDE - t->top,
                  at = column * STRIDE + tap % SIDE - t->left;
        if (row >= 0 && row < t->in_rows && at >= 0 && at < t->in_columns)
          sum = FMA(weight[tap], x[row * t->in_columns + at], sum);
      }
      *out++ = sum + shift;
    }
}

/* x: (planes / multiplier, in_rows, in_columns), out: (planes, out_rows, out_columns), weight:
 * (channels, SIDE, SIDE), bias: (channels). items = planes * blocks of rows. top, left < SIDE. */
__kernel void conv_depthwise(const __global float *x, const long x_offset,
                             const __global float *weight, const long weight_offset,
                             const __global float *bias, const long bias_offset,
                             __global float *out, const long out_offset, const index_t items,
                             const int channels, const int multiplier, const int block,
                             const int in_rows, const int in_columns, const int out_rows,
                             const int out_columns, const int top, const int left) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const int blocks = (out_rows + block - 1) / block, first = (int)(item % blocks) * block,
            rows = min(block, out_rows - first);
  const index_t plane = item / blocks, cell = (plane * out_rows + first) * out_columns,
                size = (index_t)in_rows * in_columns, before = plane / multiplier * size,
                all = items / blocks / multiplier * size;
  cells t = {first, rows, out_columns, in_rows, in_columns, top, left, before, all - before};
  const int channel = (int)(plane % channels);
  float taps[SIDE * SIDE];
  int finite = 1;
  for (int i = 0; i < SIDE * SIDE; i++) {
    taps[i] = weight[weight_offset + channel * SIDE * SIDE + i];
    finite &= is_finite(taps[i]);
  }
  const float shift = HAS_BIAS ? bias[bias_offset + channel] : 0;
  x += x_offset + before;
  out += out_offset + cell;
  if (finite)
    make_rows(x, taps, shift, out, &t);
  else
    make_directly(x, taps, shift, out, &t);
  EPILOGUE(out, cell, (index_t)rows * out_columns);
}
