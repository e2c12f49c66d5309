/* out[n, c, y, x] = bias[c] + sum over i, j of weight[c, i, j] *
 *     padded[n, c, y STRIDE + i, x STRIDE + j], i, j < SIDE
 * Depthwise convolution in float for CPUs, of rows that would leave vectors of neighbours half
 * empty: LANES planes at a time are the lanes of vectors. A work-item turns the rows of x that
 * `block` rows of outputs see, with the padding around them, makes sums of N neighbours at a time,
 * and turns them back. The last N of a row, and the last LANES cells, begin earlier where they
 * would go beyond the end. */
#include "common.h"
#include "depthwise.h"
#include "transpose.h"
#ifndef HAS_BIAS
#define HAS_BIAS 1
#endif
#ifndef N
#define N 7 /* outputs of a row that are summed at once, out_columns at most */
#endif
#define LANES 16
#define SOME 512 /* sums of a plane that are rounded at once, and of a row at most */
#define EACH_LANE _Pragma("unroll") for (int l = 0; l < LANES; l++)

/* r[i]: element i of each of `count` planes, `size` apart, of which n are there. */
static inline void load_turned(x_row x, index_t size, int count, int n, float16 r[LANES]) {
  EACH_LANE {
    const x_row from = x + min(l, count - 1) * size;
    if (n >= LANES) {
      r[l] = LOAD_FLOATS(from);
    } else {
      float some[LANES] = {0};
      for (int i = 0; i < n; i++) some[i] = LOADF(X_TYPE, from, i);
      r[l] = vload16(0, some);
    }
  }
  transpose_16(r);
}

/* `rows` rows of `columns` elements of `count` planes to rows of `pitch` vectors. */
static inline void turn_rows(x_row x, index_t size, int count, int rows, int columns, int pitch,
                             __local float *to) {
  float16 r[LANES];
  if (columns >= LANES) {
    for (int y = 0; y < rows; y++, x += columns, to += pitch * LANES)
      for (int k = 0; k < columns; k += LANES) {
        const int at = min(k, columns - LANES);
        load_turned(x + at, size, count, LANES, r);
        EACH_LANE vstore16(r[l], at + l, to);
      }
    return;
  }
  const int n = rows * columns;
  for (int k = 0; k < n; k += LANES) {
    const int at = max(min(k, n - LANES), 0);
    load_turned(x + at, size, count, n, r);
    int column = at % columns;
    __local float *cell = to + (at / columns * pitch + column) * LANES;
    EACH_LANE {
      if (at + l >= n) continue;
      vstore16(r[l], 0, cell);
      cell += LANES;
      if (++column < columns) continue;
      column = 0;
      cell += (pitch - columns) * LANES;
    }
  }
}

static inline void clear_cells(__local float *to, int n) {
  for (int i = 0; i < n; i++) vstore16((float16)0, i, to);
}

/* The rows of x that the rows of t see, from row `top` of x on, with the padding around them. */
static inline void turn_band(x_row x, index_t size, int count, const cells *t, int pitch,
                             __local float *band) {
  const int top = t->first * STRIDE - t->top, seen = (t->rows - 1) * STRIDE + SIDE,
            first = clamp(-top, 0, seen), stop = clamp(t->in_rows - top, first, seen);
  clear_cells(band, first * pitch);
  clear_cells(band + stop * pitch * LANES, (seen - stop) * pitch);
  for (int y = first; y < stop; y++) {
    __local float *row = band + y * pitch * LANES;
    clear_cells(row, t->left);
    clear_cells(row + (t->left + t->in_columns) * LANES, pitch - t->left - t->in_columns);
  }
  turn_rows(x + (top + first) * t->in_columns, size, count, stop - first, t->in_columns, pitch,
            band + (first * pitch + t->left) * LANES);
}

/* N neighbours of a row; x: what the first of them sees. */
static inline void sum_cells(const __local float *x, int pitch, const float *weight,
                             __local float *sums) {
  float16 sum[N];
#pragma unroll
  for (int c = 0; c < N; c++) sum[c] = (float16)0;
#pragma unroll
  for (int i = 0; i < SIDE; i++) {
    float16 w[SIDE];
#pragma unroll
    for (int j = 0; j < SIDE; j++) w[j] = vload16(i * SIDE + j, weight);
#pragma unroll
    for (int k = 0; k < (N - 1) * STRIDE + SIDE; k++) {
      const float16 in = vload16(i * pitch + k, x);
#pragma unroll
      for (int c = 0; c < N; c++) {
        const int j = k - c * STRIDE;
        if (j >= 0 && j < SIDE) sum[c] = fma(w[j], in, sum[c]);
      }
    }
  }
#pragma unroll
  for (int c = 0; c < N; c++) vstore16(sum[c], c, sums);
}

/* n sums (n, LANES) to as many neighbours of `count` planes, `size` apart. Behind private ones
 * there is room for LANES more. */
static inline void store_planes(const __local float *sums, const float *shift, int n, int count,
                                MADE_SPACE float *out, index_t size) {
  for (int k = 0; k < n; k += LANES) {
    const int at = ROUNDS_OUT ? k : max(min(k, n - LANES), 0);
    float16 r[LANES];
    EACH_LANE r[l] = vload16(at + l, sums);
    transpose_16(r);
    EACH_LANE {
      if (l >= count) continue;
      const float16 made = r[l] + shift[l];
      MADE_SPACE float *to = out + l * size + at;
      if (n >= LANES || ROUNDS_OUT) {
        vstore16(made, 0, to);
      } else {
        float some[LANES];
        vstore16(made, 0, some);
        for (int i = 0; i < n; i++) to[i] = some[i];
      }
    }
  }
}

/* Weights (taps, LANES) and shifts of `count` channels; false: one is not finite. */
static inline int load_channels(const __global float *weight, const __global float *bias, int count,
                                float *taps, float *shift) {
  float own[LANES * SIDE * SIDE + LANES]; /* (LANES, taps), and room for a vector */
  float16 r[LANES], check = 0;
  for (int i = 0; i < LANES; i++) shift[i] = HAS_BIAS ? bias[min(i, count - 1)] : 0;
  for (int i = 0; i < SIDE * SIDE; i++) {
    if (count == LANES)
      vstore16(vload16(i, weight), i, own);
    else
      for (int l = 0; l < LANES; l++)
        own[l * SIDE * SIDE + i] = weight[min(l, count - 1) * SIDE * SIDE + i];
  }
  vstore16(check, SIDE * SIDE, own);
  for (int i = 0; i < SIDE * SIDE; i += LANES) {
    EACH_LANE r[l] = vload16(0, own + l * SIDE * SIDE + i);
    transpose_16(r);
    EACH_LANE {
      if (i + l >= SIDE * SIDE) continue;
      vstore16(r[l], i + l, taps);
      check = fma(r[l], (float16)0, check);
    }
  }
  vstore16(check, 0, own);
  int finite = 1;
  for (int l = 0; l < LANES; l++) finite &= own[l] == 0;
  return finite;
}

/* Of one plane the cells from `cell` on, a row of them or all; taps are LANES apart. */
static inline void make_plane(x_row x, const float *taps, float shift, MADE_SPACE float *out,
                              const cells *t, int cell) {
  float own[SIDE * SIDE];
  cells part = *t;
  for (int i = 0; i < SIDE * SIDE; i++) own[i] = taps[i * LANES];
  part.first += cell / t->columns;
  if (ROUNDS_OUT) part.rows = 1;
  make_directly(x, own, shift, out, &part);
}

/* x: (images, channels, in_rows, in_columns), out: (images, channels, out_rows, out_columns),
 * weight: (channels, SIDE, SIDE), bias: (channels). items = images * parts of LANES channels *
 * blocks of rows. memory: the rows that a block sees, of `pitch` vectors, and its sums, with room
 * for LANES more. top, left < SIDE. */
__kernel void conv_depthwise_lanes(const __global STORAGE(X_TYPE) * x, const long x_offset,
                                   const __global float *weight, const long weight_offset,
                                   const __global float *bias, const long bias_offset,
                                   __global STORAGE(OUT_TYPE) * out, const long out_offset,
                                   const index_t items, const int channels, const int block,
                                   const int in_rows, const int in_columns, const int out_rows,
                                   const int out_columns, const int top, const int left,
                                   const int pitch, __local float *memory) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const int blocks = (out_rows + block - 1) / block, parts = (channels + LANES - 1) / LANES,
            first = (int)(item % blocks) * block, rows = min(block, out_rows - first),
            channel = (int)(item / blocks % parts) * LANES, count = min(LANES, channels - channel),
            n = rows * out_columns;
  const index_t plane = item / blocks / parts * channels + channel,
                in_size = (index_t)in_rows * in_columns, size = (index_t)out_rows * out_columns,
                cell = plane * size + first * out_columns;
  const cells t = {first, rows, out_columns, in_rows, in_columns, top, left, 0, 0};
  float taps[SIDE * SIDE * LANES], shift[LANES];
  const int finite =
      load_channels(weight + weight_offset + channel * SIDE * SIDE,
                    bias + bias_offset + (HAS_BIAS ? channel : 0), count, taps, shift);
  __local float *sums = memory + ((block - 1) * STRIDE + SIDE) * pitch * LANES;
  x += x_offset + plane * in_size;
  out += out_offset + cell;
  if (finite) {
    turn_band(x, in_size, count, &t, pitch, memory);
    for (int y = 0; y < rows; y++)
      for (int c = 0; c < out_columns; c += N) {
        const int at = min(c, out_columns - N);
        sum_cells(memory + (y * pitch + at) * STRIDE * LANES, pitch, taps,
                  sums + (y * out_columns + at) * LANES);
      }
  }
#if ROUNDS_OUT
  const int each = finite ? SOME : out_columns;
  float made[LANES * (SOME + LANES)];
#else
  const int each = n;
  MADE_SPACE float *made = out;
#endif
  for (int k = 0; k < n; k += each) {
    const int some = min(each, n - k);
    const index_t step = ROUNDS_OUT ? SOME + LANES : size;
    if (finite) store_planes(sums + k * LANES, shift, some, count, made, step);
    for (int l = 0; l < count; l++) {
      MADE_SPACE float *to = made + l * step;
      if (!finite) make_plane(x + l * in_size, taps + l, shift[l], to, &t, k);
      FINISH(out + l * size + k, to, cell + l * size + k, some);
    }
  }
}
