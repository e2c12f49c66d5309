#ifndef BACKEND_CPU_KERNELS_DISTANCE_H
#define BACKEND_CPU_KERNELS_DISTANCE_H
/* Distances between the rows of two matrices. */
#include "base/kernel.h"

/* a: (batch, P, M), b: (batch, R, M), out: (batch, P, R), contiguous floats, given as (*, P, M) and
 * so on. p: the norm's order, 0 and infinity included. Accumulates in double. */
void kernel_distance(const kernel_context *ctx, double p, const ktensor *a, const ktensor *b,
                     const ktensor *out);

#endif
