/* out[z][m][n] = alpha * sum_k a[z][m][k] * b[n][k] + beta * bias[z][m][n] for an encoded b, on
 * GPUs. A group of SIDE x SIDE work-items computes a tile of ROWS x COLUMNS through local memory,
 * PART of k at a time. Each work-item decodes a part of one column, so that a code is decoded once
 * for ROWS rows. It computes every SIDE-th row and column: neighbours read neighbouring words of
 * local memory and write neighbouring elements of out. */
#include "encoded.h"
#include "matmul.h"
#define SIDE 8
#define BLOCK_M 4
#define BLOCK_N 8
#define ROWS (SIDE * BLOCK_M)
#define COLUMNS (SIDE * BLOCK_N) /* equals the number of work-items */

/* sum += the product of the staged columns. The product is summed separately, because short chains
 * of additions bound the rounding error. */
static inline void add_products(const __local float (*as)[ROWS + 1],
                                const __local float (*bs)[COLUMNS], float (*sum)[BLOCK_N]) {
  float partial[BLOCK_M][BLOCK_N] = {{0}};
  UNROLL_AT_MOST(2)
  for (int k = 0; k < PART; k++) {
    float x[BLOCK_M], y[BLOCK_N];
#pragma unroll
    for (int i = 0; i < BLOCK_M; i++) x[i] = as[k][get_local_id(1) + i * SIDE];
#pragma unroll
    for (int j = 0; j < BLOCK_N; j++) y[j] = bs[k][get_local_id(0) + j * SIDE];
#pragma unroll
    for (int i = 0; i < BLOCK_M; i++)
#pragma unroll
      for (int j = 0; j < BLOCK_N; j++) partial[i][j] = FMA(x[i], y[j], partial[i][j]);
  }
#pragma unroll
  for (int i = 0; i < BLOCK_M; i++)
#pragma unroll
    for (int j = 0; j < BLOCK_N; j++) sum[i][j] += partial[i][j];
}

__kernel void matmul_encoded(GEMM_PARAMS, ENCODED_PARAMS) {
  __local float as[PART][ROWS + 1], bs[PART][COLUMNS];
  const index_t z = (index_t)get_global_id(2), tile_m = (index_t)get_group_id(1) * ROWS,
                tile_n = (index_t)get_group_id(0) * COLUMNS;
  const index_t m0 = tile_m + get_local_id(1), n0 = tile_n + get_local_id(0);
  const int lane = (int)(get_local_id(1) * SIDE + get_local_id(0));
  float sum[BLOCK_M][BLOCK_N] = {{0}}, x[PART];
  a += a_offset + strided_offset(z, batch_dims, a_batch);
  codes += codes_offset;
  bias += bias_offset + strided_offset(z, batch_dims, bias_batch);
  out += out_offset + (long)z * m_size * n_size;

  for (index_t k0 = 0; k0 < k_size; k0 += PART) {
    const int deep = (int)min((index_t)PART, k_size - k0);
    for (int e = lane; e < ROWS * PART; e += SIDE * SIDE) {
      const int i = a_k == 1 ? e / PART : e % ROWS, k = a_k == 1 ? e % PART : e / ROWS;
      as[k][i] = tile_m + i < m_size && k < deep
                     ? LOADF(A_TYPE, a, (tile_m + i) * a_m + (k0 + k) * a_k)
                     : 0;
    }
    decode_part(codes + min(tile_n + lane, n_size - 1) * row_bytes, k0 / PART, scales_at, groups,
                group, x);
#pragma unroll
    for (int k = 0; k < PART; k++) bs[k][lane] = k < deep ? x[k] : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    add_products(as, bs, sum);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
#pragma unroll
  for (int i = 0; i < BLOCK_M; i++)
#pragma unroll
    for (int j = 0; j < BLOCK_N; j++) {
      const index_t m = m0 + i * SIDE, n = n0 + j * SIDE;
      if (m >= m_size || n >= n_size) continue;
      float v = alpha * sum[i][j];
#if HAS_BIAS
      v += beta * LOADF(BIAS_TYPE, bias, m * bias_m + n * bias_n);
#endif
      STORE(OUT_TYPE, out, m * n_size + n, v);
      EPILOGUE(out + m * n_size + n, (z * m_size + m) * n_size + n, 1);
    }
}
