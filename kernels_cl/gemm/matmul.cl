/* out[z][m][n] = alpha * sum_k a[z][m][k] * b[z][k][n] + beta * bias[z][m][n]: any dtype, any
 * strides, broadcast batches. out is contiguous.
 *
 * CPU: a work-item computes BLOCK x BLOCK of out. GPU: a group of 8 x 8 work-items computes a tile
 * of 8 BLOCK squared, staged through local memory DEPTH columns of a at a time. */
#include "matmul.h"
#define BLOCK 4
#define DEPTH 16
#define SIDE 8
#define TILE (SIDE * BLOCK)

#if IS_FLOAT(OUT_TYPE)
#define MULTIPLY_ADD(a, b, c) FMA(a, b, c)
#else
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

/* sum[i][j] += x[i] * y[j] */
static inline void multiply_add(const real *x, const real *y, real (*sum)[BLOCK]) {
  for (int i = 0; i < BLOCK; i++)
    for (int j = 0; j < BLOCK; j++) sum[i][j] = MULTIPLY_ADD(x[i], y[j], sum[i][j]);
}

#if !ON_CPU
/* Adds this work-item's block of the product of the staged columns. Short chains bound the rounding
 * error. */
static inline void add_products(const __local real (*as)[TILE + 1],
                                const __local real (*bs)[TILE + 1], real (*sum)[BLOCK]) {
  real partial[BLOCK][BLOCK] = {{0}};
  for (int k = 0; k < DEPTH; k++) {
    real x[BLOCK], y[BLOCK];
    for (int i = 0; i < BLOCK; i++) x[i] = as[k][get_local_id(1) * BLOCK + i];
    for (int j = 0; j < BLOCK; j++) y[j] = bs[k][get_local_id(0) * BLOCK + j];
    multiply_add(x, y, partial);
  }
  for (int i = 0; i < BLOCK; i++)
    for (int j = 0; j < BLOCK; j++) sum[i][j] += partial[i][j];
}
#endif

__kernel void matmul(GEMM_PARAMS, DENSE_PARAMS) {
  const index_t z = (index_t)get_global_id(2);
  const product p = PRODUCT_AT(z);
  if (p.rows == 0) return;
  a += a_offset + p.a;
  b += b_offset + p.b;
  out += out_offset + p.out;
  const index_t m0 = (index_t)get_global_id(1) * BLOCK, n0 = (index_t)get_global_id(0) * BLOCK;
  real sum[BLOCK][BLOCK] = {{0}};

#if ON_CPU
  if (m0 >= p.rows || n0 >= n_size) return;
  for (index_t k = 0; k < p.depth; k++) {
    real x[BLOCK], y[BLOCK];
    for (int i = 0; i < BLOCK; i++) x[i] = LOAD(A_TYPE, a, min(m0 + i, p.rows - 1) * a_m + k * a_k);
    for (int j = 0; j < BLOCK; j++) y[j] = LOAD(B_TYPE, b, k * b_k + min(n0 + j, n_size - 1) * b_n);
    multiply_add(x, y, sum);
  }
#else
  __local real as[DEPTH][TILE + 1], bs[DEPTH][TILE + 1];
  const index_t tile_m = (index_t)get_group_id(1) * TILE, tile_n = (index_t)get_group_id(0) * TILE;
  const int lane = (int)(get_local_id(1) * SIDE + get_local_id(0));
  for (index_t k0 = 0; k0 < p.depth; k0 += DEPTH) {
    for (int e = lane; e < TILE * DEPTH; e += SIDE * SIDE) {
      /* Staging walks along k or along the other axis, whichever is contiguous. */
      const int ai = a_k == 1 ? e / DEPTH : e % TILE, ak = a_k == 1 ? e % DEPTH : e / TILE;
      const int bj = b_k == 1 ? e / DEPTH : e % TILE, bk = b_k == 1 ? e % DEPTH : e / TILE;
      as[ak][ai] = tile_m + ai < p.rows && k0 + ak < p.depth
                       ? LOAD(A_TYPE, a, (tile_m + ai) * a_m + (k0 + ak) * a_k)
                       : (real)0;
      bs[bk][bj] = tile_n + bj < n_size && k0 + bk < p.depth
                       ? LOAD(B_TYPE, b, (k0 + bk) * b_k + (tile_n + bj) * b_n)
                       : (real)0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    add_products(as, bs, sum);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
#endif

#if HAS_BIAS
  bias += bias_offset + strided_offset(z, batch_dims, bias_batch);
#endif
  UNROLL_ON_GPU
  for (int i = 0; i < BLOCK; i++) {
    UNROLL_ON_GPU
    for (int j = 0; j < BLOCK; j++) {
      if (m0 + i >= p.rows || n0 + j >= n_size) continue;
      const index_t at = (m0 + i) * bias_m + (n0 + j) * bias_n;
      STORE(OUT_TYPE, out, (m0 + i) * n_size + n0 + j, finish(sum[i][j], bias, at, alpha, beta));
      EPILOGUE(out + (m0 + i) * n_size + n0 + j, (index_t)p.out + (m0 + i) * n_size + n0 + j, 1);
    }
  }
}

/* out[z][m][n] = bias[z][m][n], for a product that scales the contents of out by beta. */
__kernel void broadcast_bias(__global const STORAGE(BIAS_TYPE) * bias, const long bias_offset,
                             const index8 bias_batch, const index_t bias_m, const index_t bias_n,
                             __global STORAGE(OUT_TYPE) * out, const long out_offset,
                             const index8 batch_dims, const index_t m_size, const index_t n_size) {
  const index_t n = (index_t)get_global_id(0), m = (index_t)get_global_id(1),
                z = (index_t)get_global_id(2);
  if (n >= n_size) return;
  bias += bias_offset + strided_offset(z, batch_dims, bias_batch);
  STORE(OUT_TYPE, out + out_offset, (z * m_size + m) * n_size + n,
        LOAD(BIAS_TYPE, bias, m * bias_m + n * bias_n));
}
