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

/* Elements of BF16 as floats; those that are not there are zeros, and are not read. */
TARGET_AVX512 KERNEL_INLINE __m512 load_narrow_avx512(__mmask16 there, const uint16_t *from) {
  const __m256i x = there == 0xffff ? _mm256_loadu_si256((const void *)from)
                                    : _mm256_maskz_loadu_epi16(there, from);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}

/* Rounds to BF16, ties to even; what is no number stays that. */
TARGET_AVX512 KERNEL_INLINE __m256i narrow_avx512(__m512 x) {
  const __m512i bits = _mm512_castps_si512(x), odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1)),
                rounded = _mm512_add_epi32(_mm512_add_epi32(bits, odd), _mm512_set1_epi32(0x7fff));
  const __mmask16 none = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  const __m512i quiet = _mm512_mask_or_epi32(rounded, none, bits, _mm512_set1_epi32(1 << 22));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(quiet, 16));
}

/* Where sums are stored, limited, with what is added to them, which may be absent. */
typedef struct limited_store {
  const void *added;
  void *out;
  bool added_is_narrow, out_is_narrow; /* BF16 (narrow.h), else F32 */
  float low, high;
} limited_store;

/* As elements [at, at + 16) that are there. */
TARGET_AVX512 KERNEL_INLINE void store_limited_avx512(const limited_store *to, __m512 sum,
                                                      int64_t at, __mmask16 there) {
  if (to->added && to->added_is_narrow)
    sum += load_narrow_avx512(there, (const uint16_t *)to->added + at);
  else if (to->added)
    sum += _mm512_maskz_loadu_ps(there, (const float *)to->added + at);
  sum = _mm512_min_ps(_mm512_set1_ps(to->high), _mm512_max_ps(_mm512_set1_ps(to->low), sum));
  if (to->out_is_narrow && there == 0xffff) /* what has a mask is slow */
    _mm256_storeu_si256((void *)((uint16_t *)to->out + at), narrow_avx512(sum));
  else if (to->out_is_narrow)
    _mm256_mask_storeu_epi16((uint16_t *)to->out + at, there, narrow_avx512(sum));
  else
    _mm512_mask_storeu_ps((float *)to->out + at, there, sum);
}
#endif

#endif
