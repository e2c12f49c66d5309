#ifndef OPS_UPSAMPLE_H
#define OPS_UPSAMPLE_H
/* What one dimension of an Upsample reads: positions and weights, in torch's arithmetic. */
#include "ops/ops.h"

typedef struct upsample_axis {
  int64_t in, out; /* sizes */
  ir_upsample_mode mode;
  bool align_corners, antialias;
  bool quantized; /* weights become 16-bit integers */
  dtype compute;  /* F32 or F64: every operation on positions and weights rounds to it */
  dtype stored;   /* what weights are rounded to: cubic ones to x's dtype, as torch does */
  double scale;   /* source elements per element of out */
  double support; /* half the length of the antialiasing filter */
  int64_t n_taps; /* source elements that one of out reads, at most */
} upsample_axis;

/* Whether weights become integers: linear and cubic of 8-bit images. */
bool upsample_is_quantized(const ir_upsample *op, dtype type);

/* Of spatial dimension `d` (counted from 0) of the op's n. */
upsample_axis upsample_axis_of(const ir_upsample *op, const tensor *x, const tensor *out, int d);

/* Fills index and weight, (n_taps) each, of element `at` of out; returns how many it reads,
 * neighbours in ascending order (clamped to the size unless antialiased or quantized). Weights of
 * nearest modes are 1. */
int64_t upsample_taps(const upsample_axis *a, int64_t at, int64_t *index, double *weight);

/* Quantized weights are weight * 2^precision, rounded half away from zero: the largest that keeps
 * all of them below 2^15. Scratch: index and weight, (n_taps) each. */
int upsample_precision(const upsample_axis *a, int64_t *index, double *weight);

#endif
