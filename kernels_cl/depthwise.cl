/* out[n, o, y, x] = bias[o] + sum over i, j of weight[o, i, j] *
 *     padded[n, o / multiplier, y STRIDE + i, x STRIDE + j], i, j < SIDE
 * Depthwise convolution in float for CPUs. A work-item makes `block` rows of a plane, a multiple of
 * ROWS: it copies the rows that they see with the padding around them, then sums all taps of ROWS
 * vectors of W neighbours at a time. The last vector of a row begins earlier where it would go
 * beyond the end; a row shorter than a vector is stored with what the next row overwrites. */
#include "common.h"
#include "padded_row.h"
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
#ifndef ROOM
#define ROOM 6144 /* floats of copied rows */
#endif
#ifndef ROWS
#define ROWS 4
#endif

typedef PASTE(float, W) realw;
#define LOAD_LANES(p) PASTE(vload, W)(0, p)
#define STORE_LANES(p, v) PASTE(vstore, W)(v, 0, p)
#if STRIDE == 1
#define LOAD_CELLS(p) LOAD_LANES(p)
#else
#define LOAD_CELLS(p) ((realw)(LOAD_LANES(p).even, LOAD_LANES((p) + W).even))
#endif

/* ROWS rows of W outputs; x: where the first one's taps begin. */
static inline void sum_taps(realw sums[ROWS], const float *x, int pitch, const float *weight) {
#pragma unroll
  for (int y = 0; y < ROWS; y++) sums[y] = (realw)0;
#pragma unroll
  for (int r = 0; r < (ROWS - 1) * STRIDE + SIDE; r++) {
#pragma unroll
    for (int j = 0; j < SIDE; j++) {
      const realw in = LOAD_CELLS(x + r * pitch + j);
#pragma unroll
      for (int y = 0; y < ROWS; y++) {
        const int i = r - y * STRIDE;
        if (i >= 0 && i < SIDE) sums[y] = fma((realw)weight[i * SIDE + j], in, sums[y]);
      }
    }
  }
}

/* Rows from `to` on, of `size` outputs that are left. */
static inline void store_rows(__global float *to, realw sums[ROWS], float shift, int columns,
                              int size) {
  for (int y = 0; y < ROWS && size > 0; y++, to += columns, size -= columns) {
    const realw sum = sums[y] + shift;
    if (size >= W) {
      STORE_LANES(to, sum);
    } else {
      float lanes[W];
      STORE_LANES(lanes, sum);
      for (int l = 0; l < size; l++) to[l] = lanes[l];
    }
  }
}

/* The cells that a work-item makes of a plane, which lies at x. */
typedef struct cells {
  int first, rows, columns; /* of outputs */
  int in_rows, in_columns, top, left;
} cells;

/* Cell by cell, taps in the padding left out: infinite weights make no number of zeros there. */
static inline void make_directly(const __global float *x, const float *weight, float shift,
                                 __global float *out, const cells *t) {
  for (int y = t->first; y < t->first + t->rows; y++)
    for (int column = 0; column < t->columns; column++) {
      float sum = 0;
      for (int tap = 0; tap < SIDE * SIDE; tap++) {
        const int row = y * STRIDE + tap / SIDE - t->top,
                  at = column * STRIDE + tap % SIDE - t->left;
        if (row >= 0 && row < t->in_rows && at >= 0 && at < t->in_columns)
          sum = fma(weight[tap], x[row * t->in_columns + at], sum);
      }
      *out++ = sum + shift;
    }
}

/* Row by row from copies with zeros around them. */
static inline void make_rows(const __global float *x, const float *weight, float shift,
                             __global float *out, const cells *t) {
  const int width = (t->columns - 1) * STRIDE + SIDE, pitch = width + COPY,
            n = min(t->in_columns, width - t->left), last = max(t->columns - W, 0),
            reach = ((t->rows + ROWS - 1) / ROWS * ROWS - 1) * STRIDE + SIDE;
  float copied[ROOM + 2 * W];
  for (int r = 0, y = t->first * STRIDE - t->top; r < reach; r++, y++) {
    const int inside = y >= 0 && y < t->in_rows, cell = inside ? y * t->in_columns : 0;
    copy_row(copied + r * pitch, x + cell, inside ? t->left : 0, inside ? n : 0,
             t->in_rows * t->in_columns - cell, width);
  }
  for (int y = 0; y < t->rows; y += ROWS)
    for (int c = 0;; c = min(c + W, last)) {
      realw sums[ROWS];
      sum_taps(sums, copied + y * STRIDE * pitch + c * STRIDE, pitch, weight);
      store_rows(out + y * t->columns + c, sums, shift, t->columns, (t->rows - y) * t->columns - c);
      if (c == last) break;
    }
}

/* x: (planes / multiplier, in_rows, in_columns), out: (planes, out_rows, out_columns), weight:
 * (channels, SIDE, SIDE), bias: (channels). items = planes * blocks of rows. top, left < SIDE; the
 * copied rows fit ROOM. */
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
  const cells t = {first, rows, out_columns, in_rows, in_columns, top, left};
  const index_t plane = item / blocks, cell = (plane * out_rows + first) * out_columns;
  const int channel = (int)(plane % channels);
  float taps[SIDE * SIDE];
  int finite = 1;
  for (int i = 0; i < SIDE * SIDE; i++) {
    taps[i] = weight[weight_offset + channel * SIDE * SIDE + i];
    finite &= is_finite(taps[i]);
  }
  const float shift = HAS_BIAS ? bias[bias_offset + channel] : 0;
  x += x_offset + plane / multiplier * in_rows * in_columns;
  out += out_offset + cell;
  if (finite)
    make_rows(x, taps, shift, out, &t);
  else
    make_directly(x, taps, shift, out, &t);
  EPILOGUE(out, cell, rows * out_columns);
}
