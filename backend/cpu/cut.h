#ifndef BACKEND_CPU_CUT_H
#define BACKEND_CPU_CUT_H
/* How products of gemm.c are cut: a family that matrices and convolutions share. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels/gemm/gemm_cut.h"

/* The sizes of a product, and what else decides how fast a cut is: of a and b in memory. */
typedef struct cut_sizes {
  const char *op;
  int64_t batches, m, n, k;
  dtype type, b_type;
  bool a_is_packed, b_is_packed;
  encoding encoding; /* of the one of them that may have one */
} cut_sizes;
gemm_cut choose_cut(cpu_recorder *recorder, const cut_sizes *sizes);

#endif
