#ifndef BACKEND_CPU_KERNELS_GEMM_MATMUL_H
#define BACKEND_CPU_KERNELS_GEMM_MATMUL_H
/* Matrix multiplication of strided operands of one dtype: batched, or by groups of rows. b may be
 * encoded, or narrower floats than F32. */
#include "backend/cpu/kernels/conv/conv_tail.h"
#include "backend/cpu/kernels/elementwise/step_rows.h"
#include "backend/cpu/kernels/gemm/gemm_cut.h"
#include "base/encoding.h"
#include "base/kernel.h"

/* out[z][m][n] = alpha * sum_k a[z][m][k] * b[z][k][n] + beta * bias[z][m][n]. Narrow floats
 * accumulate in float, F64 in double, integers exactly. */
typedef struct matmul_args {
  const void *a, *b, *bias; /* bias may be absent */
  const void *panels;       /* b by kernel_matmul_pack, where is_packed: b is NULL then */
  void *out;                /* contiguous */
  dtype type;               /* of a, bias and out in the program */
  dtype a_type, out_type;   /* as stored: F32 may be kept as BF16 where matmul_may_narrow */
  dtype b_type;
  bool is_packed;
  bool rounds;       /* where panels are of codes, rows of a to 8 bits (base/rounded.h); else a and
                        b to BF16 (pairs.h), which panels are packed for */
  encoding encoding; /* of b: unless plain, its n rows of k, the same for all batches */
  int64_t m, n, k, batches;
  int64_t a_m, a_k, b_k, b_n, bias_m, bias_n; /* strides */
  klayout a_batch, b_batch, bias_batch;       /* of equal dims: the batches */
  double alpha, beta; /* beta is 0 where there is no bias: scratch memory is sized before addresses
                         are known */
  gemm_cut cut;
  conv_tail tail;               /* where matmul_takes_tail: what follows the result, */
  short_elementwise_args steps; /* or else some steps over it, where it lies */
} matmul_args;
KERNEL(matmul, matmul_args);

/* Writes b, which is read alone, to its scratch memory, as products of any number of rows read it.
 */
KERNEL(matmul_pack, matmul_args);
bool matmul_packs(const matmul_args *args);  /* whether it can be */
bool matmul_rounds(const matmul_args *args); /* and whether products with it may round */
bool matmul_is_cut(const matmul_args *args); /* whether `cut` matters */
bool matmul_takes_tail(const matmul_args *args);
/* Whether one that rounds to BF16 reads rows and makes results as such, and is no slower then. */
bool matmul_may_narrow(const matmul_args *args);

/* What kernel_matmul does in `memory` of matmul_scratch bytes. */
size_t matmul_scratch(const kernel_context *ctx, const void *args);
void matmul_multiply(const kernel_context *ctx, const matmul_args *args, char *memory);

#endif
