/* Operands of the GEMMs for CPUs, and the epilogue of a tile of sums. */
#include "common.h"
#ifndef SUMS_LOCAL
#define SUMS_LOCAL 0
#endif
#if SUMS_LOCAL
#define SUMS_SPACE __local
#endif
#include "gemm_tile.h"
#ifndef A_TYPE
#define A_TYPE F32
#define OUT_TYPE F32
#define BIAS_TYPE F32
#define HAS_BIAS 0
#endif
#ifndef B_ORDER
#define B_ORDER 0 /* 0: n is contiguous, 1: k is, 2: neither */
#endif
#ifndef A_ORDER
#define A_ORDER 1 /* 1: k is contiguous */
#endif
#define LINE 16 /* floats per cache line */
#define LOADWF(T, p) PASTE(PASTE(LOAD, WIDTH), F)(T, p)

/* Parameters of the operands except b, where a is packed. a_stride: elements from one packed matrix
 * to the next, or 0 if all batches share one. */
#define PANELS_PARAMS                                                                            \
  __global const float *a, const long a_offset, const long a_stride,                             \
      __global const STORAGE(BIAS_TYPE) * bias, const long bias_offset, const index8 bias_batch, \
      const index_t bias_m, const index_t bias_n, __global STORAGE(OUT_TYPE) * out,              \
      const long out_offset, __global float *sums, const long sums_offset,                       \
      const index8 batch_dims, const index_t m_size, const index_t n_size, const index_t k_size, \
      const index_t panels_each, const index_t strip, const float alpha, const float beta

/* Adds the sums of the previous blocks of k to columns [0, n) of a row, unless `first`. Writes the
 * results to out if `last`, else the sums to `sums`. */
static inline void store_row(SUMS_SPACE float *row, int n, bool first, bool last,
                             __global float *sums, __global STORAGE(OUT_TYPE) * out, float alpha,
                             float beta, __global const STORAGE(BIAS_TYPE) * bias, index_t bias_n) {
  if (!first)
    for (int j = 0; j < n; j++) row[j] += sums[j];
  if (!last) {
    for (int j = 0; j < n; j++) sums[j] = row[j];
    return;
  }
#if HAS_BIAS
  for (int j = 0; j < n; j++)
    STORE(OUT_TYPE, out, j, alpha * row[j] + beta * LOADF(BIAS_TYPE, bias, j * bias_n));
#else
  for (int j = 0; j < n; j++) STORE(OUT_TYPE, out, j, alpha * row[j]);
#endif
}

/* Returns the floats of b's next panel to prefetch with each k of panels [first, last) of a. */
static inline int next_stride(__global const float *next, index_t first, index_t last) {
  return next ? (COLUMNS + (int)(last - first) - 1) / (int)(last - first) : 0;
}

#if !SUMS_LOCAL
/* Applies the epilogue after multiply_column of the last block of k, in a kernel with
 * PANELS_PARAMS. out is column n of product z. */
#define EPILOGUE_COLUMNS(out, z, n, columns)                        \
  for (index_t m = first * ROWS; m < min(last * ROWS, m_size); m++) \
  EPILOGUE((out) + m * n_size, ((z)*m_size + m) * n_size + (n), columns)

/* Multiplies panels [first, last) of a by `columns` columns of one panel of b, `depth` k from k0
 * on. next: the panel that is read afterwards, of which some floats are prefetched with each k; or
 * NULL. */
static inline void multiply_column(__global const float *a, B_SPACE const float *b,
                                   __global const float *next, int columns, index_t first,
                                   index_t last, index_t k0, int depth, index_t m_size,
                                   index_t n_size, index_t k_size, __global float *sums,
                                   __global STORAGE(OUT_TYPE) * out, float alpha, float beta,
                                   __global const STORAGE(BIAS_TYPE) * bias, index_t bias_m,
                                   index_t bias_n) {
  const index_t padded = (m_size + ROWS - 1) / ROWS * ROWS;
  const int stride = next_stride(next, first, last);
  for (index_t panel = first; panel < last; panel++, next += stride * depth) {
    float tile[ROWS * COLUMNS];
    for (int r = 0; r < ROWS; r++) /* prefetch: these sums are far apart */
      for (int at = 0; at < COLUMNS; at += LINE) PREFETCH(sums + (panel * ROWS + r) * n_size + at);
    multiply_panels(a + (long)k0 * padded + (long)panel * ROWS * depth, b, depth, true, tile,
                    COLUMNS, next, stride);
    const int rows = (int)min((index_t)ROWS, m_size - panel * ROWS);
    for (int r = 0; r < rows; r++) {
      const index_t m = panel * ROWS + r;
      store_row(tile + r * COLUMNS, columns, k0 == 0, k0 + depth == k_size, sums + m * n_size,
                out + m * n_size, alpha, beta, bias + m * bias_m, bias_n);
    }
  }
}
#else
/* Adds the products of panels [first, last) of a and one panel of b, `depth` k from k0 on, to sums
 * (rows of these panels, strip). next: as above. */
static inline void add_column(__global const float *a, B_SPACE const float *b,
                              __global const float *next, index_t first, index_t last, index_t k0,
                              int depth, index_t m_size, __local float *sums, int strip) {
  a += (long)k0 * ((m_size + ROWS - 1) / ROWS * ROWS);
  const int stride = next_stride(next, first, last);
  for (index_t panel = first; panel < last; panel++, sums += ROWS * strip, next += stride * depth)
    multiply_panels(a + (long)panel * ROWS * depth, b, depth, k0 == 0, sums, strip, next, stride);
}
#endif
