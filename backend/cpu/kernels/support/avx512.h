#ifndef BACKEND_CPU_KERNELS_SUPPORT_AVX512_H
#define BACKEND_CPU_KERNELS_SUPPORT_AVX512_H
/* Helpers for vectors of 16 floats, for functions marked TARGET_AVX512, and leaky_avx2. */
#include "backend/cpu/kernels/support/features.h"
#include "base/kernel.h"
#if KERNEL_X86
#include <immintrin.h>

/* Returns a mask of bits [from, to), to <= 32. */
KERNEL_INLINE uint32_t bits_between(int64_t from, int64_t to) {
  return (uint32_t)((1ull << to) - (1ull << from));
}

/* Returns a mask of the 32 columns from `column` on that exist in a row of n columns. */
KERNEL_INLINE uint32_t columns_mask(int64_t column, int64_t n) {
  const int64_t from = column < 0 ? -column : 0, to = n - column < 32 ? n - column : 32;
  return from < to ? bits_between(from, to) : 0;
}

/* Loads elements [at, at + 16) of x, which is F32, F16 or BF16, as floats. */
TARGET_AVX512 KERNEL_INLINE __m512 load_avx512(dtype t, const void *x, int64_t at) {
  if (t == DTYPE_F32) return _mm512_loadu_ps((const float *)x + at);
  const __m256i h = _mm256_loadu_si256((const void *)((const uint16_t *)x + at));
  if (t == DTYPE_F16) return _mm512_cvtph_ps(h);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

/* Like load_avx512, for the first n <= 16 elements. The other lanes are zero and are not read. */
TARGET_AVX512 KERNEL_INLINE __m512 load_some_avx512(dtype t, const void *x, int64_t at, int n) {
  uint16_t some[16] = {0};
  if (n == 16) return load_avx512(t, x, at);
  if (t == DTYPE_F32)
    return _mm512_maskz_loadu_ps((__mmask16)bits_between(0, n), (const float *)x + at);
  __builtin_memcpy(some, (const uint16_t *)x + at, (size_t)n * sizeof *some);
  return load_avx512(t, some, 0);
}

/* In builds without optimisation, the compiler's header passes a mask of the wrong sign. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
KERNEL_INLINE TARGET_AVX512 __m512 nearest_integers(__m512 x) {
  return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#pragma GCC diagnostic pop

/* Loads the BF16 elements in the mask as floats. Other lanes are zero and are not read. */
TARGET_AVX512 KERNEL_INLINE __m512 load_bf16_avx512(__mmask16 valid, const uint16_t *from) {
  const __m256i x = _mm256_maskz_loadu_epi16(valid, from);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}

/* Adds to each element of sum the dot product of four unsigned bytes of x and four signed bytes of
 * word. Uses assembly because gcc copies the sums back and forth around the intrinsic.
 * test/emulated cannot run the instruction, so it uses the intrinsic. */
TARGET_AVX512_VNNI KERNEL_INLINE __m512i add_dots_avx512(__m512i sum, __m512i x, __m512i word) {
#ifdef KERNEL_EMULATED
  return _mm512_dpbusd_epi32(sum, x, word);
#else
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(word));
  return sum;
#endif
}

/* Transposes 16 vectors of 16 elements of 32 bits. */
TARGET_AVX512 KERNEL_INLINE void transpose_avx512(__m512 v[16]) {
  __m512 t[16], u[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(v[i], v[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(v[i], v[i + 1]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 4)
#pragma GCC unroll 2
    for (int k = 0; k < 2; k++) {
      const __m512d a = _mm512_castps_pd(t[i + k]), b = _mm512_castps_pd(t[i + 2 + k]);
      u[i + 2 * k] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
      u[i + 2 * k + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
    }
#pragma GCC unroll 4
  for (int k = 0; k < 4; k++) {
    const __m512 even = _mm512_shuffle_f32x4(u[k], u[4 + k], 0x88),
                 odd = _mm512_shuffle_f32x4(u[k], u[4 + k], 0xDD),
                 more_even = _mm512_shuffle_f32x4(u[8 + k], u[12 + k], 0x88),
                 more_odd = _mm512_shuffle_f32x4(u[8 + k], u[12 + k], 0xDD);
    v[k] = _mm512_shuffle_f32x4(even, more_even, 0x88);
    v[4 + k] = _mm512_shuffle_f32x4(odd, more_odd, 0x88);
    v[8 + k] = _mm512_shuffle_f32x4(even, more_even, 0xDD);
    v[12 + k] = _mm512_shuffle_f32x4(odd, more_odd, 0xDD);
  }
}

/* Returns y > 0 ? y : y * slope. */
TARGET_AVX512 KERNEL_INLINE __m512 leaky_avx512(__m512 y, __m512 slope) {
  return _mm512_mask_mov_ps(y * slope, _mm512_cmp_ps_mask(y, _mm512_setzero_ps(), _CMP_GT_OQ), y);
}
TARGET_AVX2 KERNEL_INLINE __m256 leaky_avx2(__m256 y, __m256 slope) {
  return _mm256_blendv_ps(y * slope, y, _mm256_cmp_ps(y, _mm256_setzero_ps(), _CMP_GT_OQ));
}

/* Stores the lanes of sum that are set in `valid`, plus `added` and times *slope where it is not
 * positive, if these are not NULL, clamped to [low, high]. */
TARGET_AVX512 KERNEL_INLINE void store_limited_avx512(__m512 sum, const float *added,
                                                      const float *slope, float low, float high,
                                                      __mmask16 valid, float *to) {
  if (added) sum += _mm512_maskz_loadu_ps(valid, added);
  if (slope) sum = leaky_avx512(sum, _mm512_set1_ps(*slope));
  sum = _mm512_min_ps(_mm512_set1_ps(high), _mm512_max_ps(_mm512_set1_ps(low), sum));
  _mm512_mask_storeu_ps(to, valid, sum);
}
#endif

#endif
