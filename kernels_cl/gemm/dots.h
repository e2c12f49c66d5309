/* Rows of a, rounded to 8 bits (base/rounded.h), and their dot products with panels of codes, on
 * GPUs. A group of base/rounded.h is a part of code_panels.h.
 *
 * M neighbouring rows form a tile of 32-bit words. For each part it has WORDS * M words of rounded
 * elements q, then the M scales (floats), then M sums of q for each span. A sum is a float, times
 * the scale, if panels have lows; else an int, times LEAST. A row that is not finite has scales of
 * NaN and q of 0.
 *
 * A word has four q, in the order of the codes of the word of b that they multiply. 8 bits: byte j
 * of word i is k = 4 i + j. 4 bits: bytes of a word of b hold two codes each, and words 2 v and 2 v
 * + 1 multiply the low and the high ones: k = 8 v + 2 j and 8 v + 2 j + 1.
 *
 * BY_ROWS, for matmul_dots_mma: the WORDS words of a row are neighbours, else the words of M rows.
 * The sums of q are then ints, without a factor.
 *
 * DOTS_PARAMS are the rows and results of a product, CODES_PARAMS its b. GROUPED: product z is a
 * tile of group_tiles (matmul_groups.cl), each with its own matrix of b. */
#include "add_dots.h"
#include "codes.h"
#pragma OPENCL FP_CONTRACT OFF
#ifndef M
#define M 1
#endif
#ifndef GROUPED
#define GROUPED 0
#endif
#ifndef BY_ROWS
#define BY_ROWS 0
#endif
#define WORDS (PART / 4)
#define TILE_WORDS ((WORDS + 1 + SPANS) * M)
#define WORD_STEP (BY_ROWS ? 1 : M) /* from a word of a row to its next word */
#define ROW_STEP (BY_ROWS ? WORDS : 1)

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

/* The number of rows of product z, and the offsets of its matrix of b and of its results. If it has
 * no matrix, the results are 0. */
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

#if WIDE_FACTORS
#define FACTOR(p, i) ((__global const float *)(p))[i]
#else
#define FACTOR(p, i) vload_half(i, (__global const half *)(p))
#endif

/* Returns a column's factor d * s, or m * l, in a span. at, subs_at: its offsets in the block. */
static inline float column_factor(__global const uchar *block, int at, int subs_at, int span,
                                  int column) {
  const float d = FACTOR(block + at, span / PERIOD * PANEL + column);
#if HAS_SUBS
  return d * (float)((__global const char *)(block + subs_at))[span * PANEL + column];
#else
  return d;
#endif
}

/* Returns total + the scaled sum of a span. row_scale, row_sum: the scale of the row's q in the
 * span, and their sum times the scale. */
static inline float add_factors(float total, float sum, float scale, float low, float row_scale,
                                float row_sum) {
  total = FMA(sum, scale * row_scale, total);
#if HAS_LOWS
  total = FMA(row_sum, low, total);
#endif
  return total;
}

#define STORE_TOTAL(total, m, n)                                                   \
  {                                                                                \
    float value = product.has_matrix ? alpha * (total) : 0.0f;                     \
    if (HAS_BIAS) value += beta * LOADF(BIAS_TYPE, bias, (m)*bias_m + (n)*bias_n); \
    STORE(OUT_TYPE, out, (m)*n_size + (n), value);                                 \
  }
/* Runs the epilogue on neighbours of a row. */
#define FINISH_TOTALS(m, n, count) \
  EPILOGUE(out + (m)*n_size + (n), (z * m_size + (m)) * n_size + (n), count)
