#ifndef BACKEND_CPU_KERNELS_TRIANGLE_H
#define BACKEND_CPU_KERNELS_TRIANGLE_H
/* tril and triu. */
#include "base/kernel.h"

/* out[..., i, j] = x[..., i, j] where j <= i + diagonal (upper: j >= i + diagonal), else 0. */
typedef struct triangle_args {
  ktensor x;   /* (..., i) of n_rows rows, each of `columns` elements `step` apart */
  ktensor out; /* contiguous */
  int64_t n_rows, columns, step, diagonal;
  bool upper;
} triangle_args;
KERNEL(triangle, triangle_args);

#endif
