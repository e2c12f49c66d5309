/* out[z][m][n] = alpha * sum_k a[z][m][k] * b[z][k][n] + beta * bias[z][m][n] on CPUs for few rows
 * of a (m_size <= M), floats up to f32. Bound by reading b once, in its own type.
 *
 *   gemv_rows     k is contiguous in b (a transposed weight) and in a. A work-item computes `each`
 *                 neighbours of n, ROWS at a time, and walks k a register at a time. Several rows
 *                 of a are copied to local memory in chunks of k, where they do not compete for the
 *                 same cache sets.
 *   gemv_columns  n is contiguous in b. A work-item computes `each` neighbours of n, with their
 *                 sums in local memory, DEEP rows of b at a time, so that reads are long.
 * Local memory on a CPU is the core's own cached memory (PoCL). */
#include "matmul.h"
#ifndef M
#define M 1
#endif
#ifndef ROWS
#define ROWS 4
#endif
#define CHUNK (4096 / M) /* 16 KB of a */
#define DEEP 8

static inline float fold(float16 v) {
  const float8 a = v.lo + v.hi;
  const float4 b = a.lo + a.hi;
  const float2 c = b.lo + b.hi;
  return c.x + c.y;
}

#if M == 1
#define LOAD_A(p) LOAD16F(A_TYPE, p)
#define LOAD_A1(p, k) LOADF(A_TYPE, p, k)
typedef __global const STORAGE(A_TYPE) * a_pointer;
#else
#define LOAD_A(p) vload16(0, p)
#define LOAD_A1(p, k) ((p)[k])
typedef __local const float *a_pointer;
#endif

/* sums[j][m] += a[m][0..n) . b[j][0..n), j < ROWS; rows of a are CHUNK apart. */
static inline void dot_rows(a_pointer a, __global const STORAGE(B_TYPE) * b, index_t b_n,
                            index_t last, int n, float *sums) {
  __global const STORAGE(B_TYPE) * row[ROWS];
  float16 sum[ROWS * M];
#pragma unroll
  for (int j = 0; j < ROWS; j++) row[j] = b + min((index_t)j, last) * b_n;
#pragma unroll
  for (int i = 0; i < ROWS * M; i++) sum[i] = 0;
  int k = 0;
  for (; k + 16 <= n; k += 16) {
    float16 w[ROWS];
#pragma unroll
    for (int j = 0; j < ROWS; j++) w[j] = LOAD16F(B_TYPE, row[j] + k);
#pragma unroll
    for (int m = 0; m < M; m++) {
      const float16 v = LOAD_A(a + m * CHUNK + k);
#pragma unroll
      for (int j = 0; j < ROWS; j++) sum[j * M + m] = FMA(w[j], v, sum[j * M + m]);
    }
  }
#pragma unroll
  for (int i = 0; i < ROWS * M; i++) sums[i] += fold(sum[i]);
  for (; k < n; k++)
#pragma unroll
    for (int j = 0; j < ROWS; j++) {
      const float w = LOADF(B_TYPE, row[j], k);
#pragma unroll
      for (int m = 0; m < M; m++)
        sums[j * M + m] = FMA(w, LOAD_A1(a + m * CHUNK, k), sums[j * M + m]);
    }
}

/* Copies n elements of each row of a to chunk (M, CHUNK). Rows beyond m_size repeat the last. */
static inline void copy_chunk(__global const STORAGE(A_TYPE) * a, index_t a_m, index_t m_size,
                              index_t n, __local float *chunk) {
  for (int m = 0; m < M; m++) {
    __global const STORAGE(A_TYPE) *row = a + min((index_t)m, m_size - 1) * a_m;
    for (int k = 0; k < n; k++) chunk[m * CHUNK + k] = LOADF(A_TYPE, row, k);
  }
}

__kernel void gemv_rows(GEMM_PARAMS, DENSE_PARAMS, const int each, __local float *scratch) {
  const index_t z = (index_t)get_global_id(1);
  const product p = PRODUCT_AT(z);
  if (p.rows == 0) return;
  a += a_offset + p.a;
  b += b_offset + p.b;
  bias += bias_offset + strided_offset(z, batch_dims, bias_batch);
  out += out_offset + p.out;
  /* scratch: sums (each rounded up to ROWS, M), then a's chunk (M, CHUNK) unless M is 1 */
  const index_t n0 = (index_t)get_global_id(0) * each;
  const int count = (int)min((index_t)each, n_size - n0);
  float sums[ROWS * M];
  __local float *chunk = scratch + each * M;
  for (int i = 0; i < each * M; i++) scratch[i] = 0;
#if M == 1
  const index_t stride = p.depth;
#else
  const index_t stride = CHUNK;
#endif
  for (index_t k0 = 0; k0 < p.depth; k0 += stride) {
    const index_t n = min(stride, p.depth - k0);
#if M == 1
    a_pointer from = a;
#else
    copy_chunk(a + k0, a_m, p.rows, n, chunk);
    a_pointer from = chunk;
#endif
    for (int j = 0; j < count; j += ROWS) {
#pragma unroll
      for (int i = 0; i < ROWS * M; i++) sums[i] = scratch[j * M + i];
      dot_rows(from, b + (n0 + j) * b_n + k0, b_n, n_size - 1 - n0 - j, (int)n, sums);
#pragma unroll
      for (int i = 0; i < ROWS * M; i++) scratch[j * M + i] = sums[i];
    }
  }
  for (int m = 0; m < M && m < p.rows; m++) {
    for (int j = 0; j < count; j++)
      STORE(OUT_TYPE, out, m * n_size + n0 + j,
            finish(scratch[j * M + m], bias, m * bias_m + (n0 + j) * bias_n, alpha, beta));
    EPILOGUE(out + m * n_size + n0, (index_t)p.out + m * n_size + n0, count);
  }
}

static inline float16 load_some(__global const STORAGE(B_TYPE) * p, index_t n) {
  if (n >= 16) return LOAD16F(B_TYPE, p);
  float v[16];
  for (int j = 0; j < 16; j++) v[j] = j < n ? LOADF(B_TYPE, p, j) : 0;
  return vload16(0, v);
}

/* sums[m][j] += a[m][0..DEEP) . b[0..DEEP)[j] for the whole vectors of j below count. Rows of sums
 * are `each` apart. */
static inline void add_deep(const float *a, __global const STORAGE(B_TYPE) * b, index_t b_k,
                            int count, int each, __local float *sums) {
  for (int j = 0; j + 16 <= count; j += 16) {
    float16 w[DEEP];
#pragma unroll
    for (int i = 0; i < DEEP; i++) w[i] = LOAD16F(B_TYPE, b + i * b_k + j);
#pragma unroll
    for (int m = 0; m < M; m++) {
      float16 partial = a[m * DEEP] * w[0]; /* short chains bound the rounding error */
#pragma unroll
      for (int i = 1; i < DEEP; i++) partial = FMA((float16)a[m * DEEP + i], w[i], partial);
      vstore16(partial + vload16(0, sums + m * each + j), 0, sums + m * each + j);
    }
  }
}

/* Works like add_deep, for `deep` rows of b and for columns from `first` on. The last vector may be
 * partial, but sums has space for all of it. */
static inline void add_rest(const float *a, __global const STORAGE(B_TYPE) * b, index_t b_k,
                            int deep, int first, int count, int each, __local float *sums) {
  for (int i = 0; i < deep; i++)
    for (int j = first; j < count; j += 16) {
      const float16 w = load_some(b + i * b_k + j, count - j);
      for (int m = 0; m < M; m++) {
        __local float *sum = sums + m * each + j;
        vstore16(FMA((float16)a[m * DEEP + i], w, vload16(0, sum)), 0, sum);
      }
    }
}

__kernel void gemv_columns(GEMM_PARAMS, DENSE_PARAMS, const int each, __local float *scratch) {
  const index_t z = (index_t)get_global_id(1);
  const product p = PRODUCT_AT(z);
  if (p.rows == 0) return;
  a += a_offset + p.a;
  b += b_offset + p.b;
  bias += bias_offset + strided_offset(z, batch_dims, bias_batch);
  out += out_offset + p.out;
  /* scratch: sums (M, each); each is a multiple of 16 */
  const index_t n0 = (index_t)get_global_id(0) * each;
  const int count = (int)min((index_t)each, n_size - n0);
  for (int i = 0; i < each * M; i++) scratch[i] = 0;
  for (index_t k0 = 0; k0 < p.depth; k0 += DEEP) {
    float x[M * DEEP];
    for (int i = 0; i < M * DEEP; i++) {
      const index_t m = i / DEEP, k = k0 + i % DEEP;
      x[i] = m < p.rows && k < p.depth ? LOADF(A_TYPE, a, m * a_m + k * a_k) : 0;
    }
    __global const STORAGE(B_TYPE) *rows = b + k0 * b_k + n0;
    const int deep = (int)min((index_t)DEEP, p.depth - k0);
    if (deep == DEEP) add_deep(x, rows, b_k, count, each, scratch);
    add_rest(x, rows, b_k, deep, deep == DEEP ? count / 16 * 16 : 0, count, each, scratch);
  }
  for (int m = 0; m < M && m < p.rows; m++) {
    for (int j = 0; j < count; j++)
      STORE(OUT_TYPE, out, m * n_size + n0 + j,
            finish(scratch[m * each + j], bias, m * bias_m + (n0 + j) * bias_n, alpha, beta));
    EPILOGUE(out + m * n_size + n0, (index_t)p.out + m * n_size + n0, count);
  }
}
