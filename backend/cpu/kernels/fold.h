#ifndef BACKEND_CPU_KERNELS_FOLD_H
#define BACKEND_CPU_KERNELS_FOLD_H
/* Sliding blocks of planes. */
#include "base/kernel.h"

typedef struct fold_args {
  const void *x;
  void *out;
  dtype type;
  int64_t planes, size[2], positions[2], kernel[2], stride[2], padding[2], dilation[2];
} fold_args;
KERNEL(im2col, fold_args); /* x: (planes, size), out: (planes * kernel, positions) */
KERNEL(col2im, fold_args); /* x: (planes * kernel, positions), out: (planes, size) */

#endif
