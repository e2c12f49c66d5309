/* Panels of matrices on CPUs: [panel of ROWS rows of a][k][ROWS], [panel of COLUMNS columns of
 * b][k][COLUMNS], and the tile of sums that two of them make. */
#include "transpose.h"
#ifndef B_TYPE
#define B_TYPE F32
#endif
#ifndef WIDTH
#define WIDTH 16 /* floats of a register */
#endif
#ifndef B_PACKED
#define B_PACKED 0
#endif
#if WIDTH == 8
#define ROWS 6 /* 12 of 16 registers */
#else
#define ROWS 8 /* 16 of 32 registers */
#endif
#define COLUMNS (2 * WIDTH)
#define DEPTH 128 /* its panel of b and the one behind it fit the first-level cache */
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
#define SUMS_SPACE __private /* where tiles of sums are */
#endif

#if WIDTH >= 8
/* r[i]: 16 neighbours in k of column i; to to[k * COLUMNS + column]. */
static inline void store_transposed(float16 *r, __local float *to) {
  transpose_16(r);
#pragma unroll
  for (int i = 0; i < 16; i++) vstore16(r[i], 0, to + i * COLUMNS);
}
#endif

/* tile (ROWS, COLUMNS), whose rows are `pitch` apart, = a panel of a (depth, ROWS) by a panel of b
 * (depth, COLUMNS), on top of what it was unless `first`. With each k the line at `next` is asked
 * for, and `next_step` floats behind it with the one that follows; next_step 0: none is. */
static inline void multiply_panels(__global const float *a, B_SPACE const float *b, int depth,
                                   bool first, SUMS_SPACE float *tile, int pitch,
                                   __global const float *next, int next_step) {
  for (int k0 = 0; k0 < depth; k0 += CHAIN, first = false) {
    const int k1 = min(k0 + CHAIN, depth);
    floatw c0[ROWS], c1[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) c0[r] = c1[r] = 0;
    for (int k = k0; k < k1; k++) {
      const floatw x = vloadw(0, b), y = vloadw(1, b);
      if (next_step) ASK_FOR(next);
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        c0[r] = fma((floatw)a[r], x, c0[r]);
        c1[r] = fma((floatw)a[r], y, c1[r]);
      }
      a += ROWS;
      b += COLUMNS;
      next += next_step;
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
