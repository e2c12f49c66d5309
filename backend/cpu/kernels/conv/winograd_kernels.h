#ifndef BACKEND_CPU_KERNELS_CONV_WINOGRAD_KERNELS_H
#define BACKEND_CPU_KERNELS_CONV_WINOGRAD_KERNELS_H
/* What Winograd's method does with a tile of m x m outputs, n = m + 2, for 16 channels or outputs
 * at a time: n x n inputs make n x n factors, each of which is multiplied with that of the kernel
 * and summed over channels; the sums make the outputs. */
#include <stdint.h>

enum {
  WINOGRAD_LANES = 16 /* channels, or outputs, side by side */
};

/* c (rows, nr) = or += a times b. As many products as there are lanes are added in a row: sums of
 * such blocks keep rounding errors small, which make most of the method's own. */
typedef struct winograd_product {
  int64_t k;
  const float *a; /* element (row, k): a[k / 16 * a_step + row * 16 + k % 16] */
  int64_t a_step;
  const float *b; /* (k, nr) */
  float *c;       /* (rows, nr) */
  int adds;       /* else c is written */
} winograd_product;

typedef struct winograd_kernel {
  int mr, nr; /* the most rows; columns, a multiple of WINOGRAD_LANES */
  void (*multiply)(const winograd_product *product, int rows);
  /* Of the inputs from[(y * row + x) * 16 + lane] the factors to[(y * n + x) * step + lane]. */
  void (*factors)(const float *from, int64_t row, float *to, int64_t step);
  /* Of the sums from[(y * n + x) * step + lane] the outputs to[(y * m + x) * 16 + lane], bias (16)
   * added. Adds each to check (16), too. */
  void (*outputs)(const float *from, int64_t step, const float *bias, float *to, float *check);
} winograd_kernel;

winograd_kernel winograd_kernel_for(int m);
/* The factors (n, n, 16) of kernels (3, 3, 16), exact but for one rounding. */
void winograd_weight(int m, const double *kernels, float *factors);

#endif
