/* out[n, o, y, x] = bias[o] + sum over i, j of weight[o, i, j] *
 *     padded[n, o / multiplier, y STRIDE + i, x STRIDE + j], i, j < SIDE
 * Depthwise convolution in float for CPUs. A work-item makes `block` rows of a plane: it sums all
 * taps of ROWS vectors of W neighbours at a time (of x of BF16 and stride 1 of 2 W, W is 16), from
 * x as it lies, and masks what is beside a row. The last vector of a row begins earlier where it
 * would go beyond the end; a row shorter than a vector is stored with what the next row overwrites.
 */
#include "common.h"
#include "depthwise.h"
#ifndef W
#define W 16
#endif
#ifndef HAS_BIAS
#define HAS_BIAS 1
#endif
#ifndef ROWS
#define ROWS 4
#endif
#ifndef MOST_COLUMNS
#define MOST_COLUMNS 512 /* of outputs that are rounded */
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

#define PARTS (IS_BF16(X_TYPE) && STRIDE == 1 ? 2 : 1) /* vectors of a row at once */

#if IS_BF16(X_TYPE)
#define HALVES (SIDE + PARTS - 1) /* vectors of every second element that a row of outputs sees */

/* 2 W neighbours from x[at] on, of which what is not there is 0: two in each lane. */
static inline uint16 load_cells(x_row x, int at, const cells *t) {
  if (at + t->before >= 0 && at + 2 * W <= t->there) return load_two(x + at);
  uint lanes[W];
  for (int l = 0, k = at; l < W; l++, k += 2) {
    lanes[l] = k >= 0 && k < t->there ? x[k] : 0;
    if (k + 1 >= 0 && k + 1 < t->there) lanes[l] |= (uint)x[k + 1] << 16;
  }
  return vload16(0, lanes);
}

/* a, b: the even and the odd ones of 2 W neighbours, which then lie in order. */
static inline void interleave(float16 *a, float16 *b) {
  const float16 e = *a, o = *b;
  *a = (float16)(e.s0, o.s0, e.s1, o.s1, e.s2, o.s2, e.s3, o.s3, e.s4, o.s4, e.s5, o.s5, e.s6, o.s6,
                 e.s7, o.s7);
  *b = (float16)(e.s8, o.s8, e.s9, o.s9, e.sa, o.sa, e.sb, o.sb, e.sc, o.sc, e.sd, o.sd, e.se, o.se,
                 e.sf, o.sf);
}

/* ROWS rows of PARTS vectors of outputs from row y and column c on. Of the elements that a row sees
 * every second one is a vector: word by word the low halves, and the high ones. */
static inline void sum_taps(realw sums[PARTS][ROWS], x_row x, const float *weight, const cells *t,
                            int y, int c) {
  uint16 masks[HALVES];
  const int row = y * STRIDE - t->top, column = c * STRIDE - t->left;
#pragma unroll
  for (int j = 0; j < HALVES; j++) {
    const int16 at = column + j + 2 * LANES_;
    masks[j] = as_uint16((at >= 0) & (at < t->in_columns)) & 0xffff0000u;
  }
#pragma unroll
  for (int i = 0; i < ROWS; i++)
#pragma unroll
    for (int p = 0; p < PARTS; p++) sums[p][i] = (realw)0;
#pragma unroll
  for (int r = 0; r < (ROWS - 1) * STRIDE + SIDE; r++) {
    if (row + r < 0 || row + r >= t->in_rows) continue;
    float16 in[HALVES];
#pragma unroll
    for (int j = 0; j < HALVES; j += 2) {
      const uint16 words = load_cells(x, (row + r) * t->in_columns + column + j, t);
      in[j] = as_float16(words << 16 & masks[j]);
      if (j + 1 < HALVES) in[j + 1] = as_float16(words & masks[j + 1]);
    }
#pragma unroll
    for (int k = 0; k < ROWS; k++) {
      const int i = r - k * STRIDE;
#pragma unroll
      for (int j = 0; j < SIDE; j++)
#pragma unroll
        for (int p = 0; p < PARTS; p++)
          if (i >= 0 && i < SIDE)
            sums[p][k] = fma((realw)weight[i * SIDE + j], in[j + p], sums[p][k]);
    }
  }
#pragma unroll
  for (int k = 0; k < ROWS && PARTS == 2; k++) interleave(&sums[0][k], &sums[PARTS - 1][k]);
}
#else
/* Every STRIDE-th of what lies from x[at] on, and of what is not there zeros. */
static inline realw load_cells(x_row x, int at, const cells *t) {
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

/* ROWS rows of W outputs from row y and column c on. */
static inline void sum_taps(realw sums[PARTS][ROWS], x_row x, const float *weight, const cells *t,
                            int y, int c) {
  intw masks[SIDE];
  const int row = y * STRIDE - t->top, column = c * STRIDE - t->left;
#pragma unroll
  for (int j = 0; j < SIDE; j++) {
    const intw at = column + j + STRIDE * LANES_;
    masks[j] = (at >= 0) & (at < t->in_columns);
  }
#pragma unroll
  for (int i = 0; i < ROWS; i++) sums[0][i] = (realw)0;
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
        if (i >= 0 && i < SIDE) sums[0][k] = fma((realw)weight[i * SIDE + j], in, sums[0][k]);
      }
    }
  }
}
#endif

/* A vector, of which `size` outputs are left. */
static inline void store_cells(MADE_SPACE float *to, realw sum, int size) {
  if (size >= W || ROUNDS_OUT) {
    STORE_LANES(to, sum);
  } else {
    float lanes[W];
    STORE_LANES(lanes, sum);
    for (int l = 0; l < size; l++) to[l] = lanes[l];
  }
}

/* Rows from `to` on, of `size` outputs that are left. What a short row has too much the next one
 * covers. */
static inline void store_rows(MADE_SPACE float *to, realw sums[PARTS][ROWS], float shift,
                              int columns, int size) {
  for (int y = 0; y < ROWS && size > 0; y++, to += columns, size -= columns)
    for (int p = 0; p < PARTS; p++) store_cells(to + p * W, sums[p][y] + shift, size - p * W);
}

/* ROWS rows and PARTS * W columns at a time. */
static inline void make_rows(x_row x, const float *weight, float shift, MADE_SPACE float *out,
                             const cells *t) {
  const int last = max(t->columns - PARTS * W, 0);
  for (int y = 0; y < t->rows; y += ROWS)
    for (int c = 0;; c = min(c + PARTS * W, last)) {
      realw sums[PARTS][ROWS];
      sum_taps(sums, x, weight, t, t->first + y, c);
      store_rows(out + y * t->columns + c, sums, shift, t->columns, (t->rows - y) * t->columns - c);
      if (c == last) break;
    }
}

/* x: (planes / multiplier, in_rows, in_columns), out: (planes, out_rows, out_columns), weight:
 * (channels, SIDE, SIDE), bias: (channels). items = planes * blocks of rows. top, left < SIDE. */
__kernel void conv_depthwise(const __global STORAGE(X_TYPE) * x, const long x_offset,
                             const __global float *weight, const long weight_offset,
                             const __global float *bias, const long bias_offset,
                             __global STORAGE(OUT_TYPE) * out, const long out_offset,
                             const index_t items, const int channels, const int multiplier,
                             const int block, const int in_rows, const int in_columns,
                             const int out_rows, const int out_columns, const int top,
                             const int left) {
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
#if ROUNDS_OUT
  t.rows = min(MOST_COLUMNS / out_columns, (rows + ROWS - 1) / ROWS) * ROWS;
  float band[ROWS * MOST_COLUMNS + PARTS * W];
#endif
  for (int y = 0; y < rows; y += t.rows) {
    const int at = y * out_columns, n = min(t.rows, rows - y) * out_columns;
#if ROUNDS_OUT
    float *to = band;
#else
    __global float *to = out + at;
#endif
    t.first = first + y;
    if (finite)
      make_rows(x, taps, shift, to, &t);
    else
      make_directly(x, taps, shift, to, &t);
    FINISH(out + at, to, cell + at, n);
  }
}
