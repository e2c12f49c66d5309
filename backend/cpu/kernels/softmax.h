#ifndef BACKEND_CPU_KERNELS_SOFTMAX_H
#define BACKEND_CPU_KERNELS_SOFTMAX_H
/* Softmax and its logarithm along the last dimension. */
#include "base/kernel.h"

/* out = exp(x - max) / sum(exp(x - max)), or (log) x - max - log(sum(exp(x - max))). Float dtypes,
 * any strides. A row of -inf yields NaN. */
typedef struct softmax_args {
  bool log;
  ktensor x, out; /* (*, row) of n_rows rows */
  int64_t n_rows, row;
} softmax_args;
KERNEL(softmax, softmax_args);

#endif
