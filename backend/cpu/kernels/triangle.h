#ifndef BACKEND_CPU_KERNELS_TRIANGLE_H
#define BACKEND_CPU_KERNELS_TRIANGLE_H
/* tril and triu. */
#include "base/kernel.h"

/* out[..., i, j] = x[..., i, j] where j <= i + diagonal (upper: j >= i + diagonal), else 0. out:
 * contiguous, rank >= 2. */
void kernel_triangle(const kernel_context *ctx, const ktensor *x, int64_t diagonal, bool upper,
                     const ktensor *out);

#endif
