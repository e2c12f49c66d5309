#ifndef BACKEND_CPU_KERNELS_GEMM_MATMUL_INTEGER_ARGS_H
#define BACKEND_CPU_KERNELS_GEMM_MATMUL_INTEGER_ARGS_H
/* Arguments of a product of 8-bit integers, and of the formula that is applied to its sums. */
#include "backend/cpu/kernels/elementwise/requantise_args.h"
#include "backend/cpu/kernels/elementwise/step_rows.h"

typedef enum integer_result {
  INTEGER_SUMS,   /* out: I32 */
  INTEGER_FLOATS, /* F32: the result of `formula` before it is multiplied by `inverse` */
  INTEGER_CODES   /* codes of formula.type */
} integer_result;

/* out[m][n] = bias[n] + sum_k a[m][k] * b[n][k] */
typedef struct matmul_integer_args {
  const void *a;       /* (m, k), I8 or U8: type */
  const int8_t *b;     /* (n, k) */
  const void *tiles;   /* b packed by kernel_matmul_integer_pack, and b is NULL; otherwise NULL */
  const int32_t *bias; /* (n), may be NULL */
  void *out;           /* (m, n) */
  dtype type;
  bool in_tiles; /* true if `tiles` is set, or will be set after scratch memory is sized */
  int64_t m, n, k;
  integer_result makes;
  requantise_args formula; /* terms[0]: the sums; channels: n */
  short_elementwise_args
      steps; /* at most one step of one input, between the sum of terms and `low` */
} matmul_integer_args;

#endif
