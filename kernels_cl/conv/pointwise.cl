/* out[n, o, p] = bias[o] + sum over c of weight[o, c] * x[n, c, p]
 * Convolution in float with a kernel of one element, for CPUs. The planes of x are rows of a matrix
 * that is read in place. The weight is in panels of ROWS outputs, as gemm_pack writes them. A
 * work-item computes `columns_each` positions of some panels: `block` positions, whose inputs stay
 * in the first-level cache, for one panel after the other, ROWS by COLUMNS sums at a time. The last
 * tile of a row begins earlier if it would cross the end, and stores only what is missing. */
#include "common.h"
#include "gemm_tile.h"
#ifndef HAS_BIAS
#define HAS_BIAS 1
#endif

/* Operands of a product: x from a position on, x_stride elements from channel to channel, and a
 * panel of the weight. A panel is stored in blocks of DEPTH channels, with blocks of the other
 * panels between them. */
typedef struct product {
  const __global float *x;
  __global const float *weight;
  index_t x_stride;
  int channels, panel, padded; /* padded: number of outputs of all panels */
} product;

#define EACH_SUM                                   \
  _Pragma("unroll") for (int r = 0; r < ROWS; r++) \
      _Pragma("unroll") for (int v = 0; v < 2; v++) if (v < vectors)

/* Computes ROWS outputs of `vectors` vectors of positions, 1 or 2. */
static inline void sum_channels(floatw sums[ROWS][2], const product *p, const int vectors) {
  const __global float *x = p->x;
  floatw total[ROWS][2];
  for (int k0 = 0; k0 < p->channels; k0 += CHAIN) {
    const int first = k0 / DEPTH * DEPTH, depth = min(DEPTH, p->channels - first),
              n = min(CHAIN, p->channels - k0);
    __global const float *w =
        p->weight + (long)first * p->padded + (long)p->panel * ROWS * depth + (k0 - first) * ROWS;
    EACH_SUM sums[r][v] = (floatw)0;
    for (int k = 0; k < n; k++, x += p->x_stride, w += ROWS) {
      floatw in[2];
#pragma unroll
      for (int v = 0; v < 2; v++)
        if (v < vectors) {
          in[v] = vloadw(v, x);
          PREFETCH(x + (vectors + v) * WIDTH); /* prefetches the next tile */
        }
      EACH_SUM sums[r][v] = FMA((floatw)w[r], in[v], sums[r][v]);
    }
    if (k0 > 0) EACH_SUM sums[r][v] += total[r][v];
    if (k0 + CHAIN < p->channels) EACH_SUM total[r][v] = sums[r][v];
  }
}

/* Stores `rows` rows of sums, without `skipped` positions, in rows of `out`, `stride` apart. */
static inline void store_sums(const floatw sums[ROWS][2], __global const float *bias,
                              __global float *out, index_t stride, int rows, int skipped,
                              const int vectors) {
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    if (r >= rows) continue;
    const float shift = HAS_BIAS ? bias[r] : 0;
    __global float *to = out + r * stride;
    if (skipped == 0) {
#pragma unroll
      for (int v = 0; v < 2; v++)
        if (v < vectors) vstorew(sums[r][v] + shift, v, to);
    } else {
      float lanes[COLUMNS];
#pragma unroll
      for (int v = 0; v < 2; v++)
        if (v < vectors) vstorew(sums[r][v] + shift, v, lanes);
      for (int l = skipped; l < vectors * WIDTH; l++) to[l] = lanes[l];
    }
  }
}

static inline void make_tile(const product *p, __global const float *bias, __global float *out,
                             index_t stride, int rows, int skipped, const int vectors) {
  floatw sums[ROWS][2];
  sum_channels(sums, p, vectors);
  store_sums(sums, bias, out, stride, rows, skipped, vectors);
}

/* A tile of positions [at, end): its width and the first position that it reads. */
typedef struct tile {
  int width;
  index_t first;
} tile;
static inline tile tile_at(index_t at, index_t end, index_t positions) {
  const int width = end - at <= WIDTH || positions < COLUMNS ? WIDTH : COLUMNS;
  return (tile){width, min(at, positions - width)};
}

/* Computes positions [begin, end) of a panel's outputs. x and out are at position 0. */
static inline void make_positions(product *p, const __global float *x, __global const float *bias,
                                  __global float *out, index_t positions, int rows, index_t begin,
                                  index_t end) {
  tile t;
  for (index_t at = begin; at < end; at += t.width) {
    t = tile_at(at, end, positions);
    p->x = x + t.first;
    const int skipped = (int)(at - t.first);
    if (t.width == WIDTH)
      make_tile(p, bias, out + t.first, positions, rows, skipped, 1);
    else
      make_tile(p, bias, out + t.first, positions, rows, skipped, 2);
  }
}

/* Global ids: positions, panels, images. positions >= WIDTH; columns_each is a multiple of block,
 * block of COLUMNS. */
__kernel void conv_pointwise(__global const float *x, const long x_offset,
                             __global const float *weight, const long weight_offset,
                             __global const float *bias, const long bias_offset,
                             __global float *out, const long out_offset, const int channels,
                             const int n_outputs, const index_t positions,
                             const index_t columns_each, const index_t block,
                             const int panels_each) {
  const index_t from = (index_t)get_global_id(0) * columns_each,
                to = min(from + columns_each, positions), z = (index_t)get_global_id(2);
  const int panels = (n_outputs + ROWS - 1) / ROWS, first = (int)get_global_id(1) * panels_each,
            last = min(first + panels_each, panels);
  product p = {.weight = weight + weight_offset,
               .x_stride = positions,
               .channels = channels,
               .padded = panels * ROWS};
  x += x_offset + z * channels * positions;
  bias += bias_offset;
  out += out_offset + z * n_outputs * positions;
  for (index_t begin = from; begin < to; begin += block) {
    const index_t end = min(begin + block, to);
    for (p.panel = first; p.panel < last; p.panel++) {
      const int output = p.panel * ROWS, rows = min(ROWS, n_outputs - output);
      __global float *const row = out + (index_t)output * positions;
      make_positions(&p, x, bias + output, row, positions, rows, begin, end);
      for (int r = 0; r < rows; r++)
        EPILOGUE(row + r * positions + begin, (z * n_outputs + output + r) * positions + begin,
                 end - begin);
    }
  }
}
