/* Products of panels of attention, whose sums stay in registers. Include it once for each
 * instruction set, after defining
 *   TILE_SET     instruction set of the vectors (tile_vectors.h)
 *   TILE(name)   names of the functions
 *   TILE_ROWS    rows per tile: a divisor of PANEL_TILE
 *   TILE_LANES   maximum lanes per tile: PANEL_HALF or PANEL_LANES */

#include "backend/cpu/kernels/support/tile_vectors.h"

enum { TILE(width) = (int)(sizeof(TILE_VECTOR) / sizeof(float)) };
enum { TILE(vectors) = TILE_LANES / TILE(width) };

/* Computes TILE_ROWS rows of `vectors` vectors of lanes from `first` on. a_row, a_k: those of the
 * product; one of them is a constant. */
TILE_TARGET KERNEL_INLINE void TILE(one)(int vectors, int lanes, int first,
                                         const panel_product *product, int64_t row, int64_t a_row,
                                         int64_t a_k) {
  const float *a = product->a + row * a_row, *b = product->b + first;
  TILE_VECTOR acc[TILE_ROWS][TILE(vectors)], x[TILE(vectors)];
#pragma GCC unroll 8
  for (int i = 0; i < TILE_ROWS; i++)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) acc[i][v] = TILE_FILL(0);
  for (int64_t k = 0; k < product->k; k++, b += lanes) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) x[v] = TILE_LOAD(b + v * TILE(width));
#pragma GCC unroll 8
    for (int i = 0; i < TILE_ROWS; i++)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; v++)
        acc[i][v] = TILE_ADD(TILE_FILL(a[i * a_row + k * a_k]), x[v], acc[i][v]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < TILE_ROWS; i++)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
      const int lane = first + v * TILE(width);
      float *c = product->c + (row + i) * lanes + lane;
      TILE_VECTOR sum = acc[i][v];
      if (product->fade) sum = TILE_ADD_FLOATS(TILE_LOAD(product->fade + lane), TILE_LOAD(c), sum);
      memcpy(c, &sum, sizeof sum);
    }
}

TILE_TARGET KERNEL_INLINE void TILE(all)(int lanes, const panel_product *product) {
  const int at_once = lanes < TILE_LANES ? lanes : TILE_LANES, vectors = at_once / TILE(width);
  for (int64_t row = 0; row < product->rows; row += TILE_ROWS)
    for (int first = 0; first < lanes; first += at_once)
      if (product->a_k == 1)
        TILE(one)(vectors, lanes, first, product, row, product->a_row, 1);
      else
        TILE(one)(vectors, lanes, first, product, row, 1, product->a_k);
}

TILE_TARGET static void TILE(multiply)(int lanes, const panel_product *product) {
  if (lanes == PANEL_HALF)
    TILE(all)(PANEL_HALF, product);
  else
    TILE(all)(PANEL_LANES, product);
}

#undef TILE
#undef TILE_ROWS
#undef TILE_LANES
