#ifndef BACKEND_CPU_KERNELS_GEMM_MATMUL_INTEGER_H
#define BACKEND_CPU_KERNELS_GEMM_MATMUL_INTEGER_H
/* Products of 8-bit integers. */
#include "backend/cpu/kernels/elementwise/elementwise.h"
#include "backend/cpu/kernels/gemm/matmul_integer_args.h"

KERNEL(matmul_integer, matmul_integer_args);

/* The same, and any elementwise steps on the sums, all of which are in scratch memory. */
typedef struct matmul_integer_steps_args {
  matmul_integer_args product; /* of sums, without out */
  elementwise_args steps;      /* inputs[0]: the sums, without data */
} matmul_integer_steps_args;
KERNEL(matmul_integer_steps, matmul_integer_steps_args);

#endif
