/* Tiles of pointwise_kernels.c. Included once for each instruction set and number of columns,
 * behind TILE_TARGET   what functions are compiled for TILE_ONE, TILE_RUN   the names of those that
 * are made: a number of rows; 1 to TILE_ROWS of them TILE_VECTOR   the type of vectors;
 * TILE_VECTORS of them are a row TILE_LOAD(p), TILE_FILL(x), TILE_ADD(a, b, sum), TILE_MAX(a, b),
 * TILE_MIN(a, b)   of vectors; the last two give b where they cannot tell. Each sum is made in the
 * order of k, whatever the number of rows. */

TILE_TARGET KERNEL_INLINE void TILE_ONE(const pointwise_tile *t, const int rows) {
  enum { FLOATS = (int)(sizeof(TILE_VECTOR) / sizeof(float)) };
  const float *a = t->a, *b = t->b;
  const int64_t a_step = t->a_step, b_step = t->b_step;
  int64_t k = 0;
  do {
    TILE_VECTOR sums[TILE_ROWS * TILE_VECTORS];
    const int64_t stop = t->k - k < POINTWISE_BLOCK ? t->k : k + POINTWISE_BLOCK;
    const bool adds = k > 0, ends = stop == t->k;
#pragma GCC unroll 24
    for (int i = 0; i < rows * TILE_VECTORS; i++) sums[i] = TILE_FILL(0);
    for (; k < stop; k++, a += a_step, b += b_step) {
      TILE_VECTOR columns[TILE_VECTORS];
#pragma GCC unroll 4
      for (int v = 0; v < TILE_VECTORS; v++) {
        columns[v] = TILE_LOAD(b + v * FLOATS);
        ask_for(b + v * FLOATS, TILE_VECTORS * (int)sizeof(TILE_VECTOR));
      }
#pragma GCC unroll 12
      for (int i = 0; i < rows; i++) {
        const TILE_VECTOR x = TILE_FILL(a[i]);
#pragma GCC unroll 4
        for (int v = 0; v < TILE_VECTORS; v++)
          sums[i * TILE_VECTORS + v] = TILE_ADD(x, columns[v], sums[i * TILE_VECTORS + v]);
      }
    }
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) {
      float *c = t->c + i * t->c_step;
#pragma GCC unroll 4
      for (int v = 0; v < TILE_VECTORS; v++) {
        TILE_VECTOR sum = sums[i * TILE_VECTORS + v];
        if (adds) sum += TILE_LOAD(c + v * FLOATS);
        if (ends) {
          sum += TILE_FILL(t->bias[i]);
          if (t->added) sum += TILE_LOAD(t->added + i * t->c_step + v * FLOATS);
          sum = TILE_MIN(TILE_FILL(t->high), TILE_MAX(TILE_FILL(t->low), sum));
        }
        memcpy(c + v * FLOATS, &sum, sizeof sum);
      }
    }
  } while (k < t->k);
}

TILE_TARGET static void TILE_RUN(const pointwise_tile *t, int rows) {
  if (rows == 1) TILE_ONE(t, 1);
  if (rows == 2) TILE_ONE(t, 2);
  if (rows == 3) TILE_ONE(t, 3);
  if (rows == 4) TILE_ONE(t, 4);
#if TILE_ROWS > 4
  if (rows == 5) TILE_ONE(t, 5);
  if (rows == 6) TILE_ONE(t, 6);
#endif
#if TILE_ROWS > 6
  if (rows == 7) TILE_ONE(t, 7);
  if (rows == 8) TILE_ONE(t, 8);
  if (rows == 9) TILE_ONE(t, 9);
  if (rows == 10) TILE_ONE(t, 10);
  if (rows == 11) TILE_ONE(t, 11);
  if (rows == 12) TILE_ONE(t, 12);
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
#undef TILE_MAX
#undef TILE_MIN
