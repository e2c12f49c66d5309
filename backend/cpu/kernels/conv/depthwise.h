#ifndef BACKEND_CPU_KERNELS_CONV_DEPTHWISE_H
#define BACKEND_CPU_KERNELS_CONV_DEPTHWISE_H
/* Depthwise convolution of a plane with few taps, in float: out (y, x) = the sum of weight (i, j) *
 * in (y stride + i, x stride + j). Each output row is computed with all taps in one pass. */
#include "backend/cpu/kernels/conv/conv_window.h"

enum { MAX_TERMS = 64 };

typedef struct plane_taps {
  float weight[MAX_TERMS]; /* row-major */
  /* Per column of taps: cells [first, stop) of a row read the image, from column `from` on. */
  int64_t first[MAX_TERMS], stop[MAX_TERMS], from[MAX_TERMS];
} plane_taps;

static inline bool has_few_taps(const conv_phase *phase) { return tap_count(phase) <= MAX_TERMS; }
/* Initialises everything except the weights. Requires has_few_taps. */
void plane_taps_init(const conv_phase *phase, plane_taps *taps);
/* Computes n cells of a row from `cell` on. Taps outside the image are left out. */
void plane_taps_sum(const conv_phase *phase, const plane_taps *taps, const float *plane,
                    const int64_t cell[], int64_t n, float *values);

/* True if the kernels of depthwise_kernels.h can compute the whole phase, in strips of rows. */
bool depthwise_fits(const conv_phase *phase);
/* depthwise_run computes a phase for which depthwise_fits is true. It needs depthwise_bytes bytes
 * of scratch memory. */
size_t depthwise_bytes(const kernel_context *ctx, const conv_phase *phase);
void depthwise_run(const kernel_context *ctx, const conv_phase *phase, char *scratch);

#endif
