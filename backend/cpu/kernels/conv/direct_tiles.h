/* Tiles of direct_kernels.c, whose sums stay in registers. Include it once per instruction set,
 * after defining
 *   TILE_SET   instruction set of the vectors (tile_vectors.h)
 *   TILE(name)   names of the functions
 *   TILE_ROWS   most rows
 *   TILE_VECTORS   vectors of a row; also half as many
 * Each sum adds its products in the order of k, whatever the number of rows. */

#include "backend/cpu/kernels/support/tile_vectors.h"

enum { TILE(floats) = (int)(sizeof(TILE_VECTOR) / sizeof(float)) };

TILE_TARGET KERNEL_INLINE void TILE(one)(const direct_product *t, const int rows, const int vectors,
                                         const int64_t step, const bool prefetches) {
  enum { FLOATS = TILE(floats) };
  const int64_t b_stride = t->b_stride;
  const float *b = t->b;
  TILE_VECTOR sums[TILE_ROWS * TILE_VECTORS];
#pragma GCC unroll 28
  for (int i = 0; i < rows * vectors; i++) sums[i] = TILE_FILL(0);
  for (int64_t k = 0; k < t->k; k++, b += b_stride) {
    const float *x = t->x + t->offsets[k];
    prefetch_line(t->next + k * t->next_stride, 0);
    if (prefetches) prefetch_line(t->x + t->offsets[k + DIRECT_AHEAD], 0);
    TILE_VECTOR columns[TILE_VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
      columns[v] = TILE_LOAD(b + v * FLOATS);
    }
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++) {
      const TILE_VECTOR in = TILE_FILL(x[i * step]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; v++)
        sums[i * vectors + v] = TILE_ADD(in, columns[v], sums[i * vectors + v]);
    }
  }
#pragma GCC unroll 28
  for (int i = 0; i < rows * vectors; i++) {
    TILE_VECTOR sum = sums[i];
    if (t->adds) sum += TILE_LOAD(t->c + i * FLOATS);
    memcpy(t->c + i * FLOATS, &sum, sizeof sum);
  }
}

TILE_TARGET KERNEL_INLINE void TILE(rows)(const direct_product *t, int rows, const int vectors,
                                          const int64_t step, const bool prefetches){
#define TILE_CASE(n) TILE(one)(t, n, vectors, step, prefetches)
#include "backend/cpu/kernels/support/tile_rows.h"
}

/* Runs a tile, with separate code for a stride of 1. Only the largest tiles prefetch inputs. */
TILE_TARGET KERNEL_INLINE void TILE(run)(const direct_product *t, int rows, const int vectors) {
  const bool is_largest = TILE_ROWS == 14 && vectors == TILE_VECTORS;
  if (t->step == 1 && is_largest && t->prefetches)
    TILE(rows)(t, rows, vectors, 1, true);
  else if (t->step == 1)
    TILE(rows)(t, rows, vectors, 1, false);
  else
    TILE(rows)(t, rows, vectors, t->step, false);
}

TILE_TARGET static void TILE(whole)(const direct_product *t, int rows) {
  TILE(run)(t, rows, TILE_VECTORS);
}
TILE_TARGET static void TILE(half)(const direct_product *t, int rows) {
  TILE(run)(t, rows, TILE_VECTORS / 2);
}

static inline direct_kernel TILE(kernel)(void) {
  return (direct_kernel){TILE_ROWS, TILE_VECTORS * TILE(floats), TILE(whole), TILE(half)};
}
/* Returns the kernel for `outputs` outputs: half a panel wide if that is enough. */
static inline direct_kernel TILE(kernel_for)(int64_t outputs) {
  const int half = TILE_VECTORS / 2 * TILE(floats);
  return outputs <= half ? (direct_kernel){TILE_ROWS, half, TILE(half), NULL} : TILE(kernel)();
}

#undef TILE
#undef TILE_ROWS
#undef TILE_VECTORS
