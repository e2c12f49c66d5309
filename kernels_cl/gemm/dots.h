/* Rows of a, rounded to 8 bits (base/rounded.h), and their dot products with panels of codes, on
 * GPUs. A group of base/rounded.h is a part of code_panels.h.
 *
 * M rows side by side are a tile, of words of 32 bits: for each part WORDS of M, which hold the
 * rounded elements q, the scales (M floats), then for each span M of sums of q: times the scale, as
 * floats, if panels have lows; else times LEAST, as ints. A row that is not finite has scales of
 * NaN and q of 0.
 *
 * A word has four q that meet the codes of a word of b, in its order. 8 bits: byte j of word i is
 * k = 4 i + j; 4 bits: bytes of a word of b hold two codes each, and words 2 v and 2 v + 1 meet the
 * low and the high ones: k = 8 v + 2 j and 8 v + 2 j + 1.
 *
 * Products take rows and results as DOTS_PARAMS has them; b is in CODES_PARAMS. GROUPED: product z
 * is a tile of group_tiles (matmul_groups.cl), each with its own matrix of b. */
#include "add_dots.h"
#include "codes.h"
#ifndef M
#define M 1
#endif
#ifndef GROUPED
#define GROUPED 0
#endif
#define WORDS (PART / 4)
#define TILE_WORDS ((WORDS + 1 + SPANS) * M)

#ifndef OUT_TYPE
#define OUT_TYPE F32
#define BIAS_TYPE F32
#define HAS_BIAS 0
#endif
#define DOTS_PARAMS                                                                                \
  __global const int *a, const long a_offset, __global const STORAGE(BIAS_TYPE) * bias,            \
      const long bias_offset, const index8 bias_batch, const index_t bias_m, const index_t bias_n, \
      __global STORAGE(OUT_TYPE) * out, const long out_offset, const index8 batch_dims,            \
      const index_t m_size, const index_t n_size, const float alpha, const float beta,             \
      const __global long *row_tiles, const long row_tiles_offset

/* Of product z: how many rows it has, where its matrix and its results begin, and whether it has a
 * matrix; else results are 0. */
typedef struct dots_product {
  index_t rows;
  long b, out;
  int has_matrix;
} dots_product;
static inline dots_product dots_product_at(index_t z, const __global long *tile, index_t m_size,
                                           index_t n_size, long panel_bytes) {
#if GROUPED
  const long panels = (n_size + PANEL - 1) / PANEL, matrix = tile[2];
  const dots_product p = {(index_t)tile[1], max(matrix, 0L) * panels * panel_bytes,
                          tile[0] * n_size, matrix >= 0};
#else
  const dots_product p = {m_size, 0, (long)z * m_size * n_size, 1};
#endif
  return p;
}
#define DOTS_PRODUCT_AT(z) \
  dots_product_at(z, row_tiles + row_tiles_offset + 3 * (long)(z), m_size, n_size, panel_bytes)
