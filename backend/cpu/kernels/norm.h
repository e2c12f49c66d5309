#ifndef BACKEND_CPU_KERNELS_NORM_H
#define BACKEND_CPU_KERNELS_NORM_H
/* Normalisations of contiguous float tensors. Statistics and results are computed in double and
 * rounded once. Statistics of BF16 are computed in float, from differences from the mean of a
 * group's first elements; they are infinite if the square of a difference is infinite. */
#include "backend/cpu/kernels/elementwise/step_rows.h"

/* x, out: (n_rows, row); weight, bias: (row), may be absent. If all others are F32, out may be
 * stored as BF16 (bf16.h). */
typedef struct row_norm {
  ktensor x, weight, bias, out;
  int64_t n_rows, row;
  double eps;
} row_norm;
KERNEL(layer_norm, row_norm); /* (x - mean) / sqrt(var + eps) * weight + bias */
KERNEL(rms_norm, row_norm);   /* x / sqrt(mean(x^2) + eps) * weight */

/* x, out: (batch, channels, plane); weight, bias, mean, var: (channels), weight and bias may be
 * absent. */
typedef struct channel_norm {
  ktensor x, weight, bias, mean, var, out;
  int64_t batch, channels, plane, groups;
  double eps;
  dtype type; /* dtype of x and out in the program; F32 may be stored as BF16 (bf16.h) */
  short_elementwise_args steps; /* epilogue, applied to results in F32 */
} channel_norm;
KERNEL(group_norm, channel_norm); /* statistics per group of channels */
KERNEL(batch_norm, channel_norm); /* statistics given by mean and var */

#endif
