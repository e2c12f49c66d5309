#ifndef BACKEND_CPU_KERNELS_SORT_H
#define BACKEND_CPU_KERNELS_SORT_H
/* Stable sorting along the last dimension. */
#include "base/kernel.h"

/* out: (*, k) the first k of each row of x: (*, n) in order, k <= n; indices (NULL: not wanted):
 * (*, k) I64, where they stood. NaN is the greatest, -0.0 equals 0.0, equal elements keep their
 * order. False when scratch memory is out. */
bool kernel_sort(const kernel_context *ctx, bool descending, const ktensor *x, const ktensor *out,
                 const ktensor *indices);

#endif
