#ifndef BACKEND_CPU_KERNELS_CONV_WEIGHT_H
#define BACKEND_CPU_KERNELS_CONV_WEIGHT_H
/* Weights of convolutions as floats. */
#include "base/encoding.h"
#include "base/kernel.h"

/* A row is all that an output is multiplied with. */
typedef struct conv_weight {
  const void *data; /* (rows, row) */
  dtype type;
  encoding encoding; /* unless plain, of rows from axis 1 on */
  int64_t row;
} conv_weight;
/* Elements [at, at + n) of a row. */
void conv_weight_load(const conv_weight *w, int64_t row, int64_t at, int64_t n, float *to);

#endif
