#ifndef BACKEND_CPU_KERNELS_POOL_H
#define BACKEND_CPU_KERNELS_POOL_H
/* Pooling of contiguous volumes; missing dimensions in front have size 1. */
#include "base/kernel.h"

enum { POOL_DIMS = 3 };

typedef struct pool {
  bool average, adaptive;
  const void *x;    /* (planes, in...) */
  void *y;          /* (planes, out...) */
  int64_t *indices; /* the same shape, or NULL: of each maximum in its plane */
  dtype type;       /* of x and y */
  int64_t planes, in[POOL_DIMS], out[POOL_DIMS];
  /* Unless adaptive: */
  int64_t kernel[POOL_DIMS], stride[POOL_DIMS], padding[POOL_DIMS], dilation[POOL_DIMS];
  bool count_include_pad;
  int64_t divisor; /* 0: the number of elements */
} pool;

/* NaN wins a maximum. Integers average toward zero. False when scratch memory is out. */
bool kernel_pool(const kernel_context *ctx, const pool *p);

#endif
