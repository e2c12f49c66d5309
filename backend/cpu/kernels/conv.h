#ifndef BACKEND_CPU_KERNELS_CONV_H
#define BACKEND_CPU_KERNELS_CONV_H
/* Convolution and its transpose over contiguous tensors of one dtype; missing dimensions in front
 * have size 1. */
#include "base/kernel.h"

enum { CONV_DIMS = 3 };

typedef struct kconv_dim {
  int64_t in, out, kernel, stride, padding, dilation;
  /* Of a transposed convolution: phases (positions of outputs modulo the stride), and how many taps
   * it is from one to the next that an output sees. Else 1. */
  int64_t phases, tap_step;
} kconv_dim;

typedef struct conv_args {
  const void *x;      /* (images, groups * channels, in...) */
  const void *weight; /* (groups * outputs, channels, kernel...);
                         transposed: (groups * channels, outputs, kernel...) */
  const void *bias;   /* (groups * outputs), may be absent */
  void *out;          /* (images, groups * outputs, out...) */
  dtype type;
  bool transposed;
  int64_t images, groups, channels, outputs;
  kconv_dim dims[CONV_DIMS];
} conv_args;
KERNEL(conv, conv_args);

#endif
