#ifndef BACKEND_CPU_KERNELS_GEMM_MATMUL_INTEGER_H
#define BACKEND_CPU_KERNELS_GEMM_MATMUL_INTEGER_H
/* Products of 8-bit integers. */
#include "backend/cpu/kernels/elementwise/elementwise.h"
#include "backend/cpu/kernels/gemm/matmul_integer_args.h"

KERNEL(matmul_integer, matmul_integer_args);

/* Arguments of matmul_integer and of elementwise steps on its sums, all in scratch memory. */
typedef struct matmul_integer_steps_args {
  matmul_integer_args product; /* makes sums; out is NULL */
  elementwise_args steps;      /* inputs[0]: the sums, data is NULL */
} matmul_integer_steps_args;
KERNEL(matmul_integer_steps, matmul_integer_steps_args);

#endif
