/* Operands of the matrix product out[z][m][n] = alpha * sum_k a[z][m][k] * b[z][k][n] + beta *
 * bias[z][m][n], z over the batch dimensions. GROUPED: z is a tile of the rows of a, each with its
 * own matrix of b; m_size is the largest number of rows of a tile. */
#include "common.h"
#ifndef A_TYPE
#define A_TYPE F32
#define B_TYPE F32
#endif
#ifndef OUT_TYPE
#define OUT_TYPE F32
#define BIAS_TYPE F32
#define HAS_BIAS 1
#endif
#ifndef GROUPED
#define GROUPED 0
#endif

/* GEMM_PARAMS are the operands and sizes of any product except b; DENSE_PARAMS is a b of plain
 * elements. Other kernels have ENCODED_PARAMS, CODES_PARAMS or packed panels in its place. */
#define GEMM_PARAMS                                                                                \
  __global const STORAGE(A_TYPE) * a, const long a_offset, const index8 a_batch,                   \
      const index_t a_m, const index_t a_k, __global const STORAGE(BIAS_TYPE) * bias,              \
      const long bias_offset, const index8 bias_batch, const index_t bias_m, const index_t bias_n, \
      __global STORAGE(OUT_TYPE) * out, const long out_offset, const __global long *tiles,         \
      const long tiles_offset, const index8 batch_dims, const index_t m_size,                      \
      const index_t n_size, const index_t k_size, const real alpha, const real beta
#define DENSE_PARAMS                                                             \
  __global const STORAGE(B_TYPE) * b, const long b_offset, const index8 b_batch, \
      const index_t b_k, const index_t b_n

/* Sizes of product z and its offsets in the operands. */
typedef struct product {
  index_t a, b, rows, depth;
  long out;
} product;

/* Returns product z. tile: its entry in group_tiles (matmul_groups.cl), NULL unless GROUPED. */
static inline product product_at(index_t z, const __global long *tile, index8 a_batch, index_t a_m,
                                 index8 b_batch, index8 batch_dims, index_t m_size, index_t n_size,
                                 index_t k_size) {
  product p;
#if GROUPED
  const long first = tile[0], matrix = tile[2];
  p.a = (index_t)(first * a_m);
  p.b = matrix < 0 ? 0 : (index_t)(matrix * b_batch.s0);
  p.rows = (index_t)tile[1];
  p.depth = matrix < 0 ? 0 : k_size;
  p.out = first * n_size;
#else
  p.a = strided_offset(z, batch_dims, a_batch);
  p.b = strided_offset(z, batch_dims, b_batch);
  p.rows = m_size;
  p.depth = k_size;
  p.out = (long)z * m_size * n_size;
#endif
  return p;
}
#define PRODUCT_AT(z)                                                                            \
  product_at(z, tiles + tiles_offset + 3 * (long)(z), a_batch, a_m, b_batch, batch_dims, m_size, \
             n_size, k_size)

/* Rows of a, or columns of b, from `first` on, with `depth` k, as operands (fetch.h). Used in
 * kernels with GEMM_PARAMS and DENSE_PARAMS. at: the kernel's PRODUCT_AT. order: 1 if k is
 * contiguous. */
#define ROWS_OF_A(at, first, depth, order)                                                     \
  OPERAND(A_TYPE, a + a_offset + (at).a + (first)*a_m, a_m, a_k, (at).rows - (first), (depth), \
          order)
#define COLUMNS_OF_B(at, first, depth, order) \
  OPERAND(B_TYPE, b + b_offset + (at).b + (first)*b_n, b_n, b_k, n_size - (first), (depth), order)

/* Returns an element of out, computed from the sum of its products. at: offset of its bias. */
static inline real finish(real sum, __global const STORAGE(BIAS_TYPE) * bias, index_t at,
                          real alpha, real beta) {
#if HAS_BIAS
  return alpha * sum + beta * LOAD(BIAS_TYPE, bias, at);
#else
  return alpha * sum;
#endif
}
