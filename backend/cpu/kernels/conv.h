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
  const void *packed; /* the weight by kernel_conv_pack, or absent */
  void *out;          /* (images, groups * outputs, out...) */
  dtype type;
  bool transposed;
  int64_t images, groups, channels, outputs;
  kconv_dim dims[CONV_DIMS];
} conv_args;
KERNEL(conv, conv_args);

/* Writes the weight to its scratch memory, as kernel_conv wants it: neither of a transposed
 * convolution nor of one with an input channel a group. No operand but the weight is read. */
KERNEL(conv_pack, conv_args);
bool conv_packs(const conv_args *p); /* whether it can be */

#endif
