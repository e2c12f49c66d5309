#ifndef BASE_RESAMPLE_H
#define BASE_RESAMPLE_H
/* Source elements and weights for each position of a resized dimension, computed as torch does. CPU
 * kernels, which must be self-contained, use this file. */
#include "base/dtype.h"

typedef enum resample_mode {
  RESAMPLE_NEAREST,
  RESAMPLE_NEAREST_EXACT,
  RESAMPLE_LINEAR,
  RESAMPLE_CUBIC,
  RESAMPLE_NONE /* the size is unchanged: each position reads its own element */
} resample_mode;

typedef struct resample_axis {
  int64_t in, out; /* sizes */
  resample_mode mode;
  bool align_corners, antialias;
  bool quantized; /* weights are converted to 16-bit integers */
  dtype compute;  /* F32 or F64: every operation on positions and weights rounds to it */
  dtype stored;   /* cubic weights are rounded to the elements' dtype, as in torch */
  double scale;   /* source elements per output element */
  double support; /* half the length of the antialiasing filter */
  int64_t n_taps; /* maximum number of source elements that an output element reads */
} resample_axis;

/* Rounds v to the axis' compute dtype. For a sum, product or quotient of two such numbers, this
 * equals the operation in that dtype. */
static inline double resample_rounded(const resample_axis *axis, double v) {
  return axis->compute == DTYPE_F64 ? v : (double)(float)v;
}

/* Fills index and weight, (n_taps) each, with the elements of x that element `at` of out reads and
 * their weights. Returns their number. Indices ascend; they are clamped to the ends unless the axis
 * is antialiased or quantized. Weights of nearest modes are 1. */
int64_t resample_taps(const resample_axis *axis, int64_t at, int64_t *index, double *weight);

/* Returns the largest precision that keeps all quantized weights below 2^15. A quantized weight is
 * weight * 2^precision, rounded half away from zero. */
int resample_precision(const resample_axis *axis);

#endif
