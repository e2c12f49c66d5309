/* out[n, o, y, x] = bias[o] + sum over c, i, j of weight[o, c, i, j] * padded[n, c, y sy + i dy, x sx + j dx].
 *
 * conv_spread lays the padded input out by phase: padded row y of a channel goes to phase y % sy, row y / sy, and columns
 * likewise: (n, c, sy, sx, plane_rows, plane_columns), as `real`. There the inputs that one tap (i, j) needs for
 * neighbouring outputs are neighbours too, whatever stride and dilation are.
 * conv_direct makes OUTPUTS channels of VECTORS vectors of W neighbouring positions p = y * plane_columns + x a work-item,
 * for each tap and channel VECTORS loads and OUTPUTS * VECTORS multiply-adds. BY_ROW: a vector begins at a multiple of W of
 * an output row; else vectors follow each other over the padded width. Positions with x beyond the output's width are
 * dropped. Sums are taken over at most BLOCK taps at a time.
 * conv_widen turns 16-bit weights into `real`. */
#include "common.h"
#ifndef X_TYPE
#define X_TYPE F32
#endif
#ifndef OUTPUTS
#define OUTPUTS 8
#endif
#ifndef VECTORS
#define VECTORS 2
#endif
#ifndef W
#define W 16
#endif
#ifndef BLOCK
#define BLOCK 512
#endif
#ifndef HAS_BIAS
#define HAS_BIAS 1
#endif
#ifndef FROM_X
#define FROM_X 0 /* conv_direct reads x itself: nothing to pad, stride 1, no conversion */
#endif

#ifndef BY_ROW
#define BY_ROW 0
#endif
#ifndef STRIDED
#define STRIDED 1 /* a stride is not 1: there are phases */
#endif
#ifndef OUTPUTS_FIRST
#define OUTPUTS_FIRST 0 /* neighbouring work-items share inputs, else weights */
#endif

#if W == 1
typedef real realw;
#define STORE_WIDE(T, p, v) STORE(T, p, 0, v)
#define LOAD_REAL(p) (*(p))
#define STORE_REAL(p, v) *(p) = (v)
#elif W == 8
typedef PASTE(PASTE(real_, COMPUTE), 8) realw;
#define wide_F32(p, v) vstore8(v, 0, p)
#define wide_F16(p, v) vstore_half8_rte(v, 0, p)
#define wide_BF16(p, v) store_each(p, v)
#define wide_F64(p, v) vstore8(v, 0, p)
#define STORE_WIDE(T, p, v) PASTE(wide_, T)(p, v)
#define LOAD_REAL(p) vload8(0, p)
#define STORE_REAL(p, v) vstore8(v, 0, p)
#if IS_BF16(X_TYPE)
static inline void store_each(__global ushort *p, const realw v) {
  real lanes[W];
  vstore8(v, 0, lanes);
  for (int l = 0; l < W; l++) p[l] = float_to_bf16(lanes[l]);
}
#endif
#else
typedef PASTE(PASTE(real_, COMPUTE), 16) realw;
#define wide_F32(p, v) vstore16(v, 0, p)
#define wide_F16(p, v) vstore_half16_rte(v, 0, p)
#define wide_BF16(p, v) vstore16(float_to_bf16_16(v), 0, p)
#define wide_F64(p, v) vstore16(v, 0, p)
#define STORE_WIDE(T, p, v) PASTE(wide_, T)(p, v)
#define LOAD_REAL(p) vload16(0, p)
#define STORE_REAL(p, v) vstore16(v, 0, p)
#endif

/* A work-item writes one row of plane_columns. item = ((channel * sy + phase_y) * sx + phase_x) * plane_rows + row */
__kernel void conv_spread(const __global STORAGE(X_TYPE) *x, const long x_offset, __global real *planes,
                          const long planes_offset, const index_t items, const int rows, const int columns,
                          const int stride_y, const int stride_x, const int pad_y, const int pad_x, const int plane_rows,
                          const int plane_columns) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const int row = (int)(item % plane_rows);
  const index_t plane = item / plane_rows;
  const int phase_x = (int)(plane % stride_x), phase_y = (int)(plane / stride_x % stride_y);
  const index_t channel = plane / stride_x / stride_y;
  const int y = row * stride_y + phase_y - pad_y, first = phase_x - pad_x;
  __global real *to = planes + planes_offset + item * plane_columns;
  /* columns [begin, end) have their source first + k * stride_x inside of x */
  int begin = first < 0 ? min((-first + stride_x - 1) / stride_x, plane_columns) : 0;
  int end = columns > first ? min((columns - first + stride_x - 1) / stride_x, plane_columns) : 0;
  if (y < 0 || y >= rows || end < begin) begin = end = 0;
  const __global STORAGE(X_TYPE) *from = x + x_offset + (channel * rows + (begin < end ? y : 0)) * (index_t)columns;
  for (int k = 0; k < begin; k++) to[k] = 0;
  if (stride_x == 1)
    for (int k = begin; k < end; k++) to[k] = LOAD(X_TYPE, from, first + k);
  else
    for (int k = begin; k < end; k++) to[k] = LOAD(X_TYPE, from, first + k * stride_x);
  for (int k = end; k < plane_columns; k++) to[k] = 0;
}

__kernel void conv_widen(const __global STORAGE(X_TYPE) *weight, const long weight_offset, __global real *out,
                         const long out_offset, const index_t items) {
  const index_t from = (index_t)get_global_id(0) * 64, end = from + 64 < items ? from + 64 : items;
  for (index_t i = from; i < end; i++) out[out_offset + i] = LOAD(X_TYPE, weight, weight_offset + i);
}

typedef struct taps {
  int kernel_y, kernel_x;        /* taps */
  int skip_y, skip_x;            /* dilation / stride: planes rows and columns per tap ... */
  int phase_y, phase_x;          /* dilation % stride: ... and phases */
  int stride_y, stride_x;        /* number of phases */
  index_t columns, plane;        /* plane_columns, plane_rows * plane_columns */
} taps;

/* The input for W positions from p on; `left` of them are inside of the buffer. */
static inline realw load_positions(const __global real *p, index_t left) {
#if FROM_X && W > 1
  if (left < W) {
    real lanes[W];
    for (int l = 0; l < W; l++) lanes[l] = l < left ? p[l] : (real)0;
    return LOAD_REAL(lanes);
  }
#endif
  return LOAD_REAL(p);
}

#define EACH_OUTPUT _Pragma("unroll") for (int o = 0; o < OUTPUTS; o++)
#define EACH_VECTOR _Pragma("unroll") for (int v = 0; v < VECTORS; v++)

/* sums += `channels` channels from x (their first plane) on, vector v at base[v]; w: weights of OUTPUTS channels, each
 * w_step further. whole: all positions may be read, else only `positions` of them. */
static inline void add_channels(realw sums[OUTPUTS][VECTORS], const __global real *x, const __global real *w, index_t w_step,
                                int channels, index_t channel_step, const taps *t, const index_t base[VECTORS],
                                index_t positions, const int whole) {
  for (int c = 0; c < channels; c++, x += channel_step) {
    index_t row = 0;
    int phase_y = 0;
    for (int i = 0; i < t->kernel_y; i++) {
      index_t at = row;
      int phase_x = 0;
      if (STRIDED) at += phase_y * t->stride_x * t->plane;
      for (int j = 0; j < t->kernel_x; j++) {
        realw in[VECTORS];
        EACH_VECTOR in[v] = whole ? LOAD_REAL(x + at + base[v]) : load_positions(x + at + base[v], positions - base[v]);
        EACH_OUTPUT {
          const realw factor = (realw)w[o * w_step];
          EACH_VECTOR sums[o][v] = fma(factor, in[v], sums[o][v]);
        }
        w++;
        at += t->skip_x;
        if (STRIDED) {
          phase_x += t->phase_x;
          at += t->phase_x * t->plane;
          if (phase_x >= t->stride_x) {
            phase_x -= t->stride_x;
            at += 1 - t->stride_x * t->plane;
          }
        }
      }
      row += t->skip_y * t->columns;
      if (STRIDED) {
        phase_y += t->phase_y;
        if (phase_y >= t->stride_y) {
          phase_y -= t->stride_y;
          row += t->columns;
        }
      }
    }
  }
}

/* W positions from p on, without those beyond the width. */
static inline void store_positions(__global STORAGE(X_TYPE) *out, const realw v, index_t p, int plane_columns, int rows,
                                   int columns) {
  int y = (int)(p / plane_columns), x = (int)(p % plane_columns);
  index_t to = (index_t)y * columns + min(x, columns);
  if (x + W <= columns) {
    STORE_WIDE(X_TYPE, out + to, v);
    return;
  }
#if W > 1
  real lanes[W];
  STORE_REAL(lanes, v);
  for (int l = 0; l < W && y < rows; y++, l += plane_columns - x, x = 0)
    for (int k = x; k < columns && l + k - x < W; k++, to++) STORE(X_TYPE, out, to, lanes[l + k - x]);
#endif
}

/* x: planes of n_channels input channels an image; weight (n_outputs, channels, kernel_y, kernel_x), n_outputs and
 * channels of one group; n_outputs >= OUTPUTS; items = images * groups * output_blocks * position_blocks. */
__kernel void conv_direct(const __global real *x, const long x_offset, const __global real *weight,
                          const long weight_offset, const __global STORAGE(X_TYPE) *bias, const long bias_offset,
                          __global STORAGE(X_TYPE) *out, const long out_offset, const index_t items, const int groups,
                          const int n_outputs, const int channels, const int out_rows, const int out_columns,
                          const int plane_rows, const int plane_columns, const int kernel_y, const int kernel_x,
                          const int skip_y, const int skip_x, const int phase_y, const int phase_x, const int stride_y,
                          const int stride_x) {
  index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t positions = (index_t)(out_rows - 1) * plane_columns + out_columns;
  const int per_row = (out_columns + W - 1) / W;
  const index_t n_vectors = BY_ROW ? (index_t)out_rows * per_row : (positions + W - 1) / W;
  const int position_blocks = (int)((n_vectors + VECTORS - 1) / VECTORS), output_blocks = (n_outputs + OUTPUTS - 1) / OUTPUTS;
  const index_t block = item % ((index_t)position_blocks * output_blocks);
  const index_t first_vector = (OUTPUTS_FIRST ? block / output_blocks : block % position_blocks) * VECTORS;
  const int first_kept = (int)(OUTPUTS_FIRST ? block % output_blocks : block / position_blocks) * OUTPUTS;
  index_t base[VECTORS]; /* vectors beyond the last repeat it */
  EACH_VECTOR {
    const index_t at = min(first_vector + v, n_vectors - 1);
    base[v] = BY_ROW ? at / per_row * plane_columns + at % per_row * W : at * W;
  }
  /* The last block of channels begins earlier if it would not be full: some are made twice, with the same result, and
   * stored once. */
  const int first = min(first_kept, n_outputs - OUTPUTS);
  item /= (index_t)position_blocks * output_blocks;
  const index_t group = item % groups, image = item / groups;
  const taps t = {kernel_y, kernel_x, skip_y,  skip_x,       phase_y,
                  phase_x,  stride_y, stride_x, plane_columns, (index_t)plane_rows * plane_columns};
  const index_t channel_step = t.plane * stride_y * stride_x, n_taps = kernel_y * kernel_x;
  const index_t w_step = channels * n_taps;
  x += x_offset + (image * groups + group) * channels * channel_step;
  weight += weight_offset + (group * n_outputs + first) * channels * n_taps;
  const int whole = !FROM_X || base[VECTORS - 1] + W <= positions;
  realw total[OUTPUTS][VECTORS];
  EACH_OUTPUT EACH_VECTOR total[o][v] = (realw)0;
  const int step = max((int)(BLOCK / n_taps), 1);
  for (int c = 0; c < channels; c += step) {
    const int some = min(step, channels - c);
    realw sums[OUTPUTS][VECTORS];
    EACH_OUTPUT EACH_VECTOR sums[o][v] = (realw)0;
    if (whole)
      add_channels(sums, x + c * channel_step, weight + c * n_taps, w_step, some, channel_step, &t, base, positions, 1);
    else
      add_channels(sums, x + c * channel_step, weight + c * n_taps, w_step, some, channel_step, &t, base, positions, 0);
    EACH_OUTPUT EACH_VECTOR total[o][v] += sums[o][v];
  }
  const index_t channel = group * n_outputs + first;
  out += out_offset + (image * groups * n_outputs + channel) * out_rows * out_columns;
  for (int o = first_kept - first; o < OUTPUTS; o++) {
    const real shift = HAS_BIAS ? LOAD(X_TYPE, bias, bias_offset + channel + o) : (real)0;
    for (int v = 0; v < VECTORS && first_vector + v < n_vectors; v++)
      store_positions(out + (index_t)o * out_rows * out_columns, total[o][v] + shift, base[v], plane_columns, out_rows,
                      out_columns);
  }
}
