/* Tiles of pointwise_kernels.c. Include it once per instruction set, after defining
 *   TILE_SET   instruction set of the vectors (tile_vectors.h)
 *   TILE(name)   names of the functions
 *   TILE_ROWS   most rows
 *   TILE_VECTORS   vectors of a row; also half as many
 * Each sum adds its products in the order of k, whatever the number of rows. */

#include "backend/cpu/kernels/support/tile_vectors.h"

enum { TILE(floats) = (int)(sizeof(TILE_VECTOR) / sizeof(float)) };

/* Prefetches a row of outputs and of `added`. */
TILE_TARGET KERNEL_INLINE void TILE(prefetch_row)(const pointwise_tile *t, int64_t row,
                                                  const int vectors) {
#pragma GCC unroll 4
  for (int v = 0; v < vectors; v++) {
    const int64_t at = row * t->c_stride + v * TILE(floats);
    if (t->prefetches) __builtin_prefetch(t->c + at, 1, 3);
    if (t->added) __builtin_prefetch(t->added + at, 0, 3);
  }
}

TILE_TARGET KERNEL_INLINE void TILE(one)(const pointwise_tile *t, const int rows,
                                         const int vectors) {
  enum { FLOATS = TILE(floats) };
  const float *a = t->a, *b = t->b;
  const int64_t a_stride = t->a_stride, b_stride = t->b_stride;
  int64_t k = 0;
  const int64_t prefetched = t->prefetches || t->added ? rows : 0;
  do {
    TILE_VECTOR sums[TILE_ROWS * TILE_VECTORS];
    const int64_t stop = t->k - k < POINTWISE_BLOCK ? t->k : k + POINTWISE_BLOCK;
    const bool adds = k > 0, ends = stop == t->k;
#pragma GCC unroll 24
    for (int i = 0; i < rows * vectors; i++) sums[i] = TILE_FILL(0);
    for (; k < stop; k++, a += a_stride, b += b_stride) {
      TILE_VECTOR columns[TILE_VECTORS];
      if (k < prefetched) TILE(prefetch_row)(t, k, vectors);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; v++) {
        columns[v] = TILE_LOAD(b + v * FLOATS);
        prefetch_line(b + v * FLOATS, vectors * (int)sizeof(TILE_VECTOR));
      }
#pragma GCC unroll 12
      for (int i = 0; i < rows; i++) {
        const TILE_VECTOR x = TILE_FILL(a[i]);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
          sums[i * vectors + v] = TILE_ADD(x, columns[v], sums[i * vectors + v]);
      }
    }
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) {
      float *c = t->c + i * t->c_stride;
#pragma GCC unroll 4
      for (int v = 0; v < vectors; v++) {
        TILE_VECTOR sum = sums[i * vectors + v];
        if (adds) sum += TILE_LOAD(c + v * FLOATS);
        if (ends) {
          if (t->bias) sum += TILE_FILL(t->bias[i]);
          if (t->added) sum += TILE_LOAD(t->added + i * t->c_stride + v * FLOATS);
          if (t->slope) sum = TILE_LEAKY(sum, TILE_FILL(t->slope[i]));
          sum = TILE_MIN(TILE_FILL(t->high), TILE_MAX(TILE_FILL(t->low), sum));
        }
        memcpy(c + v * FLOATS, &sum, sizeof sum);
      }
    }
  } while (k < t->k);
}

TILE_TARGET KERNEL_INLINE void TILE(rows)(const pointwise_tile *t, int rows, const int vectors){
#define TILE_CASE(n) TILE(one)(t, n, vectors)
#include "backend/cpu/kernels/support/tile_rows.h"
}

TILE_TARGET static void TILE(whole)(const pointwise_tile *t, int rows) {
  TILE(rows)(t, rows, TILE_VECTORS);
}
TILE_TARGET static void TILE(half)(const pointwise_tile *t, int rows) {
  TILE(rows)(t, rows, TILE_VECTORS / 2);
}

/* Indexed by `half`. */
static const pointwise_kernel TILE(kernels)[2] = {{TILE_VECTORS * TILE(floats), TILE(whole)},
                                                  {TILE_VECTORS / 2 * TILE(floats), TILE(half)}};

#undef TILE
#undef TILE_ROWS
#undef TILE_VECTORS
