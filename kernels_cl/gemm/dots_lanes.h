/* Multiplies rows in tiles of dots.h by panels of codes. A work-item computes one column of each of
 * PANELS panels, so that neighbours read neighbouring words of a panel and the same words of a.
 * Products within a span of a part are added as integers. Their sums are scaled and added in the
 * order of parts, in f32. Hence the results do not depend on M, PANELS or the instruction that adds
 * the integers. */
#include "dots.h"
#define SUMS (PANELS * M)

/* sum (PANELS, M) = the integer sums of a span of a part. The part's words of the tile begin at a,
 * those of the columns at words[p]. */
static inline void sum_columns(__global const int *a, __global const uint *const *words, int span,
                               int *sum) {
  __global const int *a_sums = a + (WORDS + 1 + span) * M;
#pragma unroll
  for (int i = 0; i < SUMS; i++) sum[i] = HAS_LOWS ? 0 : a_sums[i % M];
#pragma unroll 2
  for (int v = span * VECTORS / SPANS; v < (span + 1) * VECTORS / SPANS; v++) {
    uint w[PANELS];
#pragma unroll
    for (int p = 0; p < PANELS; p++) w[p] = words[p][v * PANEL];
#pragma unroll
    for (int i = 0; i < SUMS; i++) {
#if CODE_BITS == 8
      sum[i] = add_dot(sum[i], w[i / M], a[v * M + i % M]);
#else
      sum[i] = add_small_dot(sum[i], w[i / M] & 0x0f0f0f0fu, a[2 * v * M + i % M]);
      sum[i] = add_small_dot(sum[i], w[i / M] >> 4 & 0x0f0f0f0fu, a[(2 * v + 1) * M + i % M]);
#endif
    }
  }
}

/* Returns total + the scaled sums of a span. m: row of the tile whose part begins at a. */
static inline float add_scaled(float total, float sum, float scale, float low,
                               __global const int *a, int span, int m) {
  return add_factors(total, sum, scale, low, as_float(a[WORDS * M + m]),
                     as_float(a[(WORDS + 1 + span) * M + m]));
}

#define FINISH(total, m, n)                     \
  if ((m) < product.rows && (n) < n_size) {     \
    const index_t row = (m), column_of_b = (n); \
    STORE_TOTAL(total, row, column_of_b)        \
    FINISH_TOTALS(row, column_of_b, 1);         \
  }
