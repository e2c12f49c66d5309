#ifndef BACKEND_CPU_KERNELS_DEQUANTIZE_H
#define BACKEND_CPU_KERNELS_DEQUANTIZE_H
/* Rows of encoded constants as plain floats. */
#include "base/encoding.h"
#include "base/kernel.h"

/* out[p] = row index[p] of x, or row p. An index out of range is recorded as a fault and replaced
 * by 0. */
typedef struct dequantize_args {
  const void *x;
  ktensor index; /* collapsed; may be absent */
  void *out;     /* (n_picks, row), contiguous */
  dtype type;    /* dtype of out */
  encoding encoding;
  int64_t rows, row, n_picks;
} dequantize_args;
KERNEL(dequantize, dequantize_args);

#endif
