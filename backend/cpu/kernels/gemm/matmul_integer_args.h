#ifndef BACKEND_CPU_KERNELS_GEMM_MATMUL_INTEGER_ARGS_H
#define BACKEND_CPU_KERNELS_GEMM_MATMUL_INTEGER_ARGS_H
/* A product of 8-bit integers, and what is made of its sums. */
#include "backend/cpu/kernels/elementwise/requantise_args.h"
#include "backend/cpu/kernels/elementwise/step_rows.h"

typedef enum integer_result {
  INTEGER_SUMS,   /* out: I32 */
  INTEGER_FLOATS, /* F32: those of `formula` before its inverse */
  INTEGER_CODES   /* of formula.type */
} integer_result;

/* out[m][n] = bias[n] + sum_k a[m][k] * b[n][k] */
typedef struct matmul_integer_args {
  const void *a;       /* (m, k), I8 or U8: type */
  const int8_t *b;     /* (n, k) */
  const void *tiles;   /* b by kernel_matmul_integer_pack, or NULL: b is NULL then */
  const int32_t *bias; /* (n), or NULL */
  void *out;           /* (m, n) */
  dtype type;
  bool in_tiles; /* that there are, which scratch memory depends on before they are made */
  int64_t m, n, k;
  integer_result makes;
  requantise_args formula; /* terms[0]: the sums; channels: n */
  short_elementwise_args
      steps; /* one step of one input, between the sum of terms and `low`; or none */
} matmul_integer_args;

#endif
