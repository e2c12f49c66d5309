#ifndef BACKEND_CPU_KERNELS_CONV_CONV_WORDS_H
#define BACKEND_CPU_KERNELS_CONV_CONV_WORDS_H
/* Rows of images as words of two channels (pairs.h). */
#include "backend/cpu/kernels/conv/conv_window.h"

/* n words of two rows of BF16, or of F32, whose elements are `step` apart; odd may be NULL. */
void conv_join_row(bool bf16, const void *even, const void *odd, int64_t step, int64_t n,
                   uint32_t *to);

/* The same row of neighbouring pairs of channels of BF16: of each pair `left` zeros, n words, and
 * zeros up to `width`. Only where cpu_has_amx(). */
typedef struct conv_planes {
  const uint16_t *x; /* (channels, ...): the first element of the first one; NULL: all zeros */
  int64_t channels, channel; /* elements from one to the next; those behind the last are zeros */
  int64_t step;              /* of elements: 1 or 2 */
  int64_t left, n, width, words;
  uint32_t *to; /* (words, width): `plane` apart */
  int64_t plane;
} conv_planes;
void conv_join_planes(const conv_planes *planes);

#endif
