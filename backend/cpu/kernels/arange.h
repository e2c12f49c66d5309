#ifndef BACKEND_CPU_KERNELS_ARANGE_H
#define BACKEND_CPU_KERNELS_ARANGE_H
/* Tensors computed from numbers alone: arange and full. */
#include "base/kernel.h"

/* out[i] = start + i * step, in double for float dtypes and in wrapping int64_t for the others. */
typedef struct arange_args {
  void *out; /* (n), contiguous */
  dtype type;
  int64_t n;
  double start, step;
  int64_t int_start, int_step;
} arange_args;
KERNEL(arange, arange_args);

#endif
