#ifndef INTERP_HOST_COPY_H
#define INTERP_HOST_COPY_H
/* Copies strided host memory to contiguous memory, and converts between bf16 and f32. */
#include "ops/tensor.h"

/* Copies the elements that `layout` describes (strides in elements, from data + offset) to `out`,
 * row-major. */
void copy_to_contiguous(const tensor *layout, const void *data, void *out);

/* Converts n elements in place from bf16 to f32, and back. */
void widen_bf16(void *data, int64_t n);
void round_to_bf16(void *data, int64_t n);

#endif
