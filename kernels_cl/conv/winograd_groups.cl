/* Convolutions of images in float with a 3x3 kernel, stride 1, by winograd.h, for devices with many
 * work-items, some rows of tiles at a time. A work-item computes the factors of a tile and channel.
 * A group multiplies a block of outputs and tiles, staged through local memory. A work-item
 * computes a tile of outputs. Factors are [group][N * N][channel][tile], sums [group][N *
 * N][output][tile], each with a pitch of `pitch` tiles. */
#include "common.h"
#ifndef HAS_BIAS
#define HAS_BIAS 1
#endif
#define COLUMNS 32 /* outputs of a panel of winograd_pack.cl, and of a block */
#define TILES 32   /* tiles of a block */
#define DEPTH 16   /* channels per separate sum, which keeps rounding errors small */
#define BLOCK 4    /* outputs and tiles of a work-item */
#define WORKERS (COLUMNS / BLOCK * TILES / BLOCK)
#include "winograd.h"
#define EACH_OF_N(i) _Pragma("unroll") for (int i = 0; i < N; i++)
#define EACH_OF_TILE(i) _Pragma("unroll") for (int i = 0; i < TILE; i++)

/* items: (channel, tile of the rows), tiles innermost. */
__kernel void winograd_tile_factors(const __global float *x, const long x_offset,
                                    __global float *factors, const long factors_offset,
                                    const index_t items, const int groups, const index_t n_tiles,
                                    TILES_PARAMS) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t tile = item % n_tiles, channel = item / n_tiles, stride = channels * pitch;
  const place p =
      place_of(first_row + (int)(tile / tile_columns), (int)(tile % tile_columns), tile_rows);
  x += x_offset + ((index_t)p.image * groups * channels + channel) * in_rows * in_columns;
  factors +=
      factors_offset + (channel / channels * FACTORS * channels + channel % channels) * pitch;
  lanes made[N][N], d[N], f[N];
  EACH_OF_N(column) {
    EACH_OF_N(row) {
      const int y = p.row * TILE + row - top, at = p.column * TILE + column - left;
      const int inside = y >= 0 && y < in_rows && at >= 0 && at < in_columns;
      d[row] = inside ? x[(index_t)y * in_columns + at] : 0.0f;
    }
    factors_of(d, f);
    EACH_OF_N(row) made[row][column] = f[row];
  }
  EACH_OF_N(row) {
    factors_of(made[row], f);
    EACH_OF_N(column) factors[(row * N + column) * stride + tile] = f[column];
  }
}

/* The grid of work-groups is (blocks of tiles, panels, factors of all groups). */
__kernel void winograd_products(const __global float *factors, const long factors_offset,
                                const __global float *packed, const long packed_offset,
                                __global float *sums, const long sums_offset, const int channels,
                                const int n_outputs, const index_t n_tiles, const index_t pitch) {
  __local float of_outputs[DEPTH][COLUMNS], of_tiles[DEPTH][TILES];
  const int worker = (int)get_local_id(0), panels = (n_outputs + COLUMNS - 1) / COLUMNS;
  const index_t first = (index_t)get_group_id(0) * TILES, z = (index_t)get_group_id(2);
  const int panel = (int)get_group_id(1), o = worker / (TILES / BLOCK) * BLOCK,
            t = worker % (TILES / BLOCK) * BLOCK;
  factors += factors_offset + z * channels * pitch;
  packed += packed_offset +
            (((long)z / FACTORS * panels + panel) * FACTORS + z % FACTORS) * channels * COLUMNS;
  float total[BLOCK][BLOCK] = {{0}};
  for (int k0 = 0; k0 < channels; k0 += DEPTH) {
    for (int e = worker; e < DEPTH * COLUMNS; e += WORKERS) {
      const int k = k0 + e / COLUMNS, j = e % COLUMNS;
      of_outputs[e / COLUMNS][j] = k < channels ? packed[(long)k * COLUMNS + j] : 0;
      of_tiles[e / COLUMNS][j] =
          k < channels && first + j < n_tiles ? factors[k * pitch + first + j] : 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    float partial[BLOCK][BLOCK] = {{0}};
    for (int k = 0; k < DEPTH; k++)
      for (int i = 0; i < BLOCK; i++)
        for (int j = 0; j < BLOCK; j++)
          partial[i][j] = FMA(of_outputs[k][o + i], of_tiles[k][t + j], partial[i][j]);
    for (int i = 0; i < BLOCK; i++)
      for (int j = 0; j < BLOCK; j++) total[i][j] += partial[i][j];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  sums += sums_offset + z * n_outputs * pitch;
  for (int i = 0; i < BLOCK; i++)
    for (int j = 0; j < BLOCK; j++)
      if (panel * COLUMNS + o + i < n_outputs && first + t + j < n_tiles)
        sums[(panel * COLUMNS + o + i) * pitch + first + t + j] = total[i][j];
}

/* items: (output, tile of the rows), tiles innermost. */
__kernel void winograd_tile_outputs(IMAGES_PARAMS, const __global float *sums,
                                    const long sums_offset, const index_t items,
                                    const index_t n_tiles, TILES_PARAMS) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const image s = {channels, n_outputs, in_rows, in_columns, out_rows, out_columns, top, left};
  const index_t tile = item % n_tiles, output = item / n_tiles, stride = n_outputs * pitch;
  const int group = (int)(output / n_outputs);
  const place p =
      place_of(first_row + (int)(tile / tile_columns), (int)(tile % tile_columns), tile_rows);
  sums += sums_offset + (group * FACTORS * n_outputs + output % n_outputs) * pitch + tile;
  lanes made[TILE][N], d[N], y[TILE], check = 0;
  EACH_OF_N(column) {
    EACH_OF_N(row) d[row] = sums[(row * N + column) * stride];
    outputs_of(d, y);
    EACH_OF_TILE(row) made[row][column] = y[row];
  }
  const index_t plane = (index_t)out_rows * out_columns,
                cell = (p.image * groups * n_outputs + output) * plane,
                at = (index_t)p.row * TILE * out_columns + p.column * TILE;
  const float shift = HAS_BIAS ? bias[bias_offset + output] : 0;
  const int rows = min(TILE, out_rows - p.row * TILE),
            columns = min(TILE, out_columns - p.column * TILE);
  out += out_offset + cell;
  EACH_OF_TILE(row) {
    outputs_of(made[row], y);
    EACH_OF_TILE(column)
    if (row < rows && column < columns)
      check += out[at + row * out_columns + column] = y[column] + shift;
  }
  if (!is_finite(check) && !tile_is_finite(out, &s, &p))
    make_directly(
        x + x_offset + ((index_t)p.image * groups + group) * channels * in_rows * in_columns,
        weight + weight_offset + (long)output * channels * SIDE * SIDE, shift, out, &s, &p);
  for (int row = 0; row < rows; row++)
    EPILOGUE(out + at + row * out_columns, cell + at + row * out_columns, columns);
}
