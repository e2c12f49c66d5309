/* Multiplies panels of matrices on CPUs. a is in panels [panel of ROWS rows][k][ROWS], b in panels
 * [panel of COLUMNS columns][k][COLUMNS]. A tile is the product of a panel of each. */
#include "transpose.h"
#ifndef B_TYPE
#define B_TYPE F32
#endif
#ifndef WIDTH
#define WIDTH 16 /* floats per register */
#endif
#ifndef B_PACKED
#define B_PACKED 0
#endif
#if WIDTH == 8
#define ROWS 6 /* uses 12 of 16 registers */
#else
#define ROWS 8 /* uses 16 of 32 registers */
#endif
#define COLUMNS (2 * WIDTH)
#define DEPTH 128 /* a panel of b and the next one fit the first-level cache */
#define CHAIN 64  /* additions in a row before their sum is added to the total */

#define floatw PASTE(float, WIDTH)
#define vloadw PASTE(vload, WIDTH)
#define vstorew PASTE(vstore, WIDTH)

#if B_PACKED && IS_F32(B_TYPE)
#define B_SPACE __global
#else
#define B_SPACE __local
#endif
#ifndef SUMS_SPACE
#define SUMS_SPACE __private /* address space of tiles of sums */
#endif

#if WIDTH >= 8
/* Stores r, where r[i] is 16 neighbours in k of column i, to to[k * COLUMNS + column]. */
static inline void store_transposed(float16 *r, __local float *to) {
  transpose_16(r);
#pragma unroll
  for (int i = 0; i < 16; i++) vstore16(r[i], 0, to + i * COLUMNS);
}
#endif

/* tile (ROWS, COLUMNS) = the product of a panel of a (depth, ROWS) and a panel of b (depth,
 * COLUMNS), added to the tile unless `first`. Rows of the tile are `pitch` apart. Each k prefetches
 * the line at `next`, which advances by next_stride floats; next_stride 0: no prefetch. */
static inline void multiply_panels(__global const float *a, B_SPACE const float *b, int depth,
                                   bool first, SUMS_SPACE float *tile, int pitch,
                                   __global const float *next, int next_stride) {
  for (int k0 = 0; k0 < depth; k0 += CHAIN, first = false) {
    const int k1 = min(k0 + CHAIN, depth);
    floatw c0[ROWS], c1[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) c0[r] = c1[r] = 0;
    for (int k = k0; k < k1; k++) {
      const floatw x = vloadw(0, b), y = vloadw(1, b);
      if (next_stride) PREFETCH(next);
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        c0[r] = FMA((floatw)a[r], x, c0[r]);
        c1[r] = FMA((floatw)a[r], y, c1[r]);
      }
      a += ROWS;
      b += COLUMNS;
      next += next_stride;
    }
    if (!first) {
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        c0[r] += vloadw(0, tile + r * pitch);
        c1[r] += vloadw(1, tile + r * pitch);
      }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      vstorew(c0[r], 0, tile + r * pitch);
      vstorew(c1[r], 1, tile + r * pitch);
    }
  }
}
