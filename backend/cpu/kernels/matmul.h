#ifndef BACKEND_CPU_KERNELS_MATMUL_H
#define BACKEND_CPU_KERNELS_MATMUL_H
/* Matrix multiplication of strided operands of one dtype: batched, or by groups of rows. */
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

/* Rows [ends[e - 1], ends[e]) of a times b[e]; an end out of range is recorded as a fault, and its
 * group left out. */
typedef struct grouped_matmul_args {
  ktensor a;    /* (rows, k) */
  ktensor b;    /* (groups, k, n) */
  ktensor ends; /* (groups), I32 or I64 */
  ktensor out;  /* (rows, n), contiguous; 0 behind the last end */
} grouped_matmul_args;
KERNEL(grouped_matmul, grouped_matmul_args);

#endif
