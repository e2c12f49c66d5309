#ifndef BACKEND_CPU_KERNELS_CONV_H
#define BACKEND_CPU_KERNELS_CONV_H
/* Convolution and its transpose over contiguous tensors; missing dimensions in front have size 1.
 */
#include "base/kernel.h"

enum { CONV_DIMS = 3 };

typedef struct conv {
  const void *x;      /* (batch, channels, in...) */
  const void *weight; /* (outputs, channels / groups, kernel...);
                         transposed: (channels, outputs / groups, kernel...) */
  const void *bias;   /* (outputs) or NULL */
  void *y;            /* (batch, outputs, out...) */
  dtype type, weight_type, bias_type, out_type;
  bool transposed;
  int64_t batch, channels, outputs, groups;
  int64_t in[CONV_DIMS], kernel[CONV_DIMS], out[CONV_DIMS];
  int64_t stride[CONV_DIMS], padding[CONV_DIMS], dilation[CONV_DIMS];
} conv;

bool kernel_conv(const kernel_context *ctx, const conv *p); /* false when scratch memory is out */

#endif
