#ifndef BACKEND_CPU_KERNELS_CONV_POINTWISE_KERNELS_H
#define BACKEND_CPU_KERNELS_CONV_POINTWISE_KERNELS_H
/* Products of a packed weight with the planes of an image where they lie, in float: a tile of
 * outputs by columns stays in registers, and is stored as it will stay. */
#include <stdbool.h>
#include <stdint.h>

/* c (rows, nr) = limits(a times b + bias + added). Sums of POINTWISE_BLOCK products are added up,
 * which keeps rounding errors small. */
typedef struct pointwise_tile {
  int64_t k;
  const float *a; /* element (row, k): a[k * a_step + row] */
  int64_t a_step;
  const float *b; /* element (k, column): b[k * b_step + column] */
  int64_t b_step;
  const float *bias;  /* (rows), or NULL */
  const float *added; /* as c, or NULL */
  float *c;           /* element (row, column): c[row * c_step + column] */
  int64_t c_step;
  float low, high;
  bool asks; /* for c, a row with each k: it is in memory; for what is added always */
} pointwise_tile;

enum { POINTWISE_BLOCK = 64 };

typedef struct pointwise_kernel {
  int nr; /* columns */
  void (*run)(const pointwise_tile *tile, int rows);
} pointwise_kernel;

/* Of so many rows as gemm.h's kernel for floats has. half: of half its columns. */
pointwise_kernel pointwise_kernel_for(bool half);
/* The same for a and b of pairs.h's words, and rows as its kernel has. */
pointwise_kernel pointwise_pairs_kernel_for(bool half);

#endif
