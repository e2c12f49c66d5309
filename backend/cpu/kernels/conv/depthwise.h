#ifndef BACKEND_CPU_KERNELS_CONV_DEPTHWISE_H
#define BACKEND_CPU_KERNELS_CONV_DEPTHWISE_H
/* Depthwise convolution of a plane with few taps, in float: out (y, x) = the sum of weight (i, j) *
 * in (y stride + i, x stride + j). Each output row is computed with all taps in one pass. */
#include "backend/cpu/kernels/conv/conv_window.h"

enum { MOST_TERMS = 64 };

typedef struct plane_taps {
  float weight[MOST_TERMS]; /* row-major */
  /* Per column of taps: cells [first, stop) of a row read the image, from column `from` on. */
  int64_t first[MOST_TERMS], stop[MOST_TERMS], from[MOST_TERMS];
} plane_taps;

static inline bool has_few_taps(const conv_part *part) { return tap_count(part) <= MOST_TERMS; }
/* Initialises everything except the weights. Requires has_few_taps. */
void plane_taps_init(const conv_part *part, plane_taps *taps);
/* Computes n cells of a row from `cell` on. Taps outside the image are left out. */
void plane_taps_sum(const conv_part *part, const plane_taps *taps, const float *plane,
                    const int64_t cell[], int64_t n, float *values);

/* True if the kernels of depthwise_kernels.h can compute the whole part, in strips of rows. */
bool depthwise_fits(const conv_part *part);
/* Computes a part that depthwise_fits. scratch: depthwise_bytes. */
size_t depthwise_bytes(const kernel_context *ctx, const conv_part *part);
void depthwise_run(const kernel_context *ctx, const conv_part *part, char *scratch);

#endif
