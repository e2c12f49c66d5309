#ifndef BACKEND_CPU_KERNELS_GEMM_FEW_ROWS_H
#define BACKEND_CPU_KERNELS_GEMM_FEW_ROWS_H
/* Products of a few rows of floats with a matrix that is read in place. The bits of an element do
 * not depend on the rows and columns that are computed with it. */
#include "base/kernel.h"

/* The matrix b, with contiguous rows that are ld elements apart. */
typedef struct rows_in_place {
  dtype type; /* F32, or a type that rows_accept_type accepts */
  const void *x;
  int64_t ld; /* elements from a row to the next */
} rows_in_place;
/* True if kernels can read rows of this type in place: F32, and with AVX-512 also F16 and BF16. */
bool rows_accept_type(dtype t);

/* c (rows, columns; ldc apart) += a (rows, k; lda apart) * transpose of b (columns, k), as dot
 * products. */
void dots_of_rows(int64_t rows, int64_t columns, int64_t k, const float *a, int64_t lda,
                  const rows_in_place *b, float *c, int64_t ldc);

/* c (rows, columns) += a (rows, k) * b (k, columns), in the order of k. Each addition rounds as
 * in axpy_f32. */
void sums_of_rows(int64_t rows, int64_t columns, int64_t k, const float *a, int64_t lda,
                  const rows_in_place *b, float *c, int64_t ldc);

#endif
