/* Products of panels of attention, whose sums stay in registers. Included once for each of the sets
 * of tile_vectors.h with 64 bytes, behind that and
 *   PANELS_RUN   the name of the multiply of panel_kernels that is made
 *   PANELS_ONE, PANELS_ALL   names of its parts. */

/* halves: of the lanes. */
TILE_TARGET KERNEL_INLINE void PANELS_ONE(int halves, const panel_product *t, int64_t row,
                                          int64_t a_row, int64_t a_k) {
  const int lanes = halves * PANEL_HALF;
  const float *a = t->a + row * a_row, *b = t->b;
  TILE_VECTOR acc[PANEL_TILE][2], x[2];
#pragma GCC unroll 8
  for (int i = 0; i < PANEL_TILE; i++) acc[i][0] = acc[i][1] = (TILE_VECTOR){0};
  for (int64_t k = 0; k < t->k; k++, b += lanes) {
#pragma GCC unroll 2
    for (int h = 0; h < halves; h++) x[h] = TILE_LOAD(b + h * PANEL_HALF);
#pragma GCC unroll 8
    for (int i = 0; i < PANEL_TILE; i++)
#pragma GCC unroll 2
      for (int h = 0; h < halves; h++)
        acc[i][h] = TILE_ADD(TILE_FILL(a[i * a_row + k * a_k]), x[h], acc[i][h]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < PANEL_TILE; i++)
#pragma GCC unroll 2
    for (int h = 0; h < halves; h++) {
      float *c = t->c + (row + i) * lanes + h * PANEL_HALF;
      if (t->fade)
        acc[i][h] = _mm512_fmadd_ps(TILE_LOAD(t->fade + h * PANEL_HALF), TILE_LOAD(c), acc[i][h]);
      _mm512_storeu_ps(c, acc[i][h]);
    }
}

TILE_TARGET KERNEL_INLINE void PANELS_ALL(int halves, const panel_product *t) {
  for (int64_t row = 0; row < t->rows; row += PANEL_TILE)
    if (t->a_k == 1)
      PANELS_ONE(halves, t, row, t->a_row, 1);
    else
      PANELS_ONE(halves, t, row, 1, t->a_k);
}

TILE_TARGET static void PANELS_RUN(int lanes, const panel_product *t) {
  if (lanes == PANEL_HALF)
    PANELS_ALL(1, t);
  else
    PANELS_ALL(2, t);
}

#undef PANELS_ONE
#undef PANELS_ALL
#undef PANELS_RUN
