#ifndef BACKEND_CPU_KERNELS_AVX512_H
#define BACKEND_CPU_KERNELS_AVX512_H
/* Vectors of 16 floats, for functions marked TARGET_AVX512. */
#include "backend/cpu/kernels/features.h"
#include "base/kernel.h"
#if KERNEL_X86
#include <immintrin.h>

/* Bits [from, to), to <= 32. */
KERNEL_INLINE uint32_t bits_between(int64_t from, int64_t to) {
  return (uint32_t)((1ull << to) - (1ull << from));
}

/* Elements [at, at + 16) of x, of F32, F16 or BF16, as floats. */
TARGET_AVX512 KERNEL_INLINE __m512 load_avx512(dtype t, const void *x, int64_t at) {
  if (t == DTYPE_F32) return _mm512_loadu_ps((const float *)x + at);
  const __m256i h = _mm256_loadu_si256((const void *)((const uint16_t *)x + at));
  if (t == DTYPE_F16) return _mm512_cvtph_ps(h);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

/* The first n <= 16 of them; the others are zeros, and are not read. */
TARGET_AVX512 KERNEL_INLINE __m512 load_some_avx512(dtype t, const void *x, int64_t at, int n) {
  uint16_t some[16] = {0};
  if (n == 16) return load_avx512(t, x, at);
  if (t == DTYPE_F32)
    return _mm512_maskz_loadu_ps((__mmask16)bits_between(0, n), (const float *)x + at);
  __builtin_memcpy(some, (const uint16_t *)x + at, (size_t)n * sizeof *some);
  return load_avx512(t, some, 0);
}

/* The compiler's header has a mask of the wrong sign where nothing is optimised. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
KERNEL_INLINE TARGET_AVX512 __m512 nearest_integers(__m512 x) {
  return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#pragma GCC diagnostic pop

/* Elements of BF16 as floats; those that are not there are zeros, and are not read. */
TARGET_AVX512 KERNEL_INLINE __m512 load_narrow_avx512(__mmask16 there, const uint16_t *from) {
  const __m256i x = _mm256_maskz_loadu_epi16(there, from);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}

/* Sums and what is added to them, limited; `added` may be absent. */
TARGET_AVX512 KERNEL_INLINE void store_limited_avx512(__m512 sum, const float *added, float low,
                                                      float high, __mmask16 there, float *to) {
  if (added) sum += _mm512_maskz_loadu_ps(there, added);
  sum = _mm512_min_ps(_mm512_set1_ps(high), _mm512_max_ps(_mm512_set1_ps(low), sum));
  _mm512_mask_storeu_ps(to, there, sum);
}
#endif

#endif
