#ifndef BACKEND_CPU_KERNELS_CONV_CONV_WORDS_H
#define BACKEND_CPU_KERNELS_CONV_CONV_WORDS_H
/* Joins rows of images to words of two channels (pairs.h). */
#include "backend/cpu/kernels/conv/conv_window.h"

/* Joins two rows, with elements `step` apart, to n words. odd may be NULL for zeros. */
void conv_join_row(bool bf16, const void *even, const void *odd, int64_t step, int64_t n,
                   uint32_t *to);

/* One row of several pairs of neighbouring BF16 channels. Each pair makes `left` zeros, n words,
 * and zeros up to `width`. Requires cpu_has_amx(). */
typedef struct conv_planes {
  const uint16_t *x; /* (channels, ...): first element of the first channel; NULL: all zeros */
  int64_t channels, channel; /* channel: elements per channel; missing channels are zeros */
  int64_t step;              /* between elements that are read: 1 or 2 */
  int64_t left, n, width, words;
  uint32_t *to; /* (words, width), `plane` words apart */
  int64_t plane;
} conv_planes;
/* Writes all words of a row to planes->to. */
void conv_join_planes(const conv_planes *planes);

#endif
