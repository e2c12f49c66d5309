/* Rows of BF16 between memory and what computes in floats. */
#include "backend/cpu/kernels/narrow.h"

#include "backend/cpu/kernels/avx512.h"

bool narrow_pays(void) { return cpu_has_avx512_bf16(); }

#if KERNEL_X86
TARGET_AVX512_BF16 KERNEL_INLINE __mmask16 there_of(int64_t n) {
  return n < 16 ? (__mmask16)bits_between(0, n) : 0xffff;
}

TARGET_AVX512_BF16 static void narrow_bf16(const float *from, int64_t n, uint16_t *to) {
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 there = there_of(n - i);
    _mm256_mask_storeu_epi16(
        to + i, there, (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(there, from + i)));
  }
}

TARGET_AVX512_BF16 static void widen_bf16(const uint16_t *from, int64_t n, float *to) {
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 there = there_of(n - i);
    const __m256i x = _mm256_maskz_loadu_epi16(there, from + i);
    _mm512_mask_storeu_epi32(to + i, there, _mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
  }
}

TARGET_AVX512_BF16 static void join_bf16(const uint16_t *even, const uint16_t *odd, int64_t n,
                                         uint32_t *to) {
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 there = there_of(n - i);
    __m512i word = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(there, even + i));
    if (odd)
      word = _mm512_or_si512(
          word, _mm512_slli_epi32(
                    _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(there, odd + i)), 16));
    _mm512_mask_storeu_epi32(to + i, there, word);
  }
}
#endif

void narrow_row(const float *from, int64_t n, uint16_t *to) {
#if KERNEL_X86
  if (cpu_has_avx512_bf16()) {
    narrow_bf16(from, n, to);
    return;
  }
#endif
  store_row(COMPUTE_F32, DTYPE_BF16, to, 1, n, from);
}

void widen_row(const uint16_t *from, int64_t n, float *to) {
#if KERNEL_X86
  if (cpu_has_avx512_bf16()) {
    widen_bf16(from, n, to);
    return;
  }
#endif
  load_row(COMPUTE_F32, DTYPE_BF16, from, 1, n, to);
}

void narrow_join(const uint16_t *even, const uint16_t *odd, int64_t n, uint32_t *to) {
#if KERNEL_X86
  if (cpu_has_avx512_bf16()) {
    join_bf16(even, odd, n, to);
    return;
  }
#endif
  for (int64_t i = 0; i < n; i++) to[i] = even[i] | (odd ? (uint32_t)odd[i] << 16 : 0);
}
