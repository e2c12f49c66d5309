/* Products of direct_kernels.c, whose sums stay in registers. Included once for each instruction
 * set and number of outputs, behind
 *   TILE_TARGET   what functions are compiled for
 *   TILE_ONE, TILE_RUN   the names of those that are made: a number of rows; 1 to TILE_ROWS of them
 *   TILE_VECTOR   the type of vectors; TILE_VECTORS of them are a row
 *   TILE_LOAD(p), TILE_FILL(x), TILE_ADD(a, b, sum)   of vectors
 * Each sum is made in the order of k, whatever the number of rows. */

TILE_TARGET KERNEL_INLINE void TILE_ONE(const direct_product *t, const int rows,
                                        const int64_t step) {
  enum { FLOATS = (int)(sizeof(TILE_VECTOR) / sizeof(float)) };
  const float *b = t->b;
  TILE_VECTOR sums[TILE_ROWS * TILE_VECTORS];
#pragma GCC unroll 24
  for (int i = 0; i < rows * TILE_VECTORS; i++) sums[i] = TILE_FILL(0);
  for (int64_t k = 0; k < t->k; k++, b += FLOATS * TILE_VECTORS) {
    const float *x = t->x + t->offsets[k];
    TILE_VECTOR columns[TILE_VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < TILE_VECTORS; v++) {
      columns[v] = TILE_LOAD(b + v * FLOATS);
      ask_for(b + v * FLOATS, AHEAD);
    }
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) {
      const TILE_VECTOR in = TILE_FILL(x[i * step]);
#pragma GCC unroll 4
      for (int v = 0; v < TILE_VECTORS; v++)
        sums[i * TILE_VECTORS + v] = TILE_ADD(in, columns[v], sums[i * TILE_VECTORS + v]);
    }
  }
#pragma GCC unroll 24
  for (int i = 0; i < rows * TILE_VECTORS; i++) {
    TILE_VECTOR sum = sums[i];
    if (t->adds) sum += TILE_LOAD(t->c + i * FLOATS);
    memcpy(t->c + i * FLOATS, &sum, sizeof sum);
  }
}

TILE_TARGET KERNEL_INLINE void TILE_RUN(const direct_product *t, int rows, const int64_t step) {
  if (rows == 1) TILE_ONE(t, 1, step);
  if (rows == 2) TILE_ONE(t, 2, step);
#if TILE_ROWS > 2
  if (rows == 3) TILE_ONE(t, 3, step);
  if (rows == 4) TILE_ONE(t, 4, step);
#endif
#if TILE_ROWS > 4
  if (rows == 5) TILE_ONE(t, 5, step);
  if (rows == 6) TILE_ONE(t, 6, step);
#endif
#if TILE_ROWS > 6
  if (rows == 7) TILE_ONE(t, 7, step);
  if (rows == 8) TILE_ONE(t, 8, step);
  if (rows == 9) TILE_ONE(t, 9, step);
  if (rows == 10) TILE_ONE(t, 10, step);
  if (rows == 11) TILE_ONE(t, 11, step);
  if (rows == 12) TILE_ONE(t, 12, step);
#endif
}

#undef TILE_TARGET
#undef TILE_ONE
#undef TILE_RUN
#undef TILE_ROWS
#undef TILE_VECTOR
#undef TILE_VECTORS
#undef TILE_LOAD
#undef TILE_FILL
#undef TILE_ADD
