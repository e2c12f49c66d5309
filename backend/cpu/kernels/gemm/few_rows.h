#ifndef BACKEND_CPU_KERNELS_GEMM_FEW_ROWS_H
#define BACKEND_CPU_KERNELS_GEMM_FEW_ROWS_H
/* Products of a few rows of floats with a matrix that is read where it lies. An element of the
 * result has the same bits whatever rows and columns are computed beside it. */
#include "base/kernel.h"

/* The matrix: its rows are contiguous, ld elements apart. */
typedef struct rows_in_place {
  dtype type; /* F32, or what rows_take says */
  const void *x;
  int64_t ld;
} rows_in_place;
/* Whether this processor's kernels read rows of that type as they are: F16 and BF16 with AVX-512.
 */
bool rows_take(dtype t);

/* c (rows, columns; ldc apart) += a (rows, k; lda apart) times the transpose of place (columns, k):
 * a dot product each. */
void dots_of_rows(int64_t rows, int64_t columns, int64_t k, const float *a, int64_t lda,
                  const rows_in_place *place, float *c, int64_t ldc);

/* c (rows, columns) += a (rows, k) times place (k, columns): terms in the order of k, each rounded
 * as axpy_f32 does. */
void sums_of_rows(int64_t rows, int64_t columns, int64_t k, const float *a, int64_t lda,
                  const rows_in_place *place, float *c, int64_t ldc);

#endif
