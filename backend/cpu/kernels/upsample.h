#ifndef BACKEND_CPU_KERNELS_UPSAMPLE_H
#define BACKEND_CPU_KERNELS_UPSAMPLE_H
/* Resizes planes of up to three dimensions. Each element of out is a weighted sum over the product
 * of its dimensions' taps. */
#include "base/kernel.h"
#include "base/resample.h"

enum { UPSAMPLE_DIMS = 3 };

typedef struct upsample_args {
  const void *x;          /* (planes, in...) */
  void *out;              /* (planes, out...) */
  dtype x_type, out_type; /* dtypes as stored: F32 may be stored as BF16 (bf16.h) */
  int64_t planes;
  resample_axis axes[UPSAMPLE_DIMS]; /* missing ones have size 1 */
  int precision; /* > 0: weights are integers, sums are divided by 2^precision, rounded and clamped
                    to a byte */
} upsample_args;
KERNEL(upsample, upsample_args);

#endif
