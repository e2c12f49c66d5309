#ifndef OPS_NONZERO_H
#define OPS_NONZERO_H
/* The positions of what is not zero. */
#include "ops/node.h"

typedef struct nonzero_form {
  const bound_tensor *x, *out, *count; /* x: dense, of n elements; out: (n, rank of x) */
  int64_t n;
} nonzero_form;
void describe_nonzero(const node *node, nonzero_form *desc);

#endif
