#ifndef BACKEND_CPU_CUT_H
#define BACKEND_CPU_CUT_H
/* Cuts of gemm.c's products into tasks: a tuning family shared by matmul and convolution. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels/gemm/gemm_cut.h"

/* The sizes of a product, and the storage of a and b, which also affects the best cut. */
typedef struct cut_sizes {
  const char *op;
  int64_t batches, m, n, k;
  dtype type, b_type;
  bool a_is_packed, b_is_packed;
  encoding encoding; /* encoding of the encoded operand, if either is */
} cut_sizes;
/* Returns the cut of the tuning table; zeros, by which gemm.c chooses, if it has none. */
gemm_cut choose_cut(cpu_recorder *recorder, const cut_sizes *sizes);

#endif
