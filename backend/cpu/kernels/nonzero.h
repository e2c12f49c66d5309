#ifndef BACKEND_CPU_KERNELS_NONZERO_H
#define BACKEND_CPU_KERNELS_NONZERO_H
/* The positions of what is not zero. */
#include "base/kernel.h"

/* positions: (numel(x), rank of x), those found in row-major order, then zeros. x is contiguous.
 * False: out of memory. */
bool kernel_nonzero(const kernel_context *ctx, const ktensor *x, int64_t *positions,
                    int64_t *count);

#endif
