#ifndef BACKEND_CPU_KERNELS_CONV_WORDS_H
#define BACKEND_CPU_KERNELS_CONV_WORDS_H
/* Rows of images as words of two channels (pairs.h). */
#include "backend/cpu/kernels/conv_window.h"

/* n words of two rows of F32, or of BF16, whose elements are `step` apart; odd may be NULL. */
void conv_join_row(bool is_narrow, const void *even, const void *odd, int64_t step, int64_t n,
                   uint32_t *to);

#endif
