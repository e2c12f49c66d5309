#ifndef BACKEND_CPU_KERNELS_CONV_DIRECT_KERNELS_H
#define BACKEND_CPU_KERNELS_CONV_DIRECT_KERNELS_H
/* Products of inputs with a packed weight, in float: outputs are the lanes of vectors, and
 * neighbouring positions the rows of a tile, whose inputs are read where they lie. */
#include <stdbool.h>
#include <stdint.h>

enum { DIRECT_AHEAD = 64 }; /* elements of k that are asked for ahead: offsets behind the last */

/* c (rows, nr) = or += inputs times b. */
typedef struct direct_product {
  int64_t k;
  const float *x; /* element (row, k): x[offsets[k] + row * step] */
  const int64_t *offsets;
  int64_t step;
  const float *b; /* (k, nr), rows b_step apart */
  int64_t b_step;
  float *c;         /* (rows, nr) */
  bool adds;        /* else c is written */
  const char *next; /* what is asked for on the way: `next_step` bytes for each k */
  int64_t next_step;
  bool asks; /* for x, DIRECT_AHEAD of k ahead, where step is 1: another thread may have written it
              */
} direct_product;

typedef struct direct_kernel {
  int mr, nr; /* the most rows; outputs */
  void (*run)(const direct_product *product, int rows);
  void (*run_half)(const direct_product *product,
                   int rows); /* of the first nr / 2; NULL: nr is least */
} direct_kernel;

/* For so many outputs. */
direct_kernel direct_kernel_for(int64_t outputs);
/* For x and b of pairs.h's words. */
direct_kernel direct_pairs_kernel_for(int64_t outputs);

#endif
