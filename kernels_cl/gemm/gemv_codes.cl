/* out[z][m][n] = alpha * sum_k a[z][m][k] * b[k][n] + beta * bias[z][m][n] on a CPU, for floats up
 * to f32, few rows of a, and a b in panels of codes. A work-item computes `each` panels, `depth`
 * parts of k at a time, M rows at once. Local memory holds their sums (each, padded, PANEL),
 * followed by those k of a as floats and, with lows, by the sums of their spans. */
#include "codes.h"
#include "matmul.h"
#ifndef M
#define M 1
#endif
#define CHAINS (M == 1 ? 4 : M == 2 ? 2 : 1) /* independent sums per row */
#define SPAN (PART / SPANS)
#define AHEAD 8192 /* prefetch distance in bytes of a panel */

/* sums (M, PANEL) += the product of M rows of a and n parts of a panel from `first` on. Rows beyond
 * the last repeat the last. */
static inline void multiply_codes(__local const float *a, int a_m, __local const float *a_sums,
                                  int last, __global const uchar *panel, index_t first, int n,
                                  __local float *sums) {
  float16 total[M];
  __local const float *row[M];
#pragma unroll
  for (int m = 0; m < M; m++) {
    total[m] = 0;
    row[m] = a + min(m, last) * a_m;
  }
  for (int part = 0; part < n; part++) {
    __global const uchar *block = BLOCK_OF(panel, first + part);
    const int of_block = (int)((first + part) % BLOCK);
    __global const uint *words = (__global const uint *)(block + of_block * PART_BYTES);
#pragma unroll
    for (int span = 0; span < SPANS; span++) {
      float16 sum[M * CHAINS];
#pragma unroll
      for (int i = 0; i < M * CHAINS; i++) sum[i] = 0;
#pragma unroll
      for (int v = span * VECTORS / SPANS; v < (span + 1) * VECTORS / SPANS; v++) {
        const uint16 w = vload16(v, words);
        PREFETCH(words + v * PANEL + AHEAD / 4);
#pragma unroll
        for (int j = 0; j < CODES; j++) {
          const float16 x = CODE_OF(w, j);
#pragma unroll
          for (int m = 0; m < M; m++)
            sum[m * CHAINS + v % CHAINS] =
                FMA((float16)row[m][part * PART + v * CODES + j], x, sum[m * CHAINS + v % CHAINS]);
        }
      }
      const float16 scale = span_scale(block, of_block * SPANS + span);
#pragma unroll
      for (int m = 0; m < M; m++) {
#pragma unroll
        for (int i = 1; i < CHAINS; i++) sum[m * CHAINS] += sum[m * CHAINS + i];
        total[m] = FMA(sum[m * CHAINS], scale, total[m]);
      }
#if HAS_LOWS
      const float16 low = span_low(block, of_block * SPANS + span);
#pragma unroll
      for (int m = 0; m < M; m++)
        total[m] =
            FMA((float16)a_sums[min(m, last) * (a_m / SPAN) + part * SPANS + span], low, total[m]);
#endif
    }
  }
#pragma unroll
  for (int m = 0; m < M; m++) vstore16(total[m] + vload16(m, sums), m, sums);
}

/* Copies n elements of each row of a to (rows, depth), padded with zeros; with lows, also the sums
 * of their spans. */
static inline void copy_rows(__global const STORAGE(A_TYPE) * a, index_t a_m, index_t a_k, int rows,
                             int n, int depth, __local float *to, __local float *a_sums) {
  for (int m = 0; m < rows; m++) {
    __global const STORAGE(A_TYPE) *row = a + m * a_m;
    for (int k = 0; k < n; k++) to[m * depth + k] = LOADF(A_TYPE, row, k * a_k);
    for (int k = n; k < depth; k++) to[m * depth + k] = 0;
#if HAS_LOWS
    for (int s = 0; s < depth / SPAN; s++) {
      float sum = 0;
      for (int k = 0; k < SPAN; k++) sum += to[m * depth + s * SPAN + k];
      a_sums[m * (depth / SPAN) + s] = sum;
    }
#endif
  }
}

/* padded: m_size rounded up to M. */
__kernel void gemv_codes(GEMM_PARAMS, CODES_PARAMS, const int padded, const int each,
                         const int depth, __local float *scratch) {
  const index_t z = (index_t)get_global_id(1), panels = (n_size + PANEL - 1) / PANEL,
                first = (index_t)get_global_id(0) * each;
  const int count = (int)min((index_t)each, panels - first), rows = (int)m_size;
  __local float *from = scratch + each * padded * PANEL, *a_sums = from + rows * depth * PART;
  a += a_offset + strided_offset(z, batch_dims, a_batch);
  b += b_offset + (long)first * panel_bytes;
  bias += bias_offset + strided_offset(z, batch_dims, bias_batch);
  out += out_offset + (long)z * m_size * n_size;
  for (int i = 0; i < each * padded * PANEL; i++) scratch[i] = 0;
  for (index_t part = 0; part < parts; part += depth) {
    const int n = (int)min((index_t)depth, parts - part);
    copy_rows(a + part * PART * a_k, a_m, a_k, rows,
              (int)min(n * (index_t)PART, k_size - part * PART), depth * PART, from, a_sums);
    for (int p = 0; p < count; p++)
      for (int m = 0; m < rows; m += M)
        multiply_codes(from + m * depth * PART, depth * PART, a_sums + m * depth * SPANS,
                       rows - 1 - m, b + p * panel_bytes, part, n,
                       scratch + (p * padded + m) * PANEL);
  }
  for (int m = 0; m < rows; m++) {
    for (int p = 0; p < count; p++) {
      const index_t n0 = (first + p) * PANEL;
      const int columns = (int)min((index_t)PANEL, n_size - n0);
      __local const float *sum = scratch + (p * padded + m) * PANEL;
      for (int j = 0; j < columns; j++) {
#if HAS_BIAS
        const float v =
            alpha * sum[j] + beta * LOADF(BIAS_TYPE, bias, m * bias_m + (n0 + j) * bias_n);
#else
        const float v = alpha * sum[j];
#endif
        STORE(OUT_TYPE, out, m * n_size + n0 + j, v);
      }
    }
    const index_t at = m * n_size + first * PANEL;
    EPILOGUE(out + at, z * m_size * n_size + at,
             min(count * (index_t)PANEL, n_size - first * PANEL));
  }
}
