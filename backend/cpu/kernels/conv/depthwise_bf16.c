/* Depthwise convolution of BF16 planes in place. A vector of 32 elements is 16 words. A shift and a
 * mask extract their low and high halves, the even and the odd elements, as floats. So the sums of
 * a row are in two vectors, of even and of odd columns, which are interleaved when stored. Loop
 * order: rows of outputs, columns, rows of inputs, taps. */
#include "backend/cpu/kernels/conv/depthwise_bf16.h"

#include "backend/cpu/kernels/support/avx512.h"
#include "base/counts.h"

#if KERNEL_X86
enum { ROWS = 4, LANES = 16, MAX_TAPS = DEPTHWISE_MAX_SIDE * DEPTHWISE_MAX_SIDE };

/* Loads side + 1 elements, from `left` on, for every other output of a row. Outputs in even columns
 * read in[j], those in odd columns in[j + 1]. */
TARGET_AVX512_BF16 KERNEL_INLINE void load_row_of(const depthwise_strip *strip, const uint16_t *row,
                                                  int64_t left, const int side, bool whole,
                                                  __m512 *in) {
#pragma GCC unroll 3
  for (int j = 0; j <= side; j += 2) {
    const int64_t at = left + j, from = at < 0 ? -at : 0,
                  to = min_i64(2 * LANES, strip->in_columns - at);
    const uint16_t *first = (const uint16_t *)((uintptr_t)row + (uintptr_t)at * sizeof *row);
    const __m512i words =
        whole ? _mm512_loadu_si512(first)
              : _mm512_maskz_loadu_epi16(from < to ? bits_between(from, to) : 0, first);
    in[j] = _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
    in[j + 1] = _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32((int)0xffff0000u)));
  }
}

TARGET_AVX512_BF16 KERNEL_INLINE __m512 limited(const depthwise_strip *strip, __m512 sum) {
  sum += _mm512_set1_ps(strip->bias);
  return _mm512_min_ps(_mm512_set1_ps(strip->epilogue.high),
                       _mm512_max_ps(_mm512_set1_ps(strip->epilogue.low), sum));
}

/* Stores the first n of 16 outputs from element `at` on. */
TARGET_AVX512_BF16 KERNEL_INLINE void depthwise_bf16_store_some(const depthwise_strip *strip,
                                                                __m512 y, int64_t at, int64_t n) {
  const __mmask16 valid = n >= LANES ? 0xffff : (__mmask16)bits_between(0, n > 0 ? n : 0);
  if (!strip->bf16_out)
    _mm512_mask_storeu_ps(strip->out + at, valid, y);
  else if (n >= LANES)
    _mm256_storeu_si256((void *)(strip->bf16_out + at), (__m256i)_mm512_cvtneps_pbh(y));
  else
    _mm256_mask_storeu_epi16(strip->bf16_out + at, valid, (__m256i)_mm512_cvtneps_pbh(y));
}

/* Interleaves even and odd columns and stores them from `column` on, in row y of the strip. */
TARGET_AVX512_BF16 KERNEL_INLINE void store_interleaved(const depthwise_strip *strip,
                                                        const __m512 *sums, int64_t y,
                                                        int64_t column) {
  const __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
                second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
  const __m512 even = limited(strip, sums[0]), odd = limited(strip, sums[1]);
  const int64_t at = y * strip->columns + column, n = strip->columns - column;
  depthwise_bf16_store_some(strip, _mm512_permutex2var_ps(even, first, odd), at, n);
  depthwise_bf16_store_some(strip, _mm512_permutex2var_ps(even, second, odd), at + LANES,
                            n - LANES);
}

/* Computes `rows` rows of outputs from row y of the strip on, from `column` on. */
TARGET_AVX512_BF16 KERNEL_INLINE void block(const depthwise_strip *strip, const float *weight,
                                            int64_t y, int64_t column, const int side,
                                            const int stride, const int rows, bool whole) {
  enum { PARITIES = 2 };
  const int64_t first = (strip->row + y) * stride - strip->top,
                left = column * stride - strip->left;
  __m512 sums[ROWS * PARITIES], in[DEPTHWISE_MAX_SIDE + 1];
#pragma GCC unroll 8
  for (int i = 0; i < rows * PARITIES; i++) sums[i] = _mm512_setzero_ps();
#pragma GCC unroll 16
  for (int r = 0; r < (rows - 1) * stride + side; r++) {
    if (first + r < 0 || first + r >= strip->in_rows) continue;
    const uint16_t *row = strip->bf16_x + (first + r) * strip->in_columns;
    prefetch_line(row + left, (ROWS * stride * (int)strip->in_columns) * (int)sizeof *row);
    load_row_of(strip, row, left, side, whole, in);
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++) {
      const int tap = r - i * stride;
      if (tap < 0 || tap >= side) continue;
#pragma GCC unroll 5
      for (int j = 0; j < side; j++) {
        const __m512 w = _mm512_set1_ps(weight[tap * side + j]);
        sums[i * PARITIES] = _mm512_fmadd_ps(w, in[j], sums[i * PARITIES]);
        if (stride == 1)
          sums[i * PARITIES + 1] = _mm512_fmadd_ps(w, in[j + 1], sums[i * PARITIES + 1]);
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < rows; i++)
    if (stride == 1)
      store_interleaved(strip, sums + i * PARITIES, y + i, column);
    else
      depthwise_bf16_store_some(strip, limited(strip, sums[i * PARITIES]),
                                (y + i) * strip->columns + column, strip->columns - column);
}

/* Computes `rows` rows from row y on. A last block that would not be whole starts earlier. */
TARGET_AVX512_BF16 KERNEL_INLINE void some_rows(const depthwise_strip *strip, const float *weight,
                                                int64_t y, const int side, const int stride,
                                                const int rows) {
  const int64_t width = stride == 1 ? 2 * LANES : LANES;
  for (int64_t next = 0; next < strip->columns; next += width) {
    const int64_t column = strip->columns < width ? 0 : min_i64(next, strip->columns - width);
    const int64_t left = column * stride - strip->left;
    if (left >= 0 && left + side + 1 + 2 * LANES <= strip->in_columns)
      block(strip, weight, y, column, side, stride, rows, true);
    else
      block(strip, weight, y, column, side, stride, rows, false);
  }
}

TARGET_AVX512_BF16 KERNEL_INLINE void depthwise_bf16_run_strip(const depthwise_strip *given,
                                                               const int side, const int stride) {
  const depthwise_strip own = *given, *strip = &own; /* a copy that no store can change */
  float weight[MAX_TAPS];
  int64_t y = 0;
  for (int t = 0; t < side * side; t++) weight[t] = strip->weight[t];
  for (; y + ROWS <= strip->rows; y += ROWS) some_rows(strip, weight, y, side, stride, ROWS);
  for (; y < strip->rows; y++) some_rows(strip, weight, y, side, stride, 1);
}

TARGET_AVX512_BF16 static void depthwise_bf16_strip_3_1(const depthwise_strip *depthwise_strip) {
  depthwise_bf16_run_strip(depthwise_strip, 3, 1);
}
TARGET_AVX512_BF16 static void depthwise_bf16_strip_3_2(const depthwise_strip *depthwise_strip) {
  depthwise_bf16_run_strip(depthwise_strip, 3, 2);
}
TARGET_AVX512_BF16 static void depthwise_bf16_strip_5_1(const depthwise_strip *depthwise_strip) {
  depthwise_bf16_run_strip(depthwise_strip, 5, 1);
}
TARGET_AVX512_BF16 static void depthwise_bf16_strip_5_2(const depthwise_strip *depthwise_strip) {
  depthwise_bf16_run_strip(depthwise_strip, 5, 2);
}

void depthwise_bf16_run(const depthwise_strip *strip, int64_t side, int64_t stride) {
  static const depthwise_kernel kernels[2][2] = {
      {depthwise_bf16_strip_3_1, depthwise_bf16_strip_3_2},
      {depthwise_bf16_strip_5_1, depthwise_bf16_strip_5_2}};
  kernels[side == 5][stride == 2](strip);
}
#else
void depthwise_bf16_run(const depthwise_strip *strip, int64_t side, int64_t stride) {
  (void)strip, (void)side, (void)stride;
}
#endif
