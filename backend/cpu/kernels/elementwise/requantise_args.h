#ifndef BACKEND_CPU_KERNELS_ELEMENTWISE_REQUANTISE_ARGS_H
#define BACKEND_CPU_KERNELS_ELEMENTWISE_REQUANTISE_ARGS_H
/* Arguments of requantisation to 8 bits: one tensor or the sum of two, each scaled by channels. */
#include "base/kernel.h"

/* One factor per channel if the pointer is not NULL, else one number for all channels. */
typedef struct requantise_factor {
  const float *of_channel;
  float number;
} requantise_factor;

/* one term: ((float)x - zero) * scale + bias */
typedef struct requantise_term {
  const void *x; /* (images, channels, row) of `type`: F32, I32, I8 or U8; NULL if absent */
  dtype type;
  float zero;
  requantise_factor scale, bias;
} requantise_term;

/* out = cast(clamp(round(clamp(sum of the terms, low, high) * inverse) + zero, least, greatest)),
 * of `type`, I8 or U8. Each operation is in F32, in that order. */
typedef struct requantise_args {
  requantise_term terms[2];
  void *out; /* (images, channels, row) */
  dtype type;
  float low, high, inverse, zero, least, greatest;
  int64_t images, channels, row;
} requantise_args;
/* Lists the operands of a requantise_args that is member `at` of another kernel's arguments. The
 * kernel has its own sums in place of terms[0].x, and its own out. */
#define REQUANTISE_OPERANDS(args, at)                                                      \
  OPERAND(args, at.terms[0].scale.of_channel), OPERAND(args, at.terms[0].bias.of_channel), \
      OPERAND(args, at.terms[1].x), OPERAND(args, at.terms[1].scale.of_channel),           \
      OPERAND(args, at.terms[1].bias.of_channel)

#endif
