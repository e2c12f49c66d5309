/* Kernels of depthwise convolutions with few taps, per instruction set. Loop order: rows of
 * outputs, columns, rows of inputs, taps. */
#include "backend/cpu/kernels/conv/depthwise_kernels.h"

#include <string.h>

#include "backend/cpu/kernels/support/avx512.h"
#include "backend/cpu/kernels/support/vec4.h"

/* ---------------------------------------------------------------- any processor */

KERNEL_INLINE vec4 vec4_even(vec4 a, vec4 b) { return (vec4){a[0], a[2], b[0], b[2]}; }
KERNEL_INLINE vec4 vec4_odd(vec4 a, vec4 b) { return (vec4){a[1], a[3], b[1], b[3]}; }

#define TILE_SET TILE_PORTABLE
#define TILE(name) portable_##name
#define TILE_ROWS 4
#define TILE_EVEN vec4_even
#define TILE_ODD vec4_odd
#include "backend/cpu/kernels/conv/depthwise_tiles.h"

#if KERNEL_X86
/* ---------------------------------------------------------------- AVX2 */

/* Selects every second of 16 floats. shuffle: immediate that selects two of four, twice. */
#define HALF_AVX2(a, b, shuffle) \
  _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(a, b, shuffle)), 0xD8))

#define TILE_SET TILE_AVX2
#define TILE(name) avx2_##name
#define TILE_ROWS 4
#define TILE_EVEN(a, b) HALF_AVX2(a, b, 0x88)
#define TILE_ODD(a, b) HALF_AVX2(a, b, 0xDD)
#include "backend/cpu/kernels/conv/depthwise_tiles.h"

/* ---------------------------------------------------------------- AVX-512
 * Inputs are read in place; elements outside the image are masked. */

enum { ROWS = 4, COLUMNS = 16 };

/* Loads the inputs of 16 neighbouring outputs for one column of taps; zeros outside the image. */
TARGET_AVX512 KERNEL_INLINE __m512 inputs_avx512(const float *x, int64_t at, uint32_t valid,
                                                 int stride) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  /* may point outside the row; only elements in the mask are read */
  const float *from = (const float *)((uintptr_t)x + (uintptr_t)at * sizeof *x);
  const __m512 some = _mm512_maskz_loadu_ps((__mmask16)valid, from);
  if (stride == 1) return some;
  return _mm512_permutex2var_ps(some, even,
                                _mm512_maskz_loadu_ps((__mmask16)(valid >> 16), from + COLUMNS));
}

/* Computes `rows` rows from row y of the strip on, from `column` on. down: the stride of rows. */
TARGET_AVX512 KERNEL_INLINE void block_avx512(const depthwise_strip *strip, const __m512 *weight,
                                              int64_t y, int64_t column, int side, int down,
                                              int stride, int rows) {
  const int64_t first = (strip->row + y) * down - strip->top, left = column * stride - strip->left;
  int64_t at = first * strip->in_columns + left;
  uint32_t valid[DEPTHWISE_MAX_SIDE];
  __m512 sums[ROWS];
#pragma GCC unroll 5
  for (int j = 0; j < side; j++) valid[j] = columns_mask(left + j, strip->in_columns);
#pragma GCC unroll 4
  for (int i = 0; i < rows; i++) sums[i] = _mm512_setzero_ps();
#pragma GCC unroll 16
  for (int r = 0; r < rows * down; r++) {
    const float *next = strip->x + at + (r + ROWS * down + side - down) * strip->in_columns;
    prefetch_line(next, 0);
    if (stride == 2) prefetch_line(next, 64);
  }
#pragma GCC unroll 16
  for (int r = 0; r < (rows - 1) * down + side; r++, at += strip->in_columns) {
    const uint32_t inside = first + r >= 0 && first + r < strip->in_rows ? ~UINT32_C(0) : 0;
#pragma GCC unroll 5
    for (int j = 0; j < side; j++) {
      const __m512 in = inputs_avx512(strip->x, at + j, valid[j] & inside, stride);
#pragma GCC unroll 4
      for (int i = 0; i < rows; i++) {
        const int tap = r - i * down;
        if (tap >= 0 && tap < side) sums[i] = _mm512_fmadd_ps(weight[tap * side + j], in, sums[i]);
      }
    }
  }
  const __mmask16 stored = (__mmask16)columns_mask(column, strip->columns);
  const float *added = strip->epilogue.added;
#pragma GCC unroll 4
  for (int i = 0; i < rows; i++) {
    const int64_t to = (y + i) * strip->columns + column;
    store_limited_avx512(sums[i] + _mm512_set1_ps(strip->bias), added ? added + to : NULL,
                         strip->epilogue.slope, strip->epilogue.low, strip->epilogue.high, stored,
                         strip->out + to);
  }
}

TARGET_AVX512 KERNEL_INLINE void rows_avx512(const depthwise_strip *strip, const __m512 *weight,
                                             int64_t y, int side, int down, int stride, int rows) {
  for (int64_t column = 0; column < strip->columns; column += COLUMNS)
    block_avx512(strip, weight, y, column, side, down, stride, rows);
}

TARGET_AVX512 KERNEL_INLINE void strip_avx512(const depthwise_strip *given, int side, int down,
                                              int stride) {
  const depthwise_strip own = *given, *strip = &own; /* a copy that no store can change */
  __m512 weight[DEPTHWISE_MAX_SIDE * DEPTHWISE_MAX_SIDE];
  int64_t y = 0;
#pragma GCC unroll 25
  for (int t = 0; t < side * side; t++) weight[t] = _mm512_set1_ps(strip->weight[t]);
  for (; y + ROWS <= strip->rows; y += ROWS)
    rows_avx512(strip, weight, y, side, down, stride, ROWS);
  if (y + 2 <= strip->rows) {
    rows_avx512(strip, weight, y, side, down, stride, 2);
    y += 2;
  }
  if (y < strip->rows) rows_avx512(strip, weight, y, side, down, stride, 1);
}

TARGET_AVX512 static void depthwise_kernels_strip_3_1_1(const depthwise_strip *strip) {
  strip_avx512(strip, 3, 1, 1);
}
TARGET_AVX512 static void depthwise_kernels_strip_3_2_1(const depthwise_strip *strip) {
  strip_avx512(strip, 3, 2, 1);
}
TARGET_AVX512 static void depthwise_kernels_strip_3_2_2(const depthwise_strip *strip) {
  strip_avx512(strip, 3, 2, 2);
}
TARGET_AVX512 static void depthwise_kernels_strip_5_1_1(const depthwise_strip *strip) {
  strip_avx512(strip, 5, 1, 1);
}
TARGET_AVX512 static void depthwise_kernels_strip_5_2_1(const depthwise_strip *strip) {
  strip_avx512(strip, 5, 2, 1);
}
TARGET_AVX512 static void depthwise_kernels_strip_5_2_2(const depthwise_strip *strip) {
  strip_avx512(strip, 5, 2, 2);
}

static const depthwise_kernel avx512_kernels[2][3] = {
    {depthwise_kernels_strip_3_1_1, depthwise_kernels_strip_3_2_1, depthwise_kernels_strip_3_2_2},
    {depthwise_kernels_strip_5_1_1, depthwise_kernels_strip_5_2_1, depthwise_kernels_strip_5_2_2}};
#endif

depthwise_kernel depthwise_kernel_for(int64_t side, int64_t row_stride, int64_t stride) {
  const int64_t s = side == 5, t = row_stride + stride - 2;
#if KERNEL_X86
  if (cpu_has_avx512()) return avx512_kernels[s][t];
  if (cpu_has_avx2()) return avx2_kernels[s][t];
#endif
  return portable_kernels[s][t];
}
