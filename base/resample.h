#ifndef BASE_RESAMPLE_H
#define BASE_RESAMPLE_H
/* What each position of a resized dimension reads: elements and weights, in torch's arithmetic. CPU
 * kernels use it, which stand alone. */
#include "base/dtype.h"

typedef enum resample_mode {
  RESAMPLE_NEAREST,
  RESAMPLE_NEAREST_EXACT,
  RESAMPLE_LINEAR,
  RESAMPLE_CUBIC,
  RESAMPLE_NONE /* the size stays: each position reads its own element */
} resample_mode;

typedef struct resample_axis {
  int64_t in, out; /* sizes */
  resample_mode mode;
  bool align_corners, antialias;
  bool quantized; /* weights become 16-bit integers */
  dtype compute;  /* F32 or F64: every operation on positions and weights rounds to it */
  dtype stored; /* what weights are rounded to: cubic ones to the elements' dtype, as torch does */
  double scale; /* source elements per element of out */
  double support; /* half the length of the antialiasing filter */
  int64_t n_taps; /* source elements that one of out reads, at most */
} resample_axis;

/* v as the axis computes: a sum, product or quotient of two such numbers, rounded again, is what
 * their type gives. */
static inline double resample_rounded(const resample_axis *axis, double v) {
  return axis->compute == DTYPE_F64 ? v : (double)(float)v;
}

/* Fills index and weight, (n_taps) each, of element `at` of out; returns how many it reads,
 * neighbours in ascending order (clamped to the size unless antialiased or quantized). Weights of
 * nearest modes are 1. */
int64_t resample_taps(const resample_axis *axis, int64_t at, int64_t *index, double *weight);

/* Quantized weights are weight * 2^precision, rounded half away from zero: the largest that keeps
 * all of them below 2^15. */
int resample_precision(const resample_axis *axis);

#endif
