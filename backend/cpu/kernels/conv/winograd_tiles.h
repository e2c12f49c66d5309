/* Products of winograd_kernels.c, whose sums stay in registers. Include it once per instruction
 * set, after defining
 *   TILE_SET   instruction set of the vectors (tile_vectors.h)
 *   TILE_ONE, TILE_RUN   functions for a constant number of rows, and for 1 to TILE_ROWS
 *   TILE_VECTORS   vectors of a row
 *   TILE_AHEAD(p)   prefetches ahead of p
 * Each sum adds its products in the order of k, whatever the number of rows. */

#include "backend/cpu/kernels/support/tile_vectors.h"

TILE_TARGET KERNEL_INLINE void TILE_ONE(const winograd_product *product, const int rows) {
  enum { FLOATS = (int)(sizeof(TILE_VECTOR) / sizeof(float)) };
  const float *b = product->b, *block = product->a;
  for (int64_t k = 0; k < product->k; k += WINOGRAD_LANES, block += product->a_stride) {
    TILE_VECTOR sums[TILE_ROWS * TILE_VECTORS];
    const int64_t left = product->k - k;
    const float *a = block, *end = a + (left < WINOGRAD_LANES ? left : WINOGRAD_LANES);
#pragma GCC unroll 24
    for (int i = 0; i < rows * TILE_VECTORS; i++) sums[i] = (TILE_VECTOR){0};
    for (; a < end; a++, b += FLOATS * TILE_VECTORS) {
      TILE_VECTOR columns[TILE_VECTORS];
#pragma GCC unroll 4
      for (int v = 0; v < TILE_VECTORS; v++) {
        columns[v] = TILE_LOAD(b + v * FLOATS);
        TILE_AHEAD(b + v * FLOATS);
      }
#pragma GCC unroll 12
      for (int i = 0; i < rows; i++) {
        const TILE_VECTOR x = TILE_FILL(a[i * WINOGRAD_LANES]);
#pragma GCC unroll 4
        for (int v = 0; v < TILE_VECTORS; v++)
          sums[i * TILE_VECTORS + v] = TILE_ADD(x, columns[v], sums[i * TILE_VECTORS + v]);
      }
    }
#pragma GCC unroll 24
    for (int i = 0; i < rows * TILE_VECTORS; i++) {
      TILE_VECTOR sum = sums[i];
      if (k > 0 || product->adds) sum += TILE_LOAD(product->c + i * FLOATS);
      memcpy(product->c + i * FLOATS, &sum, sizeof sum);
    }
  }
}

TILE_TARGET __attribute__((aligned(64))) static void TILE_RUN(const winograd_product *product,
                                                              int rows) {
#define TILE_CASE(n) TILE_ONE(product, n)
#include "backend/cpu/kernels/support/tile_rows.h"
}

#undef TILE_ONE
#undef TILE_RUN
#undef TILE_ROWS
#undef TILE_VECTORS
#undef TILE_AHEAD
