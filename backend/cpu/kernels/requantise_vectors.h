#ifndef BACKEND_CPU_KERNELS_REQUANTISE_VECTORS_H
#define BACKEND_CPU_KERNELS_REQUANTISE_VECTORS_H
/* requantise_args over 16 sums in a register, as requantise.c computes them: each operation in F32,
 * in that order. */
#include "backend/cpu/kernels/features.h"
#include "backend/cpu/kernels/requantise.h"
#if KERNEL_X86
#include <immintrin.h>
#endif

static inline float requantise_number(const requantise_factor *f, int64_t channel) {
  return f->of_channel ? f->of_channel[channel] : f->number;
}

#if KERNEL_X86
typedef struct affine_vectors {
  __m512 zero, scale, bias;
} affine_vectors;

/* The numbers of one channel. */
typedef struct requantise_vectors {
  affine_vectors terms[2];
  bool has_other; /* terms[1] */
  __m512 low, high, inverse, zero, least, greatest;
} requantise_vectors;

KERNEL_INLINE TARGET_AVX512 affine_vectors affine_vectors_of(const requantise_term *t,
                                                             int64_t channel) {
  return (affine_vectors){_mm512_set1_ps(t->zero),
                          _mm512_set1_ps(requantise_number(&t->scale, channel)),
                          _mm512_set1_ps(requantise_number(&t->bias, channel))};
}

KERNEL_INLINE TARGET_AVX512 requantise_vectors requantise_vectors_of(const requantise_args *p,
                                                                     int64_t channel) {
  requantise_vectors v = {.has_other = p->terms[1].x != NULL,
                          .low = _mm512_set1_ps(p->low),
                          .high = _mm512_set1_ps(p->high),
                          .inverse = _mm512_set1_ps(p->inverse),
                          .zero = _mm512_set1_ps(p->zero),
                          .least = _mm512_set1_ps(p->least),
                          .greatest = _mm512_set1_ps(p->greatest)};
  v.terms[0] = affine_vectors_of(&p->terms[0], channel);
  v.terms[1] = affine_vectors_of(&p->terms[1], channel);
  return v;
}

KERNEL_INLINE TARGET_AVX512 __m512 affine_value(const affine_vectors *t, __m512 x) {
  return _mm512_add_ps(_mm512_mul_ps(_mm512_sub_ps(x, t->zero), t->scale), t->bias);
}

/* The second operand of both is what NaN gives: NaN passes. */
KERNEL_INLINE TARGET_AVX512 __m512 clamp_vector(__m512 x, __m512 low, __m512 high) {
  return _mm512_min_ps(high, _mm512_max_ps(low, x));
}

/* 16 elements of a term: F32, I32, I8 or U8. */
KERNEL_INLINE TARGET_AVX512 __m512 requantise_load(dtype t, const void *x) {
  if (t == DTYPE_F32) return _mm512_loadu_ps(x);
  if (t == DTYPE_I32) return _mm512_cvtepi32_ps(_mm512_loadu_si512(x));
  const __m128i bytes = _mm_loadu_si128(x);
  return _mm512_cvtepi32_ps(t == DTYPE_I8 ? _mm512_cvtepi8_epi32(bytes)
                                          : _mm512_cvtepu8_epi32(bytes));
}

/* Those of the elements that bits of `some` stand for. */
KERNEL_INLINE TARGET_AVX512_VNNI __m512 requantise_load_some(dtype t, const void *x,
                                                             __mmask16 some) {
  if (t == DTYPE_F32) return _mm512_maskz_loadu_ps(some, x);
  if (t == DTYPE_I32) return _mm512_cvtepi32_ps(_mm512_maskz_loadu_epi32(some, x));
  const __m128i bytes = _mm512_castsi512_si128(_mm512_maskz_loadu_epi8(some, x));
  return _mm512_cvtepi32_ps(t == DTYPE_I8 ? _mm512_cvtepi8_epi32(bytes)
                                          : _mm512_cvtepu8_epi32(bytes));
}

/* Codes of elements of terms[0] and of terms[1], which are of no matter where there are none. */
KERNEL_INLINE TARGET_AVX512 __m128i requantise_vector(const requantise_vectors *v, __m512 first,
                                                      __m512 other) {
  enum { NEAREST_EVEN = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC };
  __m512 x = affine_value(&v->terms[0], first);
  if (v->has_other) x = _mm512_add_ps(x, affine_value(&v->terms[1], other));
  x = _mm512_mul_ps(clamp_vector(x, v->low, v->high), v->inverse);
  x = _mm512_add_ps(_mm512_roundscale_ps(x, NEAREST_EVEN), v->zero);
  x = clamp_vector(x, v->least, v->greatest);
  return _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(x));
}
#endif

#endif
