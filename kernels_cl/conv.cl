/* out[n, o, y, x] = bias[o] + sum over c, i, j of weight[o, c, i, j] * padded[n, c, y sy + i dy, x sx + j dx].
 *
 * conv_spread lays the padded input out by phase: padded row y of a channel goes to phase y % sy, row y / sy, and columns
 * likewise: (n, c, sy, sx, plane_rows, plane_columns), as `real`. There the inputs that one tap (i, j) needs for
 * neighbouring outputs are neighbours too, whatever stride and dilation are.
 * conv_direct walks an image's outputs as positions p = y * plane_columns + x over the padded width (those with x beyond
 * the output's width are dropped): a work-item makes OUTPUTS channels of VECTORS * W neighbouring positions, for each tap
 * and channel VECTORS loads and OUTPUTS * VECTORS multiply-adds. Sums are taken over at most BLOCK taps at a time.
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

#define WIDTH (VECTORS * W)
#if W == 1
typedef real realw;
#define LOAD_REAL(p) (*(p))
#define STORE_REAL(p, v) *(p) = (v)
#elif W == 4
typedef PASTE(PASTE(real_, COMPUTE), 4) realw;
#define LOAD_REAL(p) vload4(0, p)
#define STORE_REAL(p, v) vstore4(v, 0, p)
#else
typedef PASTE(PASTE(real_, COMPUTE), 16) realw;
#define LOAD_REAL(p) vload16(0, p)
#define STORE_REAL(p, v) vstore16(v, 0, p)
#endif
#if defined(FP_FAST_FMAF) || !ON_CPU
#define MULTIPLY_ADD(a, b, c) fma(a, b, c)
#else
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
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
#if W == 4
    return vload4(0, lanes);
#else
    return vload16(0, lanes);
#endif
  }
#endif
  return LOAD_REAL(p);
}

#define EACH_OUTPUT _Pragma("unroll") for (int o = 0; o < OUTPUTS; o++)
#define EACH_VECTOR _Pragma("unroll") for (int v = 0; v < VECTORS; v++)

/* sums += the channels [c, c_end) at x (their first plane); w: weights of OUTPUTS channels, each w_step further. whole: all
 * positions may be read. */
static inline void add_channels(realw sums[OUTPUTS][VECTORS], const __global real *x, const __global real *w, index_t w_step,
                                int channels, index_t channel_step, const taps *t, index_t left, const int whole) {
  for (int c = 0; c < channels; c++, x += channel_step) {
    index_t row = 0;
    int phase_y = 0;
    for (int i = 0; i < t->kernel_y; i++) {
      index_t column = 0;
      int phase_x = 0;
      for (int j = 0; j < t->kernel_x; j++) {
        const index_t at = (phase_y * t->stride_x + phase_x) * t->plane + row * t->columns + column;
        realw in[VECTORS];
        EACH_VECTOR in[v] = whole ? LOAD_REAL(x + at + v * W) : load_positions(x + (left > v * W ? at + v * W : 0), left - v * W);
        EACH_OUTPUT {
          const realw factor = (realw)w[o * w_step];
          EACH_VECTOR sums[o][v] = MULTIPLY_ADD(factor, in[v], sums[o][v]);
        }
        w++;
        column += t->skip_x;
        phase_x += t->phase_x;
        if (phase_x >= t->stride_x) {
          phase_x -= t->stride_x;
          column++;
        }
      }
      row += t->skip_y;
      phase_y += t->phase_y;
      if (phase_y >= t->stride_y) {
        phase_y -= t->stride_y;
        row++;
      }
    }
  }
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
  const int position_blocks = (int)((positions + WIDTH - 1) / WIDTH), output_blocks = (n_outputs + OUTPUTS - 1) / OUTPUTS;
  const index_t p = item % position_blocks * WIDTH;
  item /= position_blocks;
  /* The last block of channels begins earlier if it would not be full: some are made twice, with the same result, and
   * stored once. */
  const int first_kept = (int)(item % output_blocks) * OUTPUTS;
  const int first = min(first_kept, n_outputs - OUTPUTS);
  item /= output_blocks;
  const index_t group = item % groups, image = item / groups;
  taps t;
  t.kernel_y = kernel_y;
  t.kernel_x = kernel_x;
  t.skip_y = skip_y;
  t.skip_x = skip_x;
  t.phase_y = phase_y;
  t.phase_x = phase_x;
  t.stride_y = stride_y;
  t.stride_x = stride_x;
  t.columns = plane_columns;
  t.plane = (index_t)plane_rows * plane_columns;
  const index_t channel_step = t.plane * stride_y * stride_x, n_taps = kernel_y * kernel_x;
  const index_t w_step = channels * n_taps;
  x += x_offset + (image * groups + group) * channels * channel_step + p;
  weight += weight_offset + (group * n_outputs + first) * channels * n_taps;
  const int whole = !FROM_X || p + WIDTH <= positions;
  realw total[OUTPUTS][VECTORS];
  EACH_OUTPUT EACH_VECTOR total[o][v] = (realw)0;
  const int step = max((int)(BLOCK / n_taps), 1);
  for (int c = 0; c < channels; c += step) {
    const int some = min(step, channels - c);
    realw sums[OUTPUTS][VECTORS];
    EACH_OUTPUT EACH_VECTOR sums[o][v] = (realw)0;
    if (whole)
      add_channels(sums, x + c * channel_step, weight + c * n_taps, w_step, some, channel_step, &t, WIDTH, 1);
    else
      add_channels(sums, x + c * channel_step, weight + c * n_taps, w_step, some, channel_step, &t, positions - p, 0);
    EACH_OUTPUT EACH_VECTOR total[o][v] += sums[o][v];
  }
  const index_t end = min(p + WIDTH, positions);
  const int begin_row = (int)(p / plane_columns);
  for (int o = first_kept - first; o < OUTPUTS && first + o < n_outputs; o++) {
    const index_t channel = group * n_outputs + first + o;
    real shift = 0;
#if HAS_BIAS
    shift = LOAD(X_TYPE, bias, bias_offset + channel);
#endif
    real line[WIDTH];
    for (int v = 0; v < VECTORS; v++) STORE_REAL(line + v * W, total[o][v] + shift);
    __global STORAGE(X_TYPE) *to = out + out_offset + (image * groups * n_outputs + channel) * out_rows * out_columns;
    int y = begin_row;
    for (index_t row = (index_t)y * plane_columns; row < end; row += plane_columns, y++) {
      const int from = (int)max(p - row, (index_t)0), stop = (int)min(end - row, (index_t)out_columns);
      for (int k = from; k < stop; k++) STORE(X_TYPE, to, y * (index_t)out_columns + k, line[row + k - p]);
    }
  }
}
