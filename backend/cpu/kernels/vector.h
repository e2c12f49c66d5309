#ifndef BACKEND_CPU_KERNELS_VECTOR_H
#define BACKEND_CPU_KERNELS_VECTOR_H
/* Inner loops over contiguous floats, on the widest vectors the processor has. */
#include "base/kernel.h"

float dot_f32(int64_t n, const float *a, const float *b);
void axpy_f32(int64_t n, float s, const float *x, float *y); /* y += s * x */

#endif
