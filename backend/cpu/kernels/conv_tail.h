#ifndef BACKEND_CPU_KERNELS_CONV_TAIL_H
#define BACKEND_CPU_KERNELS_CONV_TAIL_H
/* What follows a convolution or a product in float element by element, done where its outputs are
 * stored: y = min(max(y + added, low), high). What is no number stays that. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct conv_tail {
  const void *added;    /* like out; may be absent */
  float low, high;      /* -INFINITY, INFINITY: none */
  bool added_is_narrow; /* BF16 (narrow.h), else F32 */
} conv_tail;

static const conv_tail conv_tail_none = {.low = -INFINITY, .high = INFINITY};

/* Of n outputs, the first of which is element `at` of out, from their sums; to may be `from`, or
 * those of `added`. */
void conv_tail_row(const conv_tail *t, float bias, int64_t at, int64_t n, const float *from,
                   float *to);

#endif
