#ifndef BACKEND_CPU_KERNELS_REDUCE_H
#define BACKEND_CPU_KERNELS_REDUCE_H
/* Reductions. Floats accumulate in double, integers in int64_t. */
#include "backend/cpu/kernels/reduce_kind.h"
#include "base/kernel.h"

/* Reduces all but the first n_kept dimensions of x (any strides). out: contiguous, one element per
 * kept index. correction: of var and std. NaN propagates through max and min. False when scratch
 * memory is out. */
bool kernel_reduce(const kernel_context *ctx, kreduce_kind kind, const ktensor *x, int n_kept,
                   double correction, const ktensor *out);

/* The row-major position (I64) among the dimensions after the first n_kept of the first maximum (or
 * minimum); the first NaN wins. out: contiguous I64. */
void kernel_arg_reduce(const kernel_context *ctx, bool minimum, const ktensor *x, int n_kept,
                       const ktensor *out);

#endif
