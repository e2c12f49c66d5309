/* Tiles of gemm.c's products of floats, whose sums stay in registers. Include it once per
 * instruction set, after defining
 *   TILE_TARGET   target attribute of functions
 *   TILE_ONE, TILE_RUN   functions for a constant number of rows, and for 1 to TILE_ROWS
 *   TILE_VECTOR   half a row of a tile, of TILE_COLUMNS floats
 *   TILE_ADD(type, rows, a, b, at, sums)   sums (rows, 2) += a (rows) * the columns of b, of dtype
 *     `type`, from its element `at` on
 * There is separate code for each number of rows, and for each constant `type`. */

TILE_TARGET KERNEL_INLINE void TILE_ONE(dtype type, int rows, const gemm_tile *tile) {
  _Static_assert(TILE_COLUMNS * sizeof(float) <= GEMM_ROW_BYTES, "a row of zeros is as wide");
  const int chains = gemm_chains(rows);
  const float *a = tile->a;
  TILE_VECTOR acc[TILE_ROWS > 6 ? 2 * TILE_ROWS : 12];
  int64_t k = 0;
#pragma GCC unroll 12
  for (int i = 0; i < rows; i++) {
    const char *c = (const char *)((float *)tile->c + i * tile->ldc);
    __builtin_prefetch(c, 1, 3);
    if (TILE_COLUMNS * sizeof(float) > 64) __builtin_prefetch(c + 64, 1, 3);
  }
  if (tile->from != tile->c && tile->from_stride != 0) {
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) {
      const char *from = (const char *)((const float *)tile->from + i * tile->from_stride);
      __builtin_prefetch(from, 0, 3);
      if (TILE_COLUMNS * sizeof(float) > 64) __builtin_prefetch(from + 64, 0, 3);
    }
  }
#pragma GCC unroll 24
  for (int i = 0; i < 2 * rows * chains; i++) acc[i] = (TILE_VECTOR){0};
  for (; k + chains <= tile->k; k += chains) {
    prefetch_line(tile->next + k * tile->next_stride, 0);
#pragma GCC unroll 4
    for (int x = 0; x < chains; x++)
      TILE_ADD(type, rows, a + (k + x) * rows, tile->b, (k + x) * TILE_COLUMNS, acc + x * rows * 2);
  }
  for (; k < tile->k; k++) TILE_ADD(type, rows, a + k * rows, tile->b, k * TILE_COLUMNS, acc);
#pragma GCC unroll 12
  for (int i = 0; i < rows; i++) {
    float *c = (float *)tile->c + i * tile->ldc;
    const float *from = (const float *)tile->from + i * tile->from_stride;
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++, c += TILE_COLUMNS / 2, from += TILE_COLUMNS / 2) {
      TILE_VECTOR sum;
      memcpy(&sum, from, sizeof sum);
#pragma GCC unroll 4
      for (int x = 0; x < chains; x++) sum += acc[(x * rows + i) * 2 + h];
      memcpy(c, &sum, sizeof sum);
    }
  }
}

TILE_TARGET KERNEL_INLINE void TILE_RUN(dtype type, const gemm_tile *tile, int rows) {
#define TILE_CASE(n) TILE_ONE(type, n, tile)
#include "backend/cpu/kernels/support/tile_rows.h"
}

#undef TILE_TARGET
#undef TILE_ONE
#undef TILE_RUN
#undef TILE_ROWS
#undef TILE_COLUMNS
#undef TILE_VECTOR
#undef TILE_ADD
