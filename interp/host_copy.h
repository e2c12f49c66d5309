#ifndef INTERP_HOST_COPY_H
#define INTERP_HOST_COPY_H
/* Strided host memory to contiguous. */
#include "ops/tensor.h"

/* Copies the elements of x (strides in elements, from data + offset) to `out` in row-major order.
 */
void copy_to_contiguous(const tensor *x, const void *data, void *out);

#endif
