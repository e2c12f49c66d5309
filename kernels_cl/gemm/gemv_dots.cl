/* The product of matmul_dots.cl for few rows. A group computes a tile of a panel. LANES work-items
 * per column compute the integer sums of a round, TURNS parts each, in local memory. One work-item
 * per row and column then scales and adds them in order. */
#define PANELS 1
#ifndef LANES
#define LANES 4
#endif
#include "dots_lanes.h"
#define GROUP (PANEL * LANES)
#ifndef TURNS
#define TURNS 4
#endif
#define ROUND (LANES * TURNS)
#define TILE (PANEL * M)
#define CHAINS ((TILE + GROUP - 1) / GROUP) /* row and column pairs per work-item */

__kernel void gemv_dots(DOTS_PARAMS, CODES_PARAMS) {
  __local float sums[ROUND * SPANS][TILE], scales[ROUND * SPANS][PANEL],
      lows[HAS_LOWS * ROUND * SPANS + 1][PANEL];
  const index_t z = (index_t)get_global_id(2), tile = (index_t)get_global_id(1),
                tiles = (m_size + M - 1) / M, panel = (index_t)get_group_id(0);
  const int item = (int)get_local_id(0), column = item % PANEL, lane = item / PANEL;
  float total[CHAINS] = {0};
  a += a_offset + ((long)z * tiles + tile) * parts * TILE_WORDS;
  const dots_product product = DOTS_PRODUCT_AT(z);
  b += b_offset + product.b + (long)panel * panel_bytes;
  bias += bias_offset + strided_offset(z, batch_dims, bias_batch);
  out += out_offset + product.out;
  for (index_t first = 0; first < parts; first += ROUND, a += ROUND * TILE_WORDS) {
    const int n = (int)min((index_t)ROUND, parts - first);
    for (int i = lane; i < n; i += LANES) {
      __global const uchar *block = BLOCK_OF(b, first + i);
      const int of_block = (int)((first + i) % BLOCK);
      __global const uint *words = (__global const uint *)(block + of_block * PART_BYTES) + column;
#pragma unroll
      for (int span = 0; span < SPANS; span++) {
        const int of = of_block * SPANS + span, to = i * SPANS + span;
        int sum[M];
        sum_columns(a + i * TILE_WORDS, &words, span, sum);
#pragma unroll
        for (int m = 0; m < M; m++) sums[to][m * PANEL + column] = (float)sum[m];
        scales[to][column] = column_factor(block, D_AT, S_AT, of, column);
#if HAS_LOWS
        lows[to][column] = column_factor(block, M_AT, L_AT, of, column);
#endif
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int chain = 0, e = item; chain < CHAINS && e < TILE; chain++, e += GROUP)
      for (int i = 0; i < n * SPANS; i++)
        total[chain] = add_scaled(total[chain], sums[i][e], scales[i][e % PANEL],
                                  lows[HAS_LOWS * i][e % PANEL], a + i / SPANS * TILE_WORDS,
                                  i % SPANS, e / PANEL);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  for (int chain = 0, e = item; chain < CHAINS && e < TILE; chain++, e += GROUP)
    FINISH(total[chain], tile * M + e / PANEL, panel * PANEL + e % PANEL)
}
