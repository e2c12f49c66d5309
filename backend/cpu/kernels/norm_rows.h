#ifndef BACKEND_CPU_KERNELS_NORM_ROWS_H
#define BACKEND_CPU_KERNELS_NORM_ROWS_H
/* Sums and scaling of contiguous floats for norms. The kernels compute in doubles without fused
 * multiply-add, so that all processors yield the same bits. */
#include <stdbool.h>
#include <stdint.h>

/* Returns the sum of x - shift, or of its square, in 32 lanes; neighbours are added first. */
typedef double (*norm_sum)(int64_t n, const float *x, double shift, bool squares);
/* out = (x - mean) * inverse * weight + bias; weight, bias: (n). out may be x. */
typedef void (*norm_scale)(int64_t n, const float *x, double mean, double inverse,
                           const float *weight, const float *bias, float *out);
/* out = x * scale + shift; out may be x. */
typedef void (*norm_shift)(int64_t n, const float *x, double scale, double shift, float *out);

typedef struct norm_rows {
  norm_sum sum;
  norm_scale scale;
  norm_shift shift;
} norm_rows;
norm_rows choose_norm_rows(void);

#endif
