#ifndef BACKEND_CPU_KERNELS_MATMUL_H
#define BACKEND_CPU_KERNELS_MATMUL_H
/* Batched matrix multiplication of strided operands of one dtype. */
#include "base/kernel.h"

/* out[z][m][n] = alpha * sum_k a[z][m][k] * b[z][k][n] + beta * bias[z][m][n]. Narrow floats
 * accumulate in float, F64 in double, integers exactly. */
typedef struct matmul_args {
  const void *a, *b, *bias; /* bias may be absent */
  void *out;                /* contiguous */
  dtype type;
  int64_t m, n, k, batches;
  int64_t a_m, a_k, b_k, b_n, bias_m, bias_n; /* strides */
  klayout a_batch, b_batch, bias_batch;       /* of equal dims: the batches */
  double alpha, beta;
} matmul_args;
KERNEL(matmul, matmul_args);

#endif
