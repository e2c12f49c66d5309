#ifndef BACKEND_CPU_KERNELS_CONV_DEPTHWISE_H
#define BACKEND_CPU_KERNELS_CONV_DEPTHWISE_H
/* A plane convolved by itself, with few taps, in float: row by row, each with all of its taps in
 * one pass. */
#include "backend/cpu/kernels/conv/conv_window.h"

enum { MOST_TERMS = 64 };

typedef struct plane_taps {
  float weight[MOST_TERMS]; /* row-major */
  /* By column of the taps: which cells of a row meet the image in it, and the first of them where.
   */
  int64_t first[MOST_TERMS], stop[MOST_TERMS], from[MOST_TERMS];
} plane_taps;

static inline bool has_few_taps(const conv_part *part) { return tap_count(part) <= MOST_TERMS; }
/* All but the weights, of a part that has few taps. */
void plane_taps_init(const conv_part *part, plane_taps *taps);
/* values: n cells of a row from `cell` on; what lies outside of the image is left out. */
void plane_taps_sum(const conv_part *part, const plane_taps *taps, const float *plane,
                    const int64_t cell[], int64_t n, float *values);

/* Whether all of a part is made by the kernels of depthwise_kernels.h, its planes in strips whose
 * rows are copied with the padding around them. */
bool depthwise_fits(const conv_part *part);
size_t depthwise_bytes(const kernel_context *ctx, const conv_part *part);
void depthwise_run(const kernel_context *ctx, const conv_part *part, char *scratch);

#endif
