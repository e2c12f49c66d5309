#ifndef BACKEND_CPU_KERNELS_DISTANCE_H
#define BACKEND_CPU_KERNELS_DISTANCE_H
/* Distances between the rows of two matrices. */
#include "base/kernel.h"

/* All operands are contiguous floats. With the norms 1, 2 and infinity, many distances of floats up
 * to F32 are accumulated in float, over blocks of terms; others in double. */
typedef struct distance_args {
  ktensor a, b; /* (*, n_a, m), (*, n_b, m) */
  ktensor out;  /* (*, n_a, n_b) of n_out elements */
  int64_t n_out, n_a, n_b, m;
  double p; /* the norm's order; may be 0 or infinite */
} distance_args;
KERNEL(distance, distance_args);

#endif
