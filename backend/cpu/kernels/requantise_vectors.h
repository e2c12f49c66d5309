#ifndef BACKEND_CPU_KERNELS_REQUANTISE_VECTORS_H
#define BACKEND_CPU_KERNELS_REQUANTISE_VECTORS_H
/* requantise_args over 16 sums in a register, as requantise.c computes them: each operation in F32,
 * in that order. */
#include <math.h>

#include "backend/cpu/kernels/features.h"
#include "backend/cpu/kernels/requantise_args.h"
#if KERNEL_X86
#include <immintrin.h>
#endif

static inline float requantise_number(const requantise_factor *f, int64_t channel) {
  return f->of_channel ? f->of_channel[channel] : f->number;
}

#if KERNEL_X86
typedef struct affine_vectors {
  bool has_zero, has_bias;
  __m512 zero, scale, bias;
} affine_vectors;

/* The numbers of one channel, and which of the operations change anything. */
typedef struct requantise_vectors {
  affine_vectors terms[2];
  bool has_other; /* terms[1] */
  bool has_low, has_high, has_zero;
  __m512 low, high, inverse, zero, least, greatest;
} requantise_vectors;

KERNEL_INLINE TARGET_AVX512 affine_vectors affine_vectors_of(const requantise_term *t,
                                                             int64_t channel) {
  return (affine_vectors){t->zero != 0, t->bias.of_channel || t->bias.number != 0,
                          _mm512_set1_ps(t->zero),
                          _mm512_set1_ps(requantise_number(&t->scale, channel)),
                          _mm512_set1_ps(requantise_number(&t->bias, channel))};
}

KERNEL_INLINE TARGET_AVX512 void requantise_set_channel(requantise_vectors *v,
                                                        const requantise_args *p, int64_t channel) {
  v->terms[0] = affine_vectors_of(&p->terms[0], channel);
  if (v->has_other) v->terms[1] = affine_vectors_of(&p->terms[1], channel);
}

KERNEL_INLINE TARGET_AVX512 requantise_vectors requantise_vectors_of(const requantise_args *p,
                                                                     int64_t channel) {
  requantise_vectors v = {.has_other = p->terms[1].x != NULL,
                          .has_low = p->low != -INFINITY,
                          .has_high = p->high != INFINITY,
                          .has_zero = p->zero != 0,
                          .low = _mm512_set1_ps(p->low),
                          .high = _mm512_set1_ps(p->high),
                          .inverse = _mm512_set1_ps(p->inverse),
                          .zero = _mm512_set1_ps(p->zero),
                          .least = _mm512_set1_ps(p->least),
                          .greatest = _mm512_set1_ps(p->greatest)};
  requantise_set_channel(&v, p, channel);
  return v;
}

/* Whether it is as after most convolutions; and the same where the compiler knows that it is. */
KERNEL_INLINE TARGET_AVX512 bool requantise_is_plain(const requantise_vectors *v) {
  return !v->has_other && !v->has_low && !v->has_high && !v->terms[0].has_zero;
}
KERNEL_INLINE TARGET_AVX512 requantise_vectors requantise_plain(requantise_vectors v) {
  v.has_other = v.has_low = v.has_high = v.terms[0].has_zero = false;
  return v;
}

KERNEL_INLINE TARGET_AVX512 __m512 affine_value(const affine_vectors *t, __m512 x) {
  if (t->has_zero) x = _mm512_sub_ps(x, t->zero);
  x = _mm512_mul_ps(x, t->scale);
  return t->has_bias ? _mm512_add_ps(x, t->bias) : x;
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

/* The compiler's header has a mask of the wrong sign where nothing is optimised. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
KERNEL_INLINE TARGET_AVX512 __m512 nearest_integers(__m512 x) {
  return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#pragma GCC diagnostic pop

/* Codes of elements of terms[0] and of terms[1], which are of no matter where there are none. */
KERNEL_INLINE TARGET_AVX512 __m128i requantise_vector(const requantise_vectors *v, __m512 first,
                                                      __m512 other) {
  __m512 x = affine_value(&v->terms[0], first);
  if (v->has_other) x = _mm512_add_ps(x, affine_value(&v->terms[1], other));
  /* The second operand of a limit is what NaN gives: NaN passes. */
  if (v->has_low) x = _mm512_max_ps(v->low, x);
  if (v->has_high) x = _mm512_min_ps(v->high, x);
  x = nearest_integers(_mm512_mul_ps(x, v->inverse));
  if (v->has_zero) x = _mm512_add_ps(x, v->zero);
  x = _mm512_min_ps(v->greatest, _mm512_max_ps(v->least, x));
  return _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(x));
}
#endif

#endif
