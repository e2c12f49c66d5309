#ifndef BACKEND_CPU_KERNELS_UPSAMPLE_H
#define BACKEND_CPU_KERNELS_UPSAMPLE_H
/* Resized planes of up to three dimensions: each element of out is a weighted sum over the product
 * of its dimensions' taps. */
#include "base/kernel.h"

/* Position o of a dimension reads index[o * n_taps + k] for k < count[o]. A missing dimension has
 * one position. */
typedef struct upsample_table {
  int64_t in, out, n_taps;
  const int64_t *index;
  const int64_t *count;
  const double *weight; /* exact in the type that sums are made in */
} upsample_table;

typedef struct upsample {
  const void *x; /* (planes, in...) */
  void *y;       /* (planes, out...) */
  dtype type;
  int64_t planes;
  upsample_table dims[3];
  bool copies;   /* one tap everywhere, of weight 1 */
  int precision; /* > 0: weights are integers, sums are divided by 2^precision, rounded and clamped
                    to a byte */
} upsample;

/* False when scratch memory is out. */
bool kernel_upsample(const kernel_context *ctx, const upsample *p);

#endif
