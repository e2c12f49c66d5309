/* out[n, o, y, x] = bias[o] + sum over i, j of weight[o, i, j] *
 *     padded[n, o / multiplier, y STRIDE + i, x STRIDE + j], i, j < SIDE
 * Depthwise convolution in float for CPUs. A work-item makes `block` rows of a plane, a multiple of
 * ROWS: it copies the rows that they see with the padding around them, then sums all taps of ROWS
 * vectors of W neighbours at a time. The last vector of a row begins earlier where it would go
 * beyond the end; a row shorter than a vector is stored with what the next row overwrites. */
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
#ifndef ROOM
#define ROOM 6144 /* floats of copied rows */
#endif
#define ROWS 4
#define COPY 16 /* floats at once; so many lie behind each copied row */

typedef PASTE(float, W) realw;
#define LOAD_LANES(p) PASTE(vload, W)(0, p)
#define STORE_LANES(p, v) PASTE(vstore, W)(v, 0, p)
#if STRIDE == 1
#define LOAD_CELLS(p) LOAD_LANES(p)
#else
#define LOAD_CELLS(p) ((realw)(LOAD_LANES(p).even, LOAD_LANES((p) + W).even))
#endif

/* n floats of a row with zeros around them; `there` of the plane are from the first on. */
static inline void copy_row(float *to, const __global float *from, int n, int there, int left) {
  for (int k = 0; k < left; k++) to[k] = 0;
  to += left;
  for (int k = 0; k < n; k += COPY) {
    if (there - k >= COPY)
      vstore16(vload16(0, from + k), 0, to + k);
    else
      for (int l = k; l < n; l++) to[l] = from[l];
  }
  vstore16((float16)0, 0, to + n);
}

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
            rows = min(block, out_rows - first), width = (out_columns - 1) * STRIDE + SIDE,
            pitch = width + COPY, n = min(in_columns, width - left);
  const index_t plane = item / blocks, cell = (plane * out_rows + first) * out_columns;
  const int channel = (int)(plane % channels);
  float copied[ROOM + 2 * W], taps[SIDE * SIDE];
  x += x_offset + plane / multiplier * in_rows * in_columns;
  out += out_offset + cell;
  for (int t = 0; t < SIDE * SIDE; t++) taps[t] = weight[weight_offset + channel * SIDE * SIDE + t];
  const float shift = HAS_BIAS ? bias[bias_offset + channel] : 0;
  const int reach = ((rows + ROWS - 1) / ROWS * ROWS - 1) * STRIDE + SIDE;
  for (int r = 0, y = first * STRIDE - top; r < reach; r++, y++) {
    if (y >= 0 && y < in_rows)
      copy_row(copied + r * pitch, x + y * in_columns, n, (in_rows - y) * in_columns, left);
    else
      for (int k = 0; k < pitch; k++) copied[r * pitch + k] = 0;
  }
  const int last = max(out_columns - W, 0);
  for (int y = 0; y < rows; y += ROWS)
    for (int c = 0;; c = min(c + W, last)) {
      realw sums[ROWS];
      sum_taps(sums, copied + y * STRIDE * pitch + c * STRIDE, pitch, taps);
      store_rows(out + y * out_columns + c, sums, shift, out_columns, (rows - y) * out_columns - c);
      if (c == last) break;
    }
  EPILOGUE(out, cell, rows * out_columns);
}
