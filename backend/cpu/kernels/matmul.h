#ifndef BACKEND_CPU_KERNELS_MATMUL_H
#define BACKEND_CPU_KERNELS_MATMUL_H
/* Batched matrix multiplication of strided operands. */
#include "base/kernel.h"

/* out = alpha * a @ b + beta * bias. All of one rank: a (..., m, k), b (..., k, n), bias (..., m,
 * n), with broadcast dimensions as stride 0; bias: NULL if absent; out: contiguous. Narrow floats
 * accumulate in float, F64 in double, integers exactly. */
typedef struct matmul {
  const ktensor *a, *b, *bias, *out;
  double alpha, beta;
} matmul;

bool kernel_matmul(const kernel_context *ctx,
                   const matmul *p); /* false when scratch memory is out */

#endif
