/* out[z][m][n] = alpha * sum_k a[z][m][k] * b[k][n] + beta * bias[z][m][n] on a CPU, for floats up
 * to f32, few rows of a, and a b that gemm_panels_pack.cl has packed. A work-item computes `each`
 * panels of columns, `depth` k at a time, M rows and P panels at once. Local memory holds their
 * sums (each, rows, COLUMNS), followed by those k of a as floats, unless a is f32. */
#include "matmul.h"
#ifndef WIDTH
#define WIDTH 16 /* floats per register */
#endif
#ifndef A_ORDER
#define A_ORDER 1 /* 1: k is contiguous */
#endif
#ifndef M
#define M 1
#endif
#ifndef P
#define P 1 /* panels at once */
#endif
#define COLUMNS (2 * WIDTH)
#define CHAIN 64 /* additions in a row before their sum is added to the total */
#define AHEAD 16 /* prefetch distance in k of a panel */

#define floatw PASTE(float, WIDTH)
#define vloadw PASTE(vload, WIDTH)
#define vstorew PASTE(vstore, WIDTH)
#define LOADWF(T, p) PASTE(PASTE(LOAD, WIDTH), F)(T, p)

#if IS_F32(A_TYPE)
typedef __global const float *a_pointer;
#if A_ORDER == 1
#define A_STEP 1
#else
#define A_STEP a_k
#endif
#else
typedef __local const float *a_pointer;
#define A_STEP 1
#endif

/* sums[p] (M, COLUMNS) += the product of M rows of a and n k of panel p, for P panels. Panels are
 * b_panel apart, their sums `stride` apart. Rows beyond the last repeat the last. */
static inline void multiply_rows(a_pointer a, index_t a_m, index_t a_k, int last,
                                 __global const STORAGE(B_TYPE) * b, long b_panel, index_t n,
                                 __local float *sums, int stride) {
  for (index_t k0 = 0; k0 < n; k0 += CHAIN) {
    const int deep = (int)min((index_t)CHAIN, n - k0);
    floatw c[P * M * 2];
    a_pointer row[M];
#pragma unroll
    for (int i = 0; i < P * M * 2; i++) c[i] = 0;
#pragma unroll
    for (int m = 0; m < M; m++) row[m] = a + min(m, last) * a_m + k0 * A_STEP;
    for (int k = 0; k < deep; k++) {
#pragma unroll
      for (int p = 0; p < P; p++) {
        PREFETCH(b + p * b_panel + AHEAD * COLUMNS);
        if (sizeof *b == 4) PREFETCH(b + p * b_panel + AHEAD * COLUMNS + WIDTH);
        const floatw x = LOADWF(B_TYPE, b + p * b_panel),
                     y = LOADWF(B_TYPE, b + p * b_panel + WIDTH);
#pragma unroll
        for (int m = 0; m < M; m++) {
          const floatw v = row[m][k * A_STEP];
          c[(p * M + m) * 2] = FMA(v, x, c[(p * M + m) * 2]);
          c[(p * M + m) * 2 + 1] = FMA(v, y, c[(p * M + m) * 2 + 1]);
        }
      }
      b += COLUMNS;
    }
#pragma unroll
    for (int p = 0; p < P; p++)
#pragma unroll
      for (int i = 0; i < M * 2; i++) {
        __local float *sum = sums + p * stride;
        vstorew(c[p * M * 2 + i] + vloadw(i, sum), i, sum);
      }
  }
}

/* Copies n elements of each row of a to (rows, depth). */
static inline void copy_rows(__global const STORAGE(A_TYPE) * a, index_t a_m, index_t a_k, int rows,
                             index_t n, index_t depth, __local float *to) {
  for (int m = 0; m < rows; m++) {
    __global const STORAGE(A_TYPE) *row = a + m * a_m;
#if A_ORDER == 1
    for (index_t k = 0; k < n; k++) to[m * depth + k] = LOADF(A_TYPE, row, k);
#else
    for (index_t k = 0; k < n; k++) to[m * depth + k] = LOADF(A_TYPE, row, k * a_k);
#endif
  }
}

/* Stores a row of a panel's sums with its bias, 16 at a time if the panel is full and the bias is
 * contiguous. */
static inline void store_columns(__local const float *sum, int columns, float alpha, float beta,
                                 __global const STORAGE(BIAS_TYPE) * bias, index_t bias_n,
                                 __global STORAGE(OUT_TYPE) * out) {
  if (COLUMNS >= 16 && columns == COLUMNS && (bias_n == 1 || !HAS_BIAS)) {
#pragma unroll
    for (int j = 0; j < COLUMNS; j += 16) {
      float16 v = alpha * vload16(0, sum + j);
#if HAS_BIAS
      v += beta * LOAD16F(BIAS_TYPE, bias + j);
#endif
      STORE16F(OUT_TYPE, out + j, v);
    }
    return;
  }
  for (int j = 0; j < columns; j++) {
    float v = alpha * sum[j];
#if HAS_BIAS
    v += beta * LOADF(BIAS_TYPE, bias, j * bias_n);
#endif
    STORE(OUT_TYPE, out, j, v);
  }
}

/* padded: m_size rounded up to M. */
__kernel void gemm_panels(GEMM_PARAMS, __global const STORAGE(B_TYPE) * b, const long b_offset,
                          const int padded, const int each, const index_t depth,
                          __local float *scratch) {
  const index_t z = (index_t)get_global_id(1), panels = (n_size + COLUMNS - 1) / COLUMNS,
                first = (index_t)get_global_id(0) * each;
  const int count = (int)min((index_t)each, panels - first), rows = (int)m_size;
  a += a_offset + strided_offset(z, batch_dims, a_batch);
  b += b_offset + (long)first * COLUMNS * k_size;
  bias += bias_offset + strided_offset(z, batch_dims, bias_batch);
  out += out_offset + (long)z * m_size * n_size;
  for (int i = 0; i < each * padded * COLUMNS; i++) scratch[i] = 0;
  for (index_t k0 = 0; k0 < k_size; k0 += depth) {
    const index_t n = min(depth, k_size - k0);
#if IS_F32(A_TYPE)
    a_pointer from = a + k0 * a_k;
    const index_t stride = a_m;
#else
    __local float *from = scratch + each * padded * COLUMNS;
    const index_t stride = depth;
    copy_rows(a + k0 * a_k, a_m, a_k, rows, n, depth, from);
#endif
#if HAS_BIAS /* prefetch, since rows of the bias are far apart */
    for (int m = 0; m < rows && k0 + depth >= k_size; m++)
      for (int j = 0; j < count * COLUMNS; j += 16)
        PREFETCH(bias + m * bias_m + min(first * COLUMNS + j, n_size - 1) * bias_n);
#endif
    for (int p = 0; p < count; p += P)
      for (int m = 0; m < rows; m += M)
        multiply_rows(from + m * stride, stride, a_k, rows - 1 - m,
                      b + ((long)p * k_size + k0) * COLUMNS, (long)k_size * COLUMNS, n,
                      scratch + (p * padded + m) * COLUMNS, padded * COLUMNS);
  }
  for (int m = 0; m < rows; m++) {
    for (int p = 0; p < count; p++) {
      const index_t n0 = (first + p) * COLUMNS;
      const int columns = (int)min((index_t)COLUMNS, n_size - n0);
      __local const float *sum = scratch + (p * padded + m) * COLUMNS;
      store_columns(sum, columns, alpha, beta, bias + m * bias_m + n0 * bias_n, bias_n,
                    out + m * n_size + n0);
    }
    const index_t at = m * n_size + first * COLUMNS;
    EPILOGUE(out + at, z * m_size * n_size + at,
             min(count * (index_t)COLUMNS, n_size - first * COLUMNS));
  }
}
