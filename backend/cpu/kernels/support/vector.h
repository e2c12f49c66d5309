#ifndef BACKEND_CPU_KERNELS_SUPPORT_VECTOR_H
#define BACKEND_CPU_KERNELS_SUPPORT_VECTOR_H
/* Inner loops over contiguous floats, on the processor's widest vectors. */
#include "base/kernel.h"

float dot_f32(int64_t n, const float *a, const float *b);
void axpy_f32(int64_t n, float s, const float *x, float *y); /* y += s * x */

/* A row that is added to cells [first, stop) of a result, 0 <= first < stop. */
typedef struct weighted_row {
  const float *x; /* element of cell `first` */
  float weight;
  int64_t first, stop;
} weighted_row;
/* y[i] = the sum of weight * x[(i - first) * stride] over the rows that contain cell i, in order.
 * Each addition rounds as in axpy_f32. For all rows, stop <= n. */
void weighted_sums_f32(int64_t n, int rows, const weighted_row *row, int64_t stride, float *y);

float largest_f32(int64_t n, const float *x); /* NaN if any is NaN; -infinity if n is 0 */
/* y[i] = exp(x[i] - less), where y may be x. Returns the sum of y. */
double exponentials_f32(int64_t n, float less, const float *x, float *y);

/* One row of a state-space recurrence. Per token: h = decay h + x b, out += the sum of h c. The
 * strides are elements from token to token. */
typedef struct scanned_row {
  int64_t n_tokens, n; /* n: elements of h, b and c */
  const float *decay;  /* (n_tokens, n) if `each`, otherwise (n_tokens), shared by all of h */
  bool each;
  const float *x, *b, *c;
  float *h, *out;
  int64_t x_stride, b_stride, c_stride, out_stride;
} scanned_row;
void scan_row_f32(const scanned_row *row);

#endif
