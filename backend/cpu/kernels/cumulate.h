#ifndef BACKEND_CPU_KERNELS_CUMULATE_H
#define BACKEND_CPU_KERNELS_CUMULATE_H
/* Running sums and products along the last dimension. */
#include "base/kernel.h"

/* out[..., i] = x[..., 0] + ... + x[..., i] (or the product); any strides. Floats accumulate in
 * double. */
void kernel_cumulate(const kernel_context *ctx, bool product, const ktensor *x, const ktensor *out);

#endif
