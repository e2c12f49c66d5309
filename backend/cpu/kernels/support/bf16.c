/* Converts rows of BF16 and computes with them in floats. The AVX-512 loops use whole vectors, the
 * last of which overlaps the one before, because masked stores of 16-bit elements are slow (Zen 4
 * and 5). Rows shorter than a vector use masks. */
#include "backend/cpu/kernels/support/bf16.h"

#include "backend/cpu/kernels/support/avx512.h"
#include "base/counts.h"

bool bf16_is_fast(void) { return cpu_has_avx512_bf16(); }

#if KERNEL_X86
enum { LANES = 16 };

/* Returns the start of the vector that contains element i of n; the last vector ends at n. */
KERNEL_INLINE int64_t kernel_bf16_vector_at(int64_t i, int64_t n) { return min_i64(i, n - LANES); }
KERNEL_INLINE __mmask16 kernel_bf16_first_of(int64_t n) { return (__mmask16)bits_between(0, n); }

TARGET_AVX512_BF16 KERNEL_INLINE __m512 kernel_bf16_widened(const uint16_t *x) {
  return load_avx512(DTYPE_BF16, x, 0);
}
TARGET_AVX512_BF16 KERNEL_INLINE void kernel_bf16_store(uint16_t *to, __m512 x) {
  _mm256_storeu_si256((void *)to, (__m256i)_mm512_cvtneps_pbh(x));
}

TARGET_AVX512_BF16 KERNEL_INLINE void convert_one(const float *from, int64_t n, uint16_t *to) {
  if (n < LANES) {
    const __m512 x = _mm512_maskz_loadu_ps(kernel_bf16_first_of(n), from);
    _mm256_mask_storeu_epi16(to, kernel_bf16_first_of(n), (__m256i)_mm512_cvtneps_pbh(x));
    return;
  }
  for (int64_t i = 0; i < n; i += LANES) {
    const int64_t at = kernel_bf16_vector_at(i, n);
    kernel_bf16_store(to + at, _mm512_loadu_ps(from + at));
  }
}

TARGET_AVX512_BF16 static void rows_to_bf16_avx512(const float *from, int64_t rows, int64_t n,
                                                   uint16_t *to, int64_t stride) {
  for (int64_t i = 0; i < rows; i++) convert_one(from + i * n, n, to + i * stride);
}

TARGET_AVX512_BF16 static void kernel_bf16_widen(const uint16_t *from, int64_t n, float *to) {
  if (n < LANES) {
    _mm512_mask_storeu_ps(to, kernel_bf16_first_of(n),
                          load_bf16_avx512(kernel_bf16_first_of(n), from));
    return;
  }
  for (int64_t i = 0; i < n; i += LANES) {
    const int64_t at = kernel_bf16_vector_at(i, n);
    _mm512_storeu_ps(to + at, kernel_bf16_widened(from + at));
  }
}

/* Joins LANES words from the elements of two rows that are set in `some`. odd: NULL for zeros. */
TARGET_AVX512_BF16 KERNEL_INLINE __m512i joined(const uint16_t *even, const uint16_t *odd,
                                                __mmask16 some) {
  const __m512i low = _mm512_cvtepu16_epi32(some == 0xffff ? _mm256_loadu_si256((const void *)even)
                                                           : _mm256_maskz_loadu_epi16(some, even));
  if (!odd) return low;
  const __m512i high = _mm512_cvtepu16_epi32(some == 0xffff ? _mm256_loadu_si256((const void *)odd)
                                                            : _mm256_maskz_loadu_epi16(some, odd));
  return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

TARGET_AVX512_BF16 KERNEL_INLINE void join_row(const uint16_t *even, const uint16_t *odd, int64_t n,
                                               uint32_t *to) {
  if (n < LANES) {
    _mm512_mask_storeu_epi32(to, kernel_bf16_first_of(n),
                             joined(even, odd, kernel_bf16_first_of(n)));
    return;
  }
  for (int64_t i = 0; i < n; i += LANES) {
    const int64_t at = kernel_bf16_vector_at(i, n);
    _mm512_storeu_si512(to + at, joined(even + at, odd ? odd + at : NULL, 0xffff));
  }
}

TARGET_AVX512_BF16 static void kernel_bf16_join(const uint16_t *even, const uint16_t *odd,
                                                int64_t n, uint32_t *to) {
  join_row(even, odd, n, to);
}

TARGET_AVX512_BF16 static void join_panels_bf16(const uint16_t *x, int64_t stride, int64_t rows,
                                                int64_t n, int64_t width, uint32_t *to) {
  const int64_t words = (rows + 1) / 2;
  for (int64_t i = 0; i < words; i++, x += 2 * stride)
    for (int64_t column = 0; column < n; column += width)
      join_row(x + column, 2 * i + 1 < rows ? x + stride + column : NULL,
               min_i64(width, n - column), to + column * words + i * width);
}

/* Loads elements 0, 2, ..., 2 n - 2 into the low halves of words. Reads nothing after the last. */
TARGET_AVX512_BF16 KERNEL_INLINE __m512i low_halves(const uint16_t *x, int64_t n) {
  const __mmask32 valid = bits_between(0, 2 * n - 1);
  const __m512i words = _mm512_maskz_loadu_epi16(valid, x);
  return _mm512_and_si512(words, _mm512_set1_epi32(0xffff));
}

TARGET_AVX512_BF16 static void join_halves_bf16(const uint16_t *even, const uint16_t *odd,
                                                int64_t n, uint32_t *to) {
  for (int64_t i = 0; i < n; i += LANES) {
    const int64_t some = min_i64(LANES, n - i);
    __m512i word = low_halves(even + 2 * i, some);
    if (odd) word = _mm512_or_si512(word, _mm512_slli_epi32(low_halves(odd + 2 * i, some), 16));
    _mm512_mask_storeu_epi32(to + i, kernel_bf16_first_of(some), word);
  }
}

TARGET_AVX512_BF16 static double kernel_bf16_sum(const uint16_t *x, int64_t n) {
  __m512d low = _mm512_setzero_pd(), high = _mm512_setzero_pd();
  for (int64_t i = 0; i < n; i += LANES) {
    const __m512 some = n - i < LANES ? load_bf16_avx512(kernel_bf16_first_of(n - i), x + i)
                                      : kernel_bf16_widened(x + i);
    low += _mm512_cvtps_pd(_mm512_castps512_ps256(some));
    high += _mm512_cvtps_pd(_mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(some), 1)));
  }
  return _mm512_reduce_add_pd(low + high);
}

TARGET_AVX512_BF16 static void moments_bf16(const uint16_t *x, int64_t n, float shift,
                                            double sums[2]) {
  const __m512 by = _mm512_set1_ps(shift);
  __m512 sum[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()}, squares[2] = {sum[0], sum[0]};
  int64_t i = 0;
  for (; i + 2 * LANES <= n; i += 2 * LANES)
#pragma GCC unroll 2
    for (int k = 0; k < 2; k++) {
      const __m512 some = kernel_bf16_widened(x + i + k * LANES) - by;
      sum[k] += some;
      squares[k] = _mm512_fmadd_ps(some, some, squares[k]);
    }
  for (; i < n; i += LANES) {
    const __mmask16 valid = kernel_bf16_first_of(min_i64(LANES, n - i));
    const __m512 some = _mm512_maskz_sub_ps(valid, load_bf16_avx512(valid, x + i), by);
    sum[0] += some;
    squares[0] = _mm512_fmadd_ps(some, some, squares[0]);
  }
  sums[0] += (double)_mm512_reduce_add_ps(sum[0] + sum[1]);
  sums[1] += (double)_mm512_reduce_add_ps(squares[0] + squares[1]);
}

TARGET_AVX512_BF16 static void shift_bf16(const uint16_t *x, int64_t n, float scale, float shift,
                                          float *to) {
  const __m512 a = _mm512_set1_ps(scale), b = _mm512_set1_ps(shift);
  for (int64_t i = 0; i < n; i += LANES) {
    const __mmask16 valid = kernel_bf16_first_of(min_i64(LANES, n - i));
    _mm512_mask_storeu_ps(to + i, valid, _mm512_fmadd_ps(load_bf16_avx512(valid, x + i), a, b));
  }
}

TARGET_AVX512_BF16 static void combine_bf16(bool multiplies, const uint16_t *x, int64_t n,
                                            float number, uint16_t *to) {
  const __m512 by = _mm512_set1_ps(number);
  if (n < LANES) {
    const __m512 some = load_bf16_avx512(kernel_bf16_first_of(n), x);
    _mm256_mask_storeu_epi16(to, kernel_bf16_first_of(n),
                             (__m256i)_mm512_cvtneps_pbh(multiplies ? some * by : some + by));
    return;
  }
  for (int64_t i = 0; i < n; i += LANES) {
    const int64_t at = kernel_bf16_vector_at(i, n);
    const __m512 some = kernel_bf16_widened(x + at);
    kernel_bf16_store(to + at, multiplies ? some * by : some + by);
  }
}

enum { HALVES = 32 };
KERNEL_INLINE __mmask32 first_halves(int64_t n) { return bits_between(0, min_i64(HALVES, n)); }

/* Converts between BF16 and integers of the same order. It inverts all bits except the sign of
 * negative numbers, and so is its own inverse. */
TARGET_AVX512_BF16 KERNEL_INLINE __m512i ordered_bits(__m512i x) {
  return _mm512_xor_si512(x, _mm512_srli_epi16(_mm512_srai_epi16(x, 15), 1));
}

TARGET_AVX512_BF16 static void larger_bf16(const uint16_t *x, int64_t n, int16_t *y) {
  const __m512i bits = _mm512_set1_epi16(0x7fff), infinite = _mm512_set1_epi16(0x7f80);
  for (int64_t i = 0; i < n; i += HALVES) {
    const __mmask32 valid = first_halves(n - i);
    const __m512i some = _mm512_maskz_loadu_epi16(valid, x + i);
    const __mmask32 none = _mm512_cmpgt_epi16_mask(_mm512_and_si512(some, bits), infinite);
    const __m512i order = _mm512_mask_mov_epi16(ordered_bits(some), none, bits);
    _mm512_mask_storeu_epi16(y + i, valid,
                             _mm512_max_epi16(order, _mm512_maskz_loadu_epi16(valid, y + i)));
  }
}

TARGET_AVX512_BF16 static void larger_halves_bf16(const int16_t *x, int64_t n, int16_t *y) {
  for (int64_t i = 0; i < n; i += LANES) {
    const int64_t some = min_i64(LANES, n - i);
    const __m512i words = _mm512_maskz_loadu_epi16(bits_between(0, 2 * some - 1), x + 2 * i);
    const __mmask16 valid = kernel_bf16_first_of(some);
    const __m256i old = _mm256_maskz_loadu_epi16(valid, y + i);
    _mm256_mask_storeu_epi16(y + i, valid, _mm256_max_epi16(_mm512_cvtepi32_epi16(words), old));
  }
}

TARGET_AVX512_BF16 static void ordered_bf16(const int16_t *x, int64_t n, uint16_t *to) {
  for (int64_t i = 0; i < n; i += HALVES) {
    const __mmask32 valid = first_halves(n - i);
    _mm512_mask_storeu_epi16(to + i, valid, ordered_bits(_mm512_maskz_loadu_epi16(valid, x + i)));
  }
}
#endif

/* ---------------------------------------------------------------- any processor */

static void kernel_bf16_join_portable(const uint16_t *even, const uint16_t *odd, int64_t stride,
                                      int64_t n, uint32_t *to) {
  for (int64_t i = 0; i < n; i++)
    to[i] = even[i * stride] | (odd ? (uint32_t)odd[i * stride] << 16 : 0);
}

void rows_to_bf16(const float *from, int64_t rows, int64_t n, uint16_t *to, int64_t stride) {
#if KERNEL_X86
  if (cpu_has_avx512_bf16()) {
    rows_to_bf16_avx512(from, rows, n, to, stride);
    return;
  }
#endif
  for (int64_t i = 0; i < rows; i++)
    store_row(COMPUTE_F32, DTYPE_BF16, to + i * stride, 1, n, from + i * n);
}

void row_to_bf16(const float *from, int64_t n, uint16_t *to) { rows_to_bf16(from, 1, n, to, n); }

void widen_row(const uint16_t *from, int64_t n, float *to) {
#if KERNEL_X86
  if (cpu_has_avx512_bf16()) {
    kernel_bf16_widen(from, n, to);
    return;
  }
#endif
  load_row(COMPUTE_F32, DTYPE_BF16, from, 1, n, to);
}

void bf16_join(const uint16_t *even, const uint16_t *odd, int64_t n, uint32_t *to) {
#if KERNEL_X86
  if (cpu_has_avx512_bf16()) {
    kernel_bf16_join(even, odd, n, to);
    return;
  }
#endif
  kernel_bf16_join_portable(even, odd, 1, n, to);
}

void bf16_join_halves(const uint16_t *even, const uint16_t *odd, int64_t n, uint32_t *to) {
#if KERNEL_X86
  if (cpu_has_avx512_bf16()) {
    join_halves_bf16(even, odd, n, to);
    return;
  }
#endif
  kernel_bf16_join_portable(even, odd, 2, n, to);
}

void bf16_join_panels(const uint16_t *x, int64_t stride, int64_t rows, int64_t n, int64_t width,
                      uint32_t *to) {
#if KERNEL_X86
  if (cpu_has_avx512_bf16()) {
    join_panels_bf16(x, stride, rows, n, width, to);
    return;
  }
#endif
  const int64_t words = (rows + 1) / 2;
  for (int64_t i = 0; i < words; i++, x += 2 * stride)
    for (int64_t column = 0; column < n; column += width)
      kernel_bf16_join_portable(x + column, 2 * i + 1 < rows ? x + stride + column : NULL, 1,
                                min_i64(width, n - column), to + column * words + i * width);
}

double bf16_sum(const uint16_t *x, int64_t n) {
#if KERNEL_X86
  if (cpu_has_avx512_bf16()) return kernel_bf16_sum(x, n);
#endif
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += (double)bf16_to_f32(x[i]);
  return sum;
}

void bf16_moments(const uint16_t *x, int64_t n, float shift, double sums[2]) {
  enum { MOMENTS = 1024 };
#if KERNEL_X86
  for (int64_t i = 0; cpu_has_avx512_bf16() && i < n; i += MOMENTS)
    moments_bf16(x + i, min_i64(MOMENTS, n - i), shift, sums);
  if (cpu_has_avx512_bf16()) return;
#endif
  for (int64_t i = 0; i < n; i++) {
    const double some = (double)bf16_to_f32(x[i]) - (double)shift;
    sums[0] += some;
    sums[1] += some * some;
  }
}

void bf16_shift(const uint16_t *x, int64_t n, float scale, float shift, float *to) {
#if KERNEL_X86
  if (cpu_has_avx512_bf16()) {
    shift_bf16(x, n, scale, shift, to);
    return;
  }
#endif
  for (int64_t i = 0; i < n; i++) to[i] = bf16_to_f32(x[i]) * scale + shift;
}

void bf16_combine(bool multiplies, const uint16_t *x, int64_t n, float number, uint16_t *to) {
#if KERNEL_X86
  if (cpu_has_avx512_bf16()) {
    combine_bf16(multiplies, x, n, number, to);
    return;
  }
#endif
  for (int64_t i = 0; i < n; i++) {
    const float some = bf16_to_f32(x[i]);
    to[i] = f32_to_bf16(multiplies ? some * number : some + number);
  }
}

static int16_t kernel_bf16_order_of(uint16_t x) {
  if ((x & 0x7fff) > 0x7f80) return 0x7fff;
  return (int16_t)(x & 0x8000 ? x ^ 0x7fff : x);
}

void bf16_larger(const uint16_t *x, int64_t n, int16_t *y) {
#if KERNEL_X86
  if (cpu_has_avx512_bf16()) {
    larger_bf16(x, n, y);
    return;
  }
#endif
  for (int64_t i = 0; i < n; i++)
    y[i] = kernel_bf16_order_of(x[i]) > y[i] ? kernel_bf16_order_of(x[i]) : y[i];
}

void bf16_larger_halves(const int16_t *x, int64_t n, int16_t *y) {
#if KERNEL_X86
  if (cpu_has_avx512_bf16()) {
    larger_halves_bf16(x, n, y);
    return;
  }
#endif
  for (int64_t i = 0; i < n; i++) y[i] = x[2 * i] > y[i] ? x[2 * i] : y[i];
}

void bf16_ordered(const int16_t *x, int64_t n, uint16_t *to) {
#if KERNEL_X86
  if (cpu_has_avx512_bf16()) {
    ordered_bf16(x, n, to);
    return;
  }
#endif
  for (int64_t i = 0; i < n; i++) to[i] = (uint16_t)(x[i] < 0 ? x[i] ^ 0x7fff : x[i]);
}
