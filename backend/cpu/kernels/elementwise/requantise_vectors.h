#ifndef BACKEND_CPU_KERNELS_ELEMENTWISE_REQUANTISE_VECTORS_H
#define BACKEND_CPU_KERNELS_ELEMENTWISE_REQUANTISE_VECTORS_H
/* The formula of requantise_args for 16 elements in a register, and helpers for single numbers. */
#include <math.h>

#include "backend/cpu/kernels/elementwise/requantise_args.h"
#include "backend/cpu/kernels/support/avx512.h"
#include "backend/cpu/kernels/support/features.h"
#if KERNEL_X86
#include <immintrin.h>
#endif

static inline float requantise_number(const requantise_factor *factor, int64_t channel) {
  return factor->of_channel ? factor->of_channel[channel] : factor->number;
}

/* Clamp x as the elementwise steps do, which pass NaN. */
static inline float larger_float(float low, float x) { return low > x ? low : x; }
static inline float smaller_float(float high, float x) { return high < x ? high : x; }

#if KERNEL_X86
#define FORMULA(name) requantise_vectors_##name
#define FORMULA_TARGET TARGET_AVX512
#define FORMULA_NUMBER __m512
#define FORMULA_FILL _mm512_set1_ps
#define FORMULA_NEAREST nearest_integers
#define FORMULA_MAX _mm512_max_ps
#define FORMULA_MIN _mm512_min_ps
#define FORMULA_HAS(changes) (changes)
#include "backend/cpu/kernels/elementwise/requantise_formula.h"

typedef requantise_vectors_numbers requantise_vectors;

/* True if there is one term without a zero point and no clamp to [low, high], as after most
 * convolutions. requantise_plain makes this known to the compiler. */
KERNEL_INLINE TARGET_AVX512 bool requantise_is_plain(const requantise_vectors *vectors) {
  return !vectors->has_other && !vectors->has_low && !vectors->has_high &&
         !vectors->terms[0].has_zero;
}
KERNEL_INLINE TARGET_AVX512 requantise_vectors requantise_plain(requantise_vectors v) {
  v.has_other = v.has_low = v.has_high = v.terms[0].has_zero = false;
  return v;
}

/* Loads 16 elements of a term: F32, I32, I8 or U8. */
KERNEL_INLINE TARGET_AVX512 __m512 requantise_load(dtype t, const void *x) {
  if (t == DTYPE_F32) return _mm512_loadu_ps(x);
  if (t == DTYPE_I32) return _mm512_cvtepi32_ps(_mm512_loadu_si512(x));
  const __m128i bytes = _mm_loadu_si128(x);
  return _mm512_cvtepi32_ps(t == DTYPE_I8 ? _mm512_cvtepi8_epi32(bytes)
                                          : _mm512_cvtepu8_epi32(bytes));
}

/* Loads the elements whose bits are set in `some`; the others are 0. */
KERNEL_INLINE TARGET_AVX512_VNNI __m512 requantise_load_some(dtype t, const void *x,
                                                             __mmask16 some) {
  if (t == DTYPE_F32) return _mm512_maskz_loadu_ps(some, x);
  if (t == DTYPE_I32) return _mm512_cvtepi32_ps(_mm512_maskz_loadu_epi32(some, x));
  const __m128i bytes = _mm512_castsi512_si128(_mm512_maskz_loadu_epi8(some, x));
  return _mm512_cvtepi32_ps(t == DTYPE_I8 ? _mm512_cvtepi8_epi32(bytes)
                                          : _mm512_cvtepu8_epi32(bytes));
}

/* Returns the codes of 16 elements of each term. An absent term's elements are ignored. */
KERNEL_INLINE TARGET_AVX512 __m128i requantise_vector(const requantise_vectors *vectors,
                                                      __m512 first, __m512 other) {
  return _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(requantise_vectors_code(vectors, first, other)));
}

/* True if saturation to unsigned bytes equals the clamp to [least, greatest]. */
static inline bool requantise_saturates(const requantise_args *args) {
  return args->type == DTYPE_U8 && args->least == 0 && args->greatest == 255;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
/* Returns whole numbers of 32 bits, not clamped from below; saturation makes them codes. */
KERNEL_INLINE TARGET_AVX512 __m512i requantise_whole(const requantise_vectors *vectors,
                                                     __m512 first, __m512 other) {
  __m512 x = requantise_vectors_scaled(vectors, first, other);
  if (vectors->has_zero) x = _mm512_add_ps(nearest_integers(x), vectors->zero);
  return _mm512_cvt_roundps_epi32(_mm512_min_ps(vectors->greatest, x),
                                  _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#pragma GCC diagnostic pop

/* Packs four vectors to 64 codes. The pack instructions work on each 128 bits separately. */
KERNEL_INLINE TARGET_AVX512 __m512i requantise_pack(const __m512i x[4]) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i low = _mm512_packs_epi32(x[0], x[1]), high = _mm512_packs_epi32(x[2], x[3]);
  return _mm512_permutexvar_epi32(order, _mm512_packus_epi16(low, high));
}
#endif

#endif
