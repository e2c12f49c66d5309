#ifndef OPS_NONZERO_H
#define OPS_NONZERO_H
/* The positions of nonzero elements. */
#include "ops/node.h"

typedef struct nonzero_desc {
  const bound_tensor *x, *out, *count; /* x: dense, n elements; out: (n, rank of x) */
  int64_t n;
} nonzero_desc;
void describe_nonzero(const node *node, nonzero_desc *desc);

#endif
