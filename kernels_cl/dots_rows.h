/* Products of words of four bytes: rows of a weight's form by the words of a tile, which lie in
 * WORDS_SPACE. ROWS, VECTORS and TILE (16 VECTORS) are the kernel's. */
#ifndef DOTS_ROWS_H
#define DOTS_ROWS_H
#include "add_dots.h"

/* The sums of ROWS outputs of `vectors` vectors of positions, or more of them. */
#define EACH_SUM                                   \
  _Pragma("unroll") for (int r = 0; r < ROWS; r++) \
      _Pragma("unroll") for (int v = 0; v < VECTORS; v++) if (v < vectors)

/* sums (ROWS, TILE), or from `begin` on, += n words of the weight's rows by those of a tile. */
static inline void multiply_words(int n, const __global int *const *rows,
                                  const WORDS_SPACE uint *words, const int *begin, int *sums,
                                  const int vectors) {
  int16 sum[ROWS][VECTORS];
  EACH_SUM sum[r][v] = begin ? (int16)begin[r] : vload16(r * VECTORS + v, sums);
  for (int i = 0; i < n; i++, words += TILE) {
    uint16 x[VECTORS];
#pragma unroll
    for (int v = 0; v < VECTORS; v++)
      if (v < vectors) x[v] = vload16(v, words);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      const int q = rows[r][i];
#pragma unroll
      for (int v = 0; v < VECTORS; v++)
        if (v < vectors) sum[r][v] = add_dots(sum[r][v], x[v], q);
    }
  }
  EACH_SUM vstore16(sum[r][v], r * VECTORS + v, sums);
}
#endif
