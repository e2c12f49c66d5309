#ifndef BACKEND_CPU_KERNELS_CONV_CONV_EPILOGUE_H
#define BACKEND_CPU_KERNELS_CONV_CONV_EPILOGUE_H
/* The epilogue of a float convolution or product, applied to each output as it is stored:
 * y += added, y = y > 0 ? y : y * slope, y = min(max(y, low), high). NaN stays NaN. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"

typedef struct conv_epilogue {
  const void *added;  /* laid out like out; may be NULL */
  const float *slope; /* (outputs of all groups); may be NULL */
  float low, high;    /* -INFINITY, INFINITY: no limit */
  dtype added_type;   /* F32, or BF16 if F32 is kept as BF16 (bf16.h) */
} conv_epilogue;

static const conv_epilogue conv_epilogue_none = {.low = -INFINITY, .high = INFINITY};

/* Computes n outputs from their sums, which have the slope of output `output`. The first is element
 * `at` of out. `to` may be `from`, or the same elements of `added`. */
void conv_epilogue_row(const conv_epilogue *epilogue, float bias, int64_t output, int64_t at,
                       int64_t n, const float *from, float *to);

/* Sums (n, lanes) of n neighbouring cells, which are transposed to rows of planes: output i of cell
 * k is element at + i * step + k of out. sums has memory for n rounded up to a multiple of 16. */
typedef struct transposed_outputs {
  const conv_epilogue *epilogue; /* epilogue for float sums */
  const float *bias, *slope;     /* (outputs), may be NULL */
  const float *sums;
  int64_t lanes, n, outputs; /* outputs <= lanes, a multiple of 16 */
  float *out;
  int64_t at, step;
} transposed_outputs;
/* Stores outputs. Returns false, and does nothing, if vectors are missing or `added` is BF16. */
bool conv_epilogue_transposed(const transposed_outputs *outputs);

#endif
