#ifndef BACKEND_CPU_KERNELS_SORT_H
#define BACKEND_CPU_KERNELS_SORT_H
/* Stable sorting along the last dimension. */
#include "base/kernel.h"

/* NaN is the greatest, -0.0 equals 0.0, equal elements keep their order. */
typedef struct sort_args {
  ktensor x;       /* (*, n) of n_rows rows */
  ktensor out;     /* (*, k): the first k of each row in order, k <= n */
  ktensor indices; /* I64, original positions, with the strides of out; absent if not requested */
  int64_t n_rows, n, k;
  bool descending;
} sort_args;
KERNEL(sort, sort_args);

#endif
