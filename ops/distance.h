#ifndef OPS_DISTANCE_H
#define OPS_DISTANCE_H
/* Distances between the rows of two matrices. */
#include "ops/node.h"

/* a: (*, n_a, m), b: (*, n_b, m), out: (*, n_a, n_b) with n_out elements. */
typedef struct distance_desc {
  const bound_tensor *a, *b, *out;
  int64_t n_out, n_a, n_b, m;
  double p;
} distance_desc;
void describe_distance(const node *node, distance_desc *desc);

#endif
