/* The operands of a product of matrices: out[z][m][n] = alpha * sum_k a[z][m][k] * b[z][k][n] +
 * beta * bias[z][m][n], z over the batch dimensions. */
#include "common.h"

#define GEMM_PARAMS                                                                               \
  __global const STORAGE(A_TYPE) * a, const long a_offset, const index8 a_batch,                  \
      const index_t a_m, const index_t a_k, __global const STORAGE(B_TYPE) * b,                   \
      const long b_offset, const index8 b_batch, const index_t b_k, const index_t b_n,            \
      __global const STORAGE(BIAS_TYPE) * bias, const long bias_offset, const index8 bias_batch,  \
      const index_t bias_m, const index_t bias_n, __global STORAGE(OUT_TYPE) * out,               \
      const long out_offset, const index8 batch_dims, const index_t m_size, const index_t n_size, \
      const index_t k_size, const real alpha, const real beta
