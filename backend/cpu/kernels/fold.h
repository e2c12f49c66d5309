#ifndef BACKEND_CPU_KERNELS_FOLD_H
#define BACKEND_CPU_KERNELS_FOLD_H
/* Sliding blocks of planes. */
#include "base/kernel.h"

typedef struct fold {
  const void *x;
  void *y; /* im2col: (n * channels * kernel, positions); col2im: (n * channels, size) */
  dtype type;
  int64_t planes; /* n * channels */
  int64_t size[2], positions[2], kernel[2], stride[2], padding[2], dilation[2];
} fold;

void kernel_im2col(const kernel_context *ctx, const fold *p);
void kernel_col2im(const kernel_context *ctx, const fold *p);

#endif
