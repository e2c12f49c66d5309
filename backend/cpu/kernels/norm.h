#ifndef BACKEND_CPU_KERNELS_NORM_H
#define BACKEND_CPU_KERNELS_NORM_H
/* Normalisations of contiguous float tensors. Statistics and results are computed in double and
 * rounded once. */
#include "base/kernel.h"

/* x, out: (n_rows, row); weight, bias: (row), may be NULL. */
typedef struct row_norm {
  const ktensor *x, *weight, *bias, *out;
  int64_t n_rows, row;
  double eps;
} row_norm;
void kernel_layer_norm(const kernel_context *ctx,
                       const row_norm *p); /* (x - mean) / sqrt(var + eps) * weight + bias */
void kernel_rms_norm(const kernel_context *ctx,
                     const row_norm *p); /* x / sqrt(mean(x^2) + eps) * weight */

/* x, out: (batch, channels, plane); weight, bias, mean, var: (channels), weight and bias may be
 * NULL. */
typedef struct channel_norm {
  const ktensor *x, *weight, *bias, *mean, *var, *out;
  int64_t batch, channels, plane, groups;
  double eps;
} channel_norm;
void kernel_group_norm(const kernel_context *ctx,
                       const channel_norm *p); /* statistics per group of channels */
void kernel_batch_norm(const kernel_context *ctx,
                       const channel_norm *p); /* statistics given by mean and var */

#endif
