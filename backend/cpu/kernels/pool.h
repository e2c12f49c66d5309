#ifndef BACKEND_CPU_KERNELS_POOL_H
#define BACKEND_CPU_KERNELS_POOL_H
/* Pooling of contiguous planes; one dimension is two with a height of 1. */
#include "base/kernel.h"

typedef struct pool {
  bool average, adaptive;
  const void *x;    /* (planes, in[0], in[1]) */
  void *y;          /* (planes, out[0], out[1]) */
  int64_t *indices; /* the same shape, or NULL: of each maximum in its plane */
  dtype type;       /* of x and y */
  int64_t planes, in[2], out[2];
  /* Unless adaptive: */
  int64_t kernel[2], stride[2], padding[2], dilation[2];
  bool count_include_pad;
  int64_t divisor; /* 0: the number of elements */
} pool;

/* NaN wins a maximum. Integers average toward zero. False when scratch memory is out. */
bool kernel_pool(const kernel_context *ctx, const pool *p);

#endif
