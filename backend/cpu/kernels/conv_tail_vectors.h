#ifndef BACKEND_CPU_KERNELS_CONV_TAIL_VECTORS_H
#define BACKEND_CPU_KERNELS_CONV_TAIL_VECTORS_H
/* What follows 16 neighbouring sums of a convolution, and their store. */
#include "backend/cpu/kernels/avx512.h"
#include "backend/cpu/kernels/conv_tail.h"
#if KERNEL_X86

/* Sums with their bias; the first is element `at` of out, to: where it is stored. */
TARGET_AVX512 KERNEL_INLINE void store_tail_avx512(const conv_tail *t, __m512 sum, int64_t at,
                                                   __mmask16 there, float *to) {
  if (t->added) sum += _mm512_maskz_loadu_ps(there, (const float *)t->added + at);
  sum = _mm512_min_ps(_mm512_set1_ps(t->high), _mm512_max_ps(_mm512_set1_ps(t->low), sum));
  _mm512_mask_storeu_ps(to, there, sum);
}
#endif

#endif
