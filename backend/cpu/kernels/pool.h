#ifndef BACKEND_CPU_KERNELS_POOL_H
#define BACKEND_CPU_KERNELS_POOL_H
/* Pooling of contiguous volumes; missing dimensions in front have size 1. */
#include "base/kernel.h"

enum { POOL_DIMS = 3 };

typedef struct pool_args {
  bool average, adaptive;
  const void *x;          /* (planes, in...) */
  void *out;              /* (planes, size...) */
  int64_t *indices;       /* the same shape, may be absent: position of each maximum in its plane */
  dtype type;             /* dtype of x and out in the program */
  dtype x_type, out_type; /* as stored; without indices F32 maxima may be BF16 (bf16.h) */
  int64_t planes, in[POOL_DIMS], size[POOL_DIMS];
  /* Unless adaptive: */
  int64_t kernel[POOL_DIMS], stride[POOL_DIMS], padding[POOL_DIMS], dilation[POOL_DIMS];
  bool count_include_pad;
  int64_t divisor; /* 0: the number of elements */
} pool_args;
KERNEL(pool, pool_args); /* NaN wins a maximum. Integers average toward zero. */

#endif
