#ifndef BACKEND_CPU_KERNELS_CONV_CONV_TAIL_H
#define BACKEND_CPU_KERNELS_CONV_CONV_TAIL_H
/* What follows a convolution or a product in float element by element, done where its outputs are
 * stored: y = min(max(y + added, low), high). What is no number stays that. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"

typedef struct conv_tail {
  const void *added; /* like out; may be absent */
  float low, high;   /* -INFINITY, INFINITY: none */
  dtype added_type;  /* F32, or BF16 where F32 is kept so (bf16.h) */
} conv_tail;

static const conv_tail conv_tail_none = {.low = -INFINITY, .high = INFINITY};

/* Of n outputs, the first of which is element `at` of out, from their sums; to may be `from`, or
 * those of `added`. */
void conv_tail_row(const conv_tail *tail, float bias, int64_t at, int64_t n, const float *from,
                   float *to);

/* Sums of n neighbouring cells (n, lanes), of which there are rows up to a multiple of 16, as rows
 * of planes: output i of cell k is element at + i * step + k of out. */
typedef struct turned_outputs {
  const conv_tail *tail; /* of floats */
  const float *bias;     /* (outputs), or NULL */
  const float *sums;
  int64_t lanes, n, outputs; /* outputs <= lanes, a multiple of 16 */
  float *out;
  int64_t at, step;
} turned_outputs;
/* False where the processor has no vectors for it, or what is added is BF16: nothing is done. */
bool conv_tail_turned(const turned_outputs *outputs);

#endif
