/* out[n, o, y, x] = bias[o] + sum over c, i, j of weight[o, c, i, j] *
 *     x[n, c, y sy + i dy, x sx + j dx]
 * Convolution of images in float whose outputs are the lanes of vectors, for CPUs: narrow images
 * and strides leave none of them empty. x has its padding around it. The weight is in panels as
 * gemm_panels_pack writes them: [panel of COLUMNS outputs][c][i][j][COLUMNS]. A work-item makes
 * some neighbouring positions of a panel's outputs, M of a row at a time, and of few channels at a
 * time, whose weights stay in the first-level cache. The last M of a row begin earlier where they
 * would go beyond its end. Sums lie [position][COLUMNS] and are turned when they are stored. */
#include "common.h"
#include "gemm_tile.h"
#ifndef HAS_BIAS
#define HAS_BIAS 1
#endif
#ifndef M
#define M 8
#endif
#ifndef STRIDE
#define STRIDE 1 /* along a row; 0: as the argument says */
#endif
#ifndef POINTWISE
#define POINTWISE 0 /* one tap */
#endif
#ifndef CELLS
#define CELLS 64 /* the most positions of a work-item, a multiple of 16 */
#endif
#define AHEAD 16   /* taps that weights are asked for ahead of their use */
#define X_AHEAD 64 /* channels that x is, where each lies apart */
#define LOADWF(T, p) PASTE(PASTE(LOAD, WIDTH), F)(T, p)

/* How inputs and outputs lie; steps are in elements of x. */
typedef struct planes {
  int taps_y, taps_x, tap_row, tap_column; /* how many, and from one to the next */
  int row, column;                         /* from an output's first input to the next output's */
  int columns;                             /* of outputs */
  index_t size;                            /* from channel to channel */
} planes;

/* M outputs of a row, whose inputs begin at x, of some channels. */
static inline void sum_taps(floatw sums[M][2], __global const float *x,
                            __global const STORAGE(B_TYPE) * weight, int channels,
                            const planes *p) {
  const int column = STRIDE ? STRIDE : p->column, taps_y = POINTWISE ? 1 : p->taps_y,
            taps_x = POINTWISE ? 1 : p->taps_x;
#pragma unroll
  for (int m = 0; m < M; m++) sums[m][0] = sums[m][1] = (floatw)0;
  for (int c = 0; c < channels; c++, x += p->size)
    for (int i = 0; i < taps_y; i++) {
      if (POINTWISE) ASK_FOR(x + X_AHEAD * p->size);
      __global const float *in = x + i * p->tap_row;
      for (int j = 0; j < taps_x; j++, in += p->tap_column, weight += COLUMNS) {
        const floatw low = LOADWF(B_TYPE, weight), high = LOADWF(B_TYPE, weight + WIDTH);
        ASK_FOR(weight + AHEAD * COLUMNS);
        if (sizeof *weight == 4) ASK_FOR(weight + AHEAD * COLUMNS + WIDTH);
#pragma unroll
        for (int m = 0; m < M; m++) {
          const floatw v = (floatw)in[m * column];
          sums[m][0] = fma(v, low, sums[m][0]);
          sums[m][1] = fma(v, high, sums[m][1]);
        }
      }
    }
}

/* Positions [at, at + n) of some channels: to = from + their sums, or the sums alone. Both have
 * room for M positions before the first and behind the last, which are of their rows, too. */
static inline void add_channels(const float *from, float *to, bool is_first,
                                __global const float *x, __global const STORAGE(B_TYPE) * weight,
                                int channels, const planes *p, int at, int n) {
  for (int done = 0; done < n;) {
    const int y = (at + done) / p->columns, column = (at + done) % p->columns,
              left = min(n - done, p->columns - column);
    for (int k = 0; k < left; k += M) {
      const int first = min(column + k, p->columns - M), cell = done + first - column;
      floatw sums[M][2];
      sum_taps(sums, x + (index_t)y * p->row + first * p->column, weight, channels, p);
#pragma unroll
      for (int i = 0; i < 2 * M; i++) {
        floatw sum = sums[i / 2][i % 2];
        if (!is_first) sum += vloadw(i, from + cell * COLUMNS);
        vstorew(sum, i, to + cell * COLUMNS);
      }
    }
    done += left;
  }
}

/* n positions of `outputs` planes from `out` on, `plane` apart. */
static inline void store_turned(const float *sums, __global const float *bias, __global float *out,
                                index_t plane, int outputs, int n) {
#if WIDTH >= 8
  for (int at = 0; at < n; at += 16)
    for (int o = 0; o < outputs; o += 16) {
      float16 r[16];
#pragma unroll
      for (int i = 0; i < 16; i++) r[i] = vload16(0, sums + (at + i) * COLUMNS + o);
      transpose_16(r);
#pragma unroll
      for (int i = 0; i < 16; i++) {
        if (o + i >= outputs) continue;
        const float16 made = r[i] + (HAS_BIAS ? bias[o + i] : 0.0f);
        __global float *to = out + (o + i) * plane + at;
        if (at + 16 <= n) {
          vstore16(made, 0, to);
        } else {
          float lanes[16];
          vstore16(made, 0, lanes);
          for (int l = 0; l < n - at; l++) to[l] = lanes[l];
        }
      }
    }
#else
  for (int o = 0; o < outputs; o++)
    for (int i = 0; i < n; i++)
      out[o * plane + i] = sums[i * COLUMNS + o] + (HAS_BIAS ? bias[o] : 0.0f);
#endif
}

/* Global ids: positions, panels, images, of which x has those from first_image of out on.
 * cells_each <= CELLS, out_columns >= M. block: channels at a time; plane, image: elements of x
 * from one to the next. */
__kernel void conv_lanes(__global const float *x, const long x_offset,
                         __global const STORAGE(B_TYPE) * weight, const long weight_offset,
                         __global const float *bias, const long bias_offset, __global float *out,
                         const long out_offset, const int channels, const int n_outputs,
                         const int kernel_y, const int kernel_x, const int tap_row,
                         const int tap_column, const int row, const int column, const index_t plane,
                         const index_t image, const int positions, const int out_columns,
                         const int cells_each, const int block, const int first_image) {
  const int at = (int)get_global_id(0) * cells_each, n = min(cells_each, positions - at),
            first = (int)get_global_id(1) * COLUMNS, outputs = min(COLUMNS, n_outputs - first);
  const index_t z = (index_t)get_global_id(2), output = (first_image + z) * n_outputs + first,
                taps = kernel_y * kernel_x;
  const planes p = {kernel_y, kernel_x, tap_row, tap_column, row, column, out_columns, plane};
  float rooms[2][(CELLS + 2 * M) * COLUMNS];
  float *from = rooms[0] + M * COLUMNS, *to = rooms[1] + M * COLUMNS;
  x += x_offset + z * image;
  weight += weight_offset + (long)first * channels * taps;
  for (int c = 0; c < channels; c += block) {
    add_channels(from, to, c == 0, x + c * plane, weight + (long)c * taps * COLUMNS,
                 min(block, channels - c), &p, at, n);
    float *made = to;
    to = from, from = made;
  }
  out += out_offset + output * positions + at;
  store_turned(from, bias + bias_offset + first, out, positions, outputs, n);
  for (int o = 0; o < outputs; o++)
    EPILOGUE(out + o * (index_t)positions, (output + o) * positions + at, n);
}
