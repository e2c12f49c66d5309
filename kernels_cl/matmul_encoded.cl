/* out[z][m][n] = alpha * sum_k a[z][m][k] * b[n][k] + beta * bias[z][m][n] for an encoded b, on
 * GPUs. A group of SIDE x SIDE work-items makes a tile of TILE x TILE, through local memory PART
 * columns of a at a time; half of them decode b meanwhile. */
#include "common.h"
#include "encoded.h"
#ifndef A_TYPE
#define A_TYPE F32
#define OUT_TYPE F32
#define BIAS_TYPE F32
#define HAS_BIAS 1
#endif
#define BLOCK 4
#define SIDE 8
#define TILE (SIDE * BLOCK)

/* sum += the product of the staged columns, added up by themselves: short chains bound the rounding
 * error. */
static inline void add_products(const __local float (*as)[TILE + 1],
                                const __local float (*bs)[TILE + 1], float (*sum)[BLOCK]) {
  float part[BLOCK][BLOCK] = {{0}};
  for (int k = 0; k < PART; k++) {
    float x[BLOCK], y[BLOCK];
    for (int i = 0; i < BLOCK; i++) x[i] = as[k][get_local_id(1) * BLOCK + i];
    for (int j = 0; j < BLOCK; j++) y[j] = bs[k][get_local_id(0) * BLOCK + j];
    for (int i = 0; i < BLOCK; i++)
      for (int j = 0; j < BLOCK; j++) part[i][j] = fma(x[i], y[j], part[i][j]);
  }
  for (int i = 0; i < BLOCK; i++)
    for (int j = 0; j < BLOCK; j++) sum[i][j] += part[i][j];
}

__kernel void matmul_encoded(__global const STORAGE(A_TYPE) * a, const long a_offset,
                             const index8 a_batch, const index_t a_m, const index_t a_k,
                             ENCODED_PARAMS, __global const STORAGE(BIAS_TYPE) * bias,
                             const long bias_offset, const index8 bias_batch, const index_t bias_m,
                             const index_t bias_n, __global STORAGE(OUT_TYPE) * out,
                             const long out_offset, const index8 batch_dims, const index_t m_size,
                             const index_t n_size, const index_t k_size, const float alpha,
                             const float beta) {
  __local float as[PART][TILE + 1], bs[PART][TILE + 1];
  const index_t z = (index_t)get_global_id(2), tile_m = (index_t)get_group_id(1) * TILE,
                tile_n = (index_t)get_group_id(0) * TILE;
  const index_t m0 = (index_t)get_global_id(1) * BLOCK, n0 = (index_t)get_global_id(0) * BLOCK;
  const int lane = (int)(get_local_id(1) * SIDE + get_local_id(0));
  float sum[BLOCK][BLOCK] = {{0}};
  a += a_offset + strided_offset(z, batch_dims, a_batch);
  codes += codes_offset;
  bias += bias_offset + strided_offset(z, batch_dims, bias_batch);
  out += out_offset + (long)z * m_size * n_size;

  for (index_t k0 = 0; k0 < k_size; k0 += PART) {
    const int deep = (int)min((index_t)PART, k_size - k0);
    for (int e = lane; e < TILE * PART; e += SIDE * SIDE) {
      const int i = a_k == 1 ? e / PART : e % TILE, k = a_k == 1 ? e % PART : e / TILE;
      as[k][i] = tile_m + i < m_size && k < deep
                     ? LOADF(A_TYPE, a, (tile_m + i) * a_m + (k0 + k) * a_k)
                     : 0;
    }
    if (lane < TILE) {
      float x[PART];
      decode_part(codes + min(tile_n + lane, n_size - 1) * row_bytes, k0 / PART, scales_at, groups,
                  group, x);
      for (int k = 0; k < PART; k++) bs[k][lane] = k < deep ? x[k] : 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    add_products(as, bs, sum);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  for (int i = 0; i < BLOCK && m0 + i < m_size; i++)
    for (int j = 0; j < BLOCK && n0 + j < n_size; j++) {
      float v = alpha * sum[i][j];
#if HAS_BIAS
      v += beta * LOADF(BIAS_TYPE, bias, (m0 + i) * bias_m + (n0 + j) * bias_n);
#endif
      STORE(OUT_TYPE, out, (m0 + i) * n_size + n0 + j, v);
      EPILOGUE(out + (m0 + i) * n_size + n0 + j, (z * m_size + m0 + i) * n_size + n0 + j, 1);
    }
}
