#ifndef BACKEND_CPU_KERNELS_GEMM_MATMUL_H
#define BACKEND_CPU_KERNELS_GEMM_MATMUL_H
/* Matrix multiplication of strided operands of one dtype, batched. b may be encoded, or narrower
 * floats than F32. */
#include "backend/cpu/kernels/conv/conv_epilogue.h"
#include "backend/cpu/kernels/elementwise/step_rows.h"
#include "backend/cpu/kernels/gemm/gemm_cut.h"
#include "base/encoding.h"
#include "base/kernel.h"

/* out[z][m][n] = alpha * sum_k a[z][m][k] * b[z][k][n] + beta * bias[z][m][n]. F16 and BF16
 * accumulate in float, F64 in double, integers exactly. */
typedef struct matmul_args {
  const void *a, *b, *bias; /* bias may be NULL */
  const void *panels;       /* b packed by kernel_matmul_pack, if is_packed; b is then NULL */
  void *out;                /* contiguous */
  dtype type;               /* dtype of a, bias and out in the program */
  dtype a_type, out_type;   /* dtypes as stored: F32 may be kept as BF16 if matmul_may_be_bf16 */
  dtype b_type;
  bool is_packed;
  bool rounds; /* panels of codes: rounds rows of a to 8 bits (base/rounded.h); otherwise rounds a
                  and b to BF16, and panels are those of pairs.h */
  encoding encoding; /* encoding of b; unless plain, b is n rows of k that all batches share */
  int64_t m, n, k, batches;
  int64_t a_m, a_k, b_k, b_n, bias_m, bias_n; /* strides */
  klayout a_batch, b_batch, bias_batch;       /* layouts of the batches, with equal dims */
  double alpha, beta; /* beta is 0 without bias, as scratch is sized before addresses are known */
  gemm_cut cut;
  conv_epilogue epilogue;       /* applied to the result; empty unless matmul_accepts_epilogue */
  short_elementwise_args steps; /* applied in place after the epilogue */
} matmul_args;
KERNEL(matmul, matmul_args);

/* Packs b into its scratch memory, in a layout for any number of rows; reads nothing else. */
KERNEL(matmul_pack, matmul_args);
bool matmul_packs(const matmul_args *args);  /* true if b can be packed */
bool matmul_rounds(const matmul_args *args); /* true if a product with b may round its operands */
bool matmul_is_cut(const matmul_args *args); /* true if `cut` is used */
bool matmul_accepts_epilogue(const matmul_args *args);
/* True if a product that rounds to BF16 reads and writes BF16 rows, and is no slower for it. */
bool matmul_may_be_bf16(const matmul_args *args);

/* Runs kernel_matmul in `memory` of matmul_scratch bytes. */
size_t matmul_scratch(const kernel_context *ctx, const void *args);
void matmul_multiply(const kernel_context *ctx, const matmul_args *args, char *memory);

#endif
