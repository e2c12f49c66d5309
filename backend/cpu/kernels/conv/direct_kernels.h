#ifndef BACKEND_CPU_KERNELS_CONV_DIRECT_KERNELS_H
#define BACKEND_CPU_KERNELS_CONV_DIRECT_KERNELS_H
/* Computes tiles of direct convolutions in float: c (positions, nr) = x (positions, k) * b (k, nr),
 * or += it. Outputs are vector lanes, neighbouring positions are rows. x is read in place. */
#include <stdbool.h>
#include <stdint.h>

enum { DIRECT_AHEAD = 64 }; /* prefetch distance in elements of k; offsets has as many more */

/* A product c (rows, nr) = x * b, or += x * b. */
typedef struct direct_product {
  int64_t k;
  const float *x; /* element (row, k): x[offsets[k] + row * step] */
  const int64_t *offsets;
  int64_t step;
  const float *b; /* (k, nr), rows b_stride apart */
  int64_t b_stride;
  float *c;         /* (rows, nr) */
  bool adds;        /* otherwise c is overwritten */
  const char *next; /* memory prefetched while the kernel runs, `next_stride` bytes per k */
  int64_t next_stride;
  bool prefetches; /* if step is 1: prefetches x, which another thread may have written */
} direct_product;

typedef struct direct_kernel {
  int mr, nr; /* maximum number of rows; number of outputs */
  void (*run)(const direct_product *product, int rows);
  void (*run_half)(const direct_product *product,
                   int rows); /* computes only the first nr / 2 outputs; NULL if nr is minimal */
} direct_kernel;

/* Returns the kernel for this number of outputs. */
direct_kernel direct_kernel_for(int64_t outputs);
/* Like direct_kernel_for, for x and b in words of pairs.h. */
direct_kernel direct_pairs_kernel_for(int64_t outputs);

#endif
