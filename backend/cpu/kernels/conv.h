#ifndef BACKEND_CPU_KERNELS_CONV_H
#define BACKEND_CPU_KERNELS_CONV_H
/* Convolution of contiguous tensors; one dimension is two with a height of 1. */
#include "base/kernel.h"

typedef struct conv {
  const void *x;      /* (batch, channels, in[0], in[1]) */
  const void *weight; /* (outputs, channels / groups, kernel[0], kernel[1]) */
  const void *bias;   /* (outputs) or NULL */
  void *y;            /* (batch, outputs, out[0], out[1]) */
  dtype type, weight_type, bias_type, out_type;
  int64_t batch, channels, outputs, groups;
  int64_t in[2], kernel[2], out[2], stride[2], padding[2], dilation[2];
} conv;

bool kernel_conv(const kernel_context *ctx, const conv *p); /* false when scratch memory is out */

#endif
