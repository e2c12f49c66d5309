#ifndef BACKEND_CPU_KERNELS_GEMM_GROUPED_MATMUL_H
#define BACKEND_CPU_KERNELS_GEMM_GROUPED_MATMUL_H
/* Products of groups of rows, each with its own matrix, such as the experts of a language model. */
#include "base/encoding.h"
#include "base/kernel.h"

/* out = rows [ends[e - 1], ends[e]) of a * b[e]. An end out of range is recorded as a fault, and
 * its group is skipped. */
typedef struct grouped_matmul_args {
  ktensor a;          /* (rows, k) */
  const void *b;      /* (groups, k, n), or encoded: groups * n rows of k */
  const void *panels; /* codes packed by kernel_grouped_matmul_pack, if is_packed */
  ktensor ends;       /* (groups), I32 or I64 */
  ktensor out;        /* (rows, n), contiguous; 0 after the last end */
  dtype b_type;
  bool is_packed, rounds; /* see matmul_args */
  encoding encoding;
  int64_t groups, n, k, b_group, b_n, b_k; /* b_*: strides of b */
} grouped_matmul_args;
KERNEL(grouped_matmul, grouped_matmul_args);

/* Packs an encoded b like kernel_matmul_pack, with separate panels for each matrix. */
KERNEL(grouped_matmul_pack, grouped_matmul_args);
/* Like matmul_packs and matmul_rounds. */
bool grouped_matmul_packs(const grouped_matmul_args *args);
bool grouped_matmul_rounds(const grouped_matmul_args *args);

#endif
