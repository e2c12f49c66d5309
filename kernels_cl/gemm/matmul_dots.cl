/* out[z][m][n] = alpha * sum_k a[z][m][k] * b[k][n] + beta * bias[z][m][n] for a packed in tiles of
 * dots.h and a b in panels of codes, on GPUs. A work-item multiplies a tile by a column of each of
 * PANELS panels. A group has PANEL columns and some tiles, which share the cached part of b. */
#ifndef PANELS
#define PANELS 2
#endif
#include "dots_lanes.h"

__kernel void matmul_dots(DOTS_PARAMS, CODES_PARAMS) {
  const index_t z = (index_t)get_global_id(2), tile = (index_t)get_global_id(1),
                tiles = (m_size + M - 1) / M, panels = (n_size + PANEL - 1) / PANEL,
                panel = (index_t)get_group_id(0) * PANELS;
  const int column = (int)get_local_id(0);
  float total[SUMS] = {0};
  a += a_offset + ((long)z * tiles + min(tile, tiles - 1)) * parts * TILE_WORDS;
  const dots_product product = DOTS_PRODUCT_AT(z);
  b += b_offset + product.b;
  bias += bias_offset + strided_offset(z, batch_dims, bias_batch);
  out += out_offset + product.out;
  for (index_t part = 0; part < parts; part++, a += TILE_WORDS) {
    const int of_block = (int)(part % BLOCK);
    __global const uchar *block[PANELS];
    __global const uint *words[PANELS];
#pragma unroll
    for (int p = 0; p < PANELS; p++) {
      block[p] = BLOCK_OF(b + (long)min(panel + p, panels - 1) * panel_bytes, part);
      words[p] = (__global const uint *)(block[p] + of_block * PART_BYTES) + column;
    }
#pragma unroll
    for (int span = 0; span < SPANS; span++) {
      int sum[SUMS];
      sum_columns(a, words, span, sum);
#pragma unroll
      for (int p = 0; p < PANELS; p++) {
        const int of = of_block * SPANS + span;
        const float scale = column_factor(block[p], D_AT, S_AT, of, column),
                    low = HAS_LOWS ? column_factor(block[p], M_AT, L_AT, of, column) : 0;
#pragma unroll
        for (int m = 0; m < M; m++)
          total[p * M + m] =
              add_scaled(total[p * M + m], (float)sum[p * M + m], scale, low, a, span, m);
      }
    }
  }
#pragma unroll
  for (int p = 0; p < PANELS; p++)
#pragma unroll
    for (int m = 0; m < M; m++) FINISH(total[p * M + m], tile * M + m, (panel + p) * PANEL + column)
}
