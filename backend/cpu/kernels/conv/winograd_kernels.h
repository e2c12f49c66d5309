#ifndef BACKEND_CPU_KERNELS_CONV_WINOGRAD_KERNELS_H
#define BACKEND_CPU_KERNELS_CONV_WINOGRAD_KERNELS_H
/* Winograd's transforms of a tile of m x m outputs, n = m + 2, for 16 channels or outputs at a
 * time. n x n inputs make n x n factors. Each factor is multiplied by the same factor of the kernel
 * and summed over channels. The n x n sums make the outputs. */
#include <stdint.h>

enum {
  WINOGRAD_LANES = 16 /* channels or outputs per vector */
};

/* A product c (rows, nr) = or += a * b. Sums of WINOGRAD_LANES products are added up, which keeps
 * rounding errors small. Rounding errors of the products are most of the method's error. */
typedef struct winograd_product {
  int64_t k;
  const float *a; /* element (row, k): a[k / 16 * a_stride + row * 16 + k % 16] */
  int64_t a_stride;
  const float *b; /* (k, nr) */
  float *c;       /* (rows, nr) */
  int adds;       /* otherwise c is overwritten */
} winograd_product;

typedef struct winograd_kernel {
  int mr, nr; /* maximum number of rows; number of columns, a multiple of WINOGRAD_LANES */
  void (*multiply)(const winograd_product *product, int rows);
  /* Transforms inputs from[(y * row + x) * 16 + lane] to factors to[(y * n + x) * stride + lane].
   */
  void (*factors)(const float *from, int64_t row, float *to, int64_t stride);
  /* Transforms sums from[(y * n + x) * stride + lane] to outputs to[(y * m + x) * 16 + lane] and
   * adds bias (16). Also adds each output to check (16). */
  void (*outputs)(const float *from, int64_t stride, const float *bias, float *to, float *check);
} winograd_kernel;

/* Returns the kernel of this processor for tiles of m x m outputs, 2 or 4. */
winograd_kernel winograd_kernel_for(int m);
/* Transforms kernels (3, 3, 16) to factors (n, n, 16), with one rounding of the exact result. */
void winograd_weight(int m, const double *kernels, float *factors);

#endif
