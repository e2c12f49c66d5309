#ifndef BACKEND_CPU_KERNELS_NONZERO_H
#define BACKEND_CPU_KERNELS_NONZERO_H
/* Positions of nonzero elements. */
#include "base/kernel.h"

typedef struct nonzero_args {
  ktensor x;     /* n elements, contiguous */
  ktensor out;   /* (n, rank of x) I64: the positions in row-major order, then zeros */
  ktensor count; /* I64: number of nonzero elements */
  int64_t n;
} nonzero_args;
KERNEL(nonzero, nonzero_args);

#endif
