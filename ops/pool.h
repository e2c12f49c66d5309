#ifndef OPS_POOL_H
#define OPS_POOL_H
/* Pooling over one to three spatial dimensions. */
#include "ops/node.h"

/* x: (planes, in...), out and indices: (planes, size...), all contiguous. Missing spatial
 * dimensions are prepended. */
typedef struct pool_desc {
  const bound_tensor *x, *out, *indices; /* indices: NULL if not wanted; max pooling only */
  dtype type;                            /* x's dtype in the program */
  bool average;
  int64_t planes, in[SPATIAL_DIMS], size[SPATIAL_DIMS];
  /* Pool only: */
  int64_t kernel[SPATIAL_DIMS], stride[SPATIAL_DIMS], padding[SPATIAL_DIMS], dilation[SPATIAL_DIMS];
  bool count_include_pad;
  int64_t divisor; /* 0: the number of elements in the window */
} pool_desc;
void describe_pool(const node *node, pool_desc *desc);
void describe_adaptive_pool(const node *node, pool_desc *desc);
/* True for an F32 average over whole planes. */
bool pool_is_mean(const pool_desc *desc);

#endif
