#ifndef BACKEND_CPU_KERNELS_VECTOR_H
#define BACKEND_CPU_KERNELS_VECTOR_H
/* Inner loops over contiguous floats, on the widest vectors the processor has. */
#include "base/kernel.h"

float dot_f32(int64_t n, const float *a, const float *b);
void axpy_f32(int64_t n, float s, const float *x, float *y); /* y += s * x */

/* c (rows, columns) += a (rows, k) times the transpose of b (columns, k): a dot product each. lda,
 * ldb, ldc: how far apart their rows are. */
void dots_f32(int64_t rows, int64_t columns, int64_t k, const float *a, int64_t lda, const float *b,
              int64_t ldb, float *c, int64_t ldc);

#endif
