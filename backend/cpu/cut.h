#ifndef BACKEND_CPU_CUT_H
#define BACKEND_CPU_CUT_H
/* Divides gemm.c's products into tasks (cuts): a tuning family of matmul and convolution. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels/gemm/gemm_cut.h"

/* The sizes of a product, and the storage of a and b, which also affects the best cut. */
typedef struct cut_sizes {
  const char *op;
  int64_t batches, m, n, k;
  dtype type, b_type;
  bool a_is_packed, b_is_packed;
  encoding encoding; /* encoding of the encoded operand, if any */
} cut_sizes;
/* Returns the cut in the tuning table, or zeros, for which gemm.c chooses the cut. */
gemm_cut choose_cut(cpu_recorder *recorder, const cut_sizes *sizes);

#endif
