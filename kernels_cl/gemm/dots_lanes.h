/* Multiplies rows in tiles of dots.h by panels of codes. A work-item has one column of each of
 * PANELS panels, so that neighbours read neighbouring words of a panel and the same words of a.
 * Products within a span of a part are added as integers. Their sums are scaled and added in the
 * order of parts, in f32. Hence neither the instruction that adds the integers nor M or PANELS
 * changes a bit. */
#include "dots.h"
#pragma OPENCL FP_CONTRACT OFF
#define SUMS (PANELS * M)

#if WIDE_FACTORS
#define FACTOR(p, i) ((__global const float *)(p))[i]
#else
#define FACTOR(p, i) vload_half(i, (__global const half *)(p))
#endif

/* Returns d * s, or m * l, of a column in a span of a block, from offsets `at` and subs_at. */
static inline float column_factor(__global const uchar *block, int at, int subs_at, int span,
                                  int column) {
  const float d = FACTOR(block + at, span / PERIOD * PANEL + column);
#if HAS_SUBS
  return d * (float)((__global const char *)(block + subs_at))[span * PANEL + column];
#else
  return d;
#endif
}

/* sum (PANELS, M) = the integer sums of a span of a part. The part's words of the tile begin at a,
 * those of the columns at words[p]. */
static inline void sum_columns(__global const int *a, __global const uint *const *words, int span,
                               int *sum) {
  __global const int *a_sums = a + (WORDS + 1 + span) * M;
#pragma unroll
  for (int i = 0; i < SUMS; i++) sum[i] = HAS_LOWS ? 0 : a_sums[i % M];
#pragma unroll
  for (int v = span * VECTORS / SPANS; v < (span + 1) * VECTORS / SPANS; v++) {
    uint w[PANELS];
#pragma unroll
    for (int p = 0; p < PANELS; p++) w[p] = words[p][v * PANEL];
#pragma unroll
    for (int i = 0; i < SUMS; i++) {
#if CODE_BITS == 8
      sum[i] = add_dot(sum[i], w[i / M], a[v * M + i % M]);
#else
      sum[i] = add_dot(sum[i], w[i / M] & 0x0f0f0f0fu, a[2 * v * M + i % M]);
      sum[i] = add_dot(sum[i], w[i / M] >> 4 & 0x0f0f0f0fu, a[(2 * v + 1) * M + i % M]);
#endif
    }
  }
}

/* Returns total + the scaled sums of a span. m: row of the tile whose part begins at a. */
static inline float add_scaled(float total, float sum, float scale, float low,
                               __global const int *a, int span, int m) {
  total = fma(sum, scale * as_float(a[WORDS * M + m]), total);
#if HAS_LOWS
  total = fma(as_float(a[(WORDS + 1 + span) * M + m]), low, total);
#endif
  return total;
}

#define FINISH(total, m, n)                                                        \
  if ((m) < product.rows && (n) < n_size) {                                        \
    const index_t at = (m)*n_size + (n);                                           \
    float value = product.has_matrix ? alpha * (total) : 0.0f;                     \
    if (HAS_BIAS) value += beta * LOADF(BIAS_TYPE, bias, (m)*bias_m + (n)*bias_n); \
    STORE(OUT_TYPE, out, at, value);                                               \
    EPILOGUE(out + at, z * m_size * n_size + at, 1);                               \
  }
