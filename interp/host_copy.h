#ifndef INTERP_HOST_COPY_H
#define INTERP_HOST_COPY_H
/* Strided host memory to contiguous; BF16 and floats. */
#include "ops/tensor.h"

/* Copies the elements of tensor (strides in elements, from data + offset) to `out` in row-major
 * order.
 */
void copy_to_contiguous(const tensor *tensor, const void *data, void *out);

/* n elements of BF16, in place, as floats, and back: of values that fast precision keeps so. */
void widen_bf16(void *data, int64_t n);
void round_to_bf16(void *data, int64_t n);

#endif
