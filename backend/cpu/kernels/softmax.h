#ifndef BACKEND_CPU_KERNELS_SOFTMAX_H
#define BACKEND_CPU_KERNELS_SOFTMAX_H
/* Softmax and its logarithm along the last dimension. */
#include "base/kernel.h"

/* out = exp(x - max) / sum(exp(x - max)), or x - max - log(sum(exp(x - max))); float dtypes, any
 * strides. A row of -inf gives NaN. */
void kernel_softmax(const kernel_context *ctx, bool is_log, const ktensor *x, const ktensor *out);

#endif
