/* Joins rows of two channels of an image to one row of words. */
#include "backend/cpu/kernels/conv/conv_words.h"

#include "backend/cpu/kernels/gemm/pairs.h"
#include "backend/cpu/kernels/support/avx512.h"
#include "backend/cpu/kernels/support/bf16.h"
#include "base/counts.h"

enum { SOME = 64 /* words that are gathered at once */ };

static void conv_words_join_bf16(const uint16_t *even, const uint16_t *odd, int64_t step, int64_t n,
                                 uint32_t *to) {
  if (step == 1) bf16_join(even, odd, n, to);
  if (step == 2) bf16_join_halves(even, odd, n, to);
  for (int64_t i = 0; step > 2 && i < n; i++)
    to[i] = even[i * step] | (odd ? (uint32_t)odd[i * step] << 16 : 0);
}

static void conv_words_join_wide(const float *even, const float *odd, int64_t step, int64_t n,
                                 uint32_t *to) {
  float x[SOME], y[SOME];
  if (step == 1) {
    pairs_join(even, odd, n, to);
    return;
  }
  for (int64_t at = 0; at < n; at += SOME) {
    const int64_t m = min_i64(SOME, n - at);
    for (int64_t i = 0; i < m; i++) x[i] = even[(at + i) * step];
    for (int64_t i = 0; odd && i < m; i++) y[i] = odd[(at + i) * step];
    pairs_join(x, odd ? y : NULL, m, to + at);
  }
}

void conv_join_row(bool bf16, const void *even, const void *odd, int64_t step, int64_t n,
                   uint32_t *to) {
  if (bf16)
    conv_words_join_bf16(even, odd, step, n, to);
  else
    conv_words_join_wide(even, odd, step, n, to);
}

#if KERNEL_X86
enum { LANES = 16, MAX_VECTORS = 32 };

/* Masks of the elements that exist in each vector of a row, and of the words that are stored. */
typedef struct vector_masks {
  int64_t n;
  uint32_t valid[MAX_VECTORS], stored[MAX_VECTORS];
} vector_masks;

/* Finds the masks of the columns from `column` on. Word i has bit i, or bit 2 i if step is 2. */
static vector_masks find_masks(const conv_planes *planes, int64_t column) {
  vector_masks masks = {.n = min_i64(MAX_VECTORS, ceil_div(planes->width - column, LANES))};
  for (int64_t v = 0; v < masks.n; v++) {
    const int64_t at = column + v * LANES, from = max_i64(planes->left - at, 0),
                  to = max_i64(min_i64(planes->left + planes->n - at, LANES), 0);
    const uint32_t valid = from < to ? bits_between(from, to) : 0;
    masks.valid[v] = valid;
    for (int i = 0; planes->step == 2 && i < LANES; i++)
      masks.valid[v] = (i ? masks.valid[v] : 0) | (valid >> i & 1) << 2 * i;
    masks.stored[v] = bits_between(0, min_i64(LANES, planes->width - at));
  }
  return masks;
}

TARGET_AVX512_BF16 KERNEL_INLINE __m512i load_halves(const int step, uint32_t valid,
                                                     const uint16_t *x) {
  if (step == 2) return _mm512_maskz_loadu_epi16(valid, x);
  return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16((__mmask16)valid, x));
}

TARGET_AVX512_BF16 KERNEL_INLINE void join_planes(const conv_planes *planes, const int step,
                                                  int64_t column) {
  const vector_masks masks = find_masks(planes, column);
  for (int64_t w = 0; w < planes->words; w++) {
    const bool even = planes->x && 2 * w < planes->channels,
               odd = planes->x && 2 * w + 1 < planes->channels;
    /* A masked load may start before the row. */
    const uintptr_t x = (uintptr_t)planes->x +
                        (uintptr_t)((2 * w * planes->channel + (column - planes->left) * step) *
                                    (int64_t)sizeof *planes->x);
    uint32_t *to = planes->to + w * planes->plane + column;
    for (int64_t v = 0; v < masks.n; v++) {
      const uint16_t *from = (const uint16_t *)x + v * LANES * step;
      const __m512i low = load_halves(step, even ? masks.valid[v] : 0, from),
                    high = load_halves(step, odd ? masks.valid[v] : 0, from + planes->channel);
      _mm512_mask_storeu_epi32(to + v * LANES, (__mmask16)masks.stored[v],
                               _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
    }
  }
}

TARGET_AVX512_BF16 static void join_planes_1(const conv_planes *planes, int64_t column) {
  join_planes(planes, 1, column);
}
TARGET_AVX512_BF16 static void join_planes_2(const conv_planes *planes, int64_t column) {
  join_planes(planes, 2, column);
}

void conv_join_planes(const conv_planes *planes) {
  for (int64_t column = 0; column < planes->width; column += MAX_VECTORS * LANES)
    (planes->step == 1 ? join_planes_1 : join_planes_2)(planes, column);
}
#else
void conv_join_planes(const conv_planes *planes) { (void)planes; }
#endif
