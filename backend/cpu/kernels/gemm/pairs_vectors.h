#ifndef BACKEND_CPU_KERNELS_GEMM_PAIRS_VECTORS_H
#define BACKEND_CPU_KERNELS_GEMM_PAIRS_VECTORS_H
/* Joins 16 floats of each of two rows to words of pairs.h. */
#include "backend/cpu/kernels/support/avx512.h"
#if KERNEL_X86

/* Returns the argument `order` of join_avx512, which interleaves both rows. */
TARGET_AVX512_BF16 KERNEL_INLINE __m512i join_order(void) {
  static const uint16_t turns[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                     8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return _mm512_loadu_si512(turns);
}

TARGET_AVX512_BF16 KERNEL_INLINE __m512i join_avx512(__m512 even, __m512 odd, __m512i order) {
  return _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(odd, even));
}
#endif

#endif
