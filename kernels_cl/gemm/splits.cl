/* out[z][m][n] = alpha * (the sum of splits[p][z][m][n] over p) + beta * bias[z][m][n]: joins the
 * n_splits of a product whose k was split. z runs over the batch dimensions; items: all elements of
 * out. */
#include "matmul.h"

__kernel void add_splits(const __global real *splits, const long splits_offset,
                         const __global STORAGE(BIAS_TYPE) * bias, const long bias_offset,
                         const index8 bias_batch, const index_t bias_m, const index_t bias_n,
                         __global STORAGE(OUT_TYPE) * out, const long out_offset,
                         const index8 batch_dims, const index_t items, const index_t m_size,
                         const index_t n_size, const index_t n_splits, const real alpha,
                         const real beta) {
  const index_t i = (index_t)get_global_id(0);
  if (i >= items) return;
  const index_t n = i % n_size, m = i / n_size % m_size, z = i / n_size / m_size;
  real sum = 0;
  for (index_t p = 0; p < n_splits; p++) sum += splits[splits_offset + p * items + i];
  bias += bias_offset + strided_offset(z, batch_dims, bias_batch);
  STORE(OUT_TYPE, out + out_offset, i, finish(sum, bias, m * bias_m + n * bias_n, alpha, beta));
  EPILOGUE(out + out_offset + i, i, 1);
}
