#ifndef BACKEND_CPU_KERNELS_SUPPORT_AVX512_H
#define BACKEND_CPU_KERNELS_SUPPORT_AVX512_H
/* Vectors of 16 floats, for functions marked TARGET_AVX512. */
#include "backend/cpu/kernels/support/features.h"
#include "base/kernel.h"
#if KERNEL_X86
#include <immintrin.h>

/* Bits [from, to), to <= 32. */
KERNEL_INLINE uint32_t bits_between(int64_t from, int64_t to) {
  return (uint32_t)((1ull << to) - (1ull << from));
}

/* Which of 32 columns from `column` on a row of n has. */
KERNEL_INLINE uint32_t columns_there(int64_t column, int64_t n) {
  const int64_t from = column < 0 ? -column : 0, to = n - column < 32 ? n - column : 32;
  return from < to ? bits_between(from, to) : 0;
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

/* Adds to each element of sum the products of four bytes of x and four signed bytes of word. Around
 * the intrinsic gcc copies sums to and fro; test/emulated has no such instruction. */
TARGET_AVX512_VNNI KERNEL_INLINE __m512i add_dots_avx512(__m512i sum, __m512i x, __m512i word) {
#ifdef KERNEL_EMULATED
  return _mm512_dpbusd_epi32(sum, x, word);
#else
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(word));
  return sum;
#endif
}

/* 16 vectors of 16 elements of 32 bits: rows become columns. */
TARGET_AVX512 KERNEL_INLINE void turn_avx512(__m512 v[16]) {
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

/* Sums and what is added to them, limited; `added` may be absent. */
TARGET_AVX512 KERNEL_INLINE void store_limited_avx512(__m512 sum, const float *added, float low,
                                                      float high, __mmask16 there, float *to) {
  if (added) sum += _mm512_maskz_loadu_ps(there, added);
  sum = _mm512_min_ps(_mm512_set1_ps(high), _mm512_max_ps(_mm512_set1_ps(low), sum));
  _mm512_mask_storeu_ps(to, there, sum);
}
#endif

#endif
