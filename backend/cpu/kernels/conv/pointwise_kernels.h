#ifndef BACKEND_CPU_KERNELS_CONV_POINTWISE_KERNELS_H
#define BACKEND_CPU_KERNELS_CONV_POINTWISE_KERNELS_H
/* Products of a packed weight with the planes of an image in place, in float. A tile of outputs by
 * columns stays in registers until it is stored with bias and epilogue. */
#include <stdbool.h>
#include <stdint.h>

/* A tile c (rows, nr) = a * b + bias, followed by the steps of conv_epilogue.h. Sums of
 * POINTWISE_BLOCK products are added up, which keeps rounding errors small. */
typedef struct pointwise_tile {
  int64_t k;
  const float *a; /* element (row, k): a[k * a_stride + row] */
  int64_t a_stride;
  const float *b; /* element (k, column): b[k * b_stride + column] */
  int64_t b_stride;
  const float *bias;  /* (rows), may be NULL */
  const float *added; /* laid out like c, may be NULL */
  const float *slope; /* (rows), may be NULL */
  float *c;           /* element (row, column): c[row * c_stride + column] */
  int64_t c_stride;
  float low, high;
  bool prefetches; /* prefetches c, which is in no cache, a row per k; `added` always is */
} pointwise_tile;

enum { POINTWISE_BLOCK = 64 };

typedef struct pointwise_kernel {
  int nr; /* columns */
  void (*run)(const pointwise_tile *tile, int rows);
} pointwise_kernel;

/* Returns a kernel with as many rows as gemm.h's kernel for floats. half: with half the columns. */
pointwise_kernel pointwise_kernel_for(bool half);
/* Like pointwise_kernel_for, for a and b in words of pairs.h. */
pointwise_kernel pointwise_pairs_kernel_for(bool half);

#endif
