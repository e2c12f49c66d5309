#ifndef BACKEND_CPU_KERNELS_ARANGE_H
#define BACKEND_CPU_KERNELS_ARANGE_H
/* Tensors made from nothing: arange and full. */
#include "base/kernel.h"

/* out[i] = start + i * step, in double for float dtypes and in wrapping int64_t for the others. */
void kernel_arange_float(const kernel_context *ctx, double start, double step, const ktensor *out);
void kernel_arange_int(const kernel_context *ctx, int64_t start, int64_t step, const ktensor *out);

#endif
