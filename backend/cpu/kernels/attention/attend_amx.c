/* Attention's products of pairs by AMX tiles, and exponentials of scores as words for them. */
#include "backend/cpu/kernels/attention/attend_amx.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/gemm/amx.h"
#include "backend/cpu/kernels/gemm/pairs_vectors.h"

#if KERNEL_X86
enum { DEEP = AMX_WORDS };

/* ---------------------------------------------------------------- products */

TARGET_AMX static void attend_amx_begin(void) { amx_begin(); }
TARGET_AMX static void attend_amx_end(void) { amx_end(); }

/* Computes two tiles of rows, from `row` on, times 16 * halves lanes. */
TARGET_AMX KERNEL_INLINE void tile_amx(int halves, const panel_product *product, int64_t row) {
  const int64_t a_stride = product->a_row * 4, c_stride = halves * AMX_ROW_BYTES;
  const char *a = (const char *)(product->a + row * product->a_row), *b = (const char *)product->b;
  char *c = (char *)product->c + row * c_stride;
  if (product->fade)
    amx_load_sums(2, halves, c, c_stride);
  else
    amx_clear_sums();
  for (int64_t k = 0; k < product->k; k += DEEP, a += AMX_ROW_BYTES, b += DEEP * c_stride)
    amx_add_products(2, halves, a, a_stride, b, c_stride);
  amx_store_sums(2, halves, c, c_stride);
}

/* Computes all rows of a product. Their number must be a multiple of PANEL_PAIRS. */
TARGET_AMX KERNEL_INLINE void attend_amx_tiles(int halves, const panel_product *product) {
  for (int64_t i = 0; product->fade && i < product->rows; i++)
    for (int h = 0; h < halves; h++) {
      float *c = product->c + (i * halves + h) * PANEL_HALF;
      _mm512_storeu_ps(
          c, _mm512_mul_ps(_mm512_loadu_ps(c), _mm512_loadu_ps(product->fade + h * PANEL_HALF)));
    }
  amx_compiler_barrier();
  for (int64_t row = 0; row < product->rows; row += PANEL_PAIRS) tile_amx(halves, product, row);
}

TARGET_AMX static void attend_amx_multiply(int lanes, const panel_product *product) {
  if (lanes == PANEL_HALF)
    attend_amx_tiles(1, product);
  else
    attend_amx_tiles(2, product);
}

/* Transposes 16 words of 16 columns at a time. */
TARGET_AMX static void join_columns(const float *x, int64_t rows, int64_t width, int64_t stride,
                                    uint32_t *to) {
  const __m512i order = join_order();
  for (int64_t row = 0; row < rows; row += 2 * DEEP)
    for (int64_t column = 0; column < width; column += AMX_ROWS) {
      const float *from = x + row * width + column;
      __m512 words[AMX_ROWS];
#pragma GCC unroll 16
      for (int i = 0; i < DEEP; i++)
        words[i] =
            _mm512_castsi512_ps(join_avx512(_mm512_loadu_ps(from + 2 * i * width),
                                            _mm512_loadu_ps(from + (2 * i + 1) * width), order));
      transpose_avx512(words);
#pragma GCC unroll 16
      for (int i = 0; i < AMX_ROWS; i++)
        _mm512_storeu_ps((float *)to + (column + i) * stride + row / 2, words[i]);
    }
}

/* ---------------------------------------------------------------- exponentials */

/* Returns e^x for x <= 0 or NaN, with a relative error below 2^-13, enough for BF16's 8 bits;
 * returns exactly 1 for 0. The polynomial was fitted by weighted least squares at Chebyshev
 * points. */
TARGET_AVX512 KERNEL_INLINE __m512 exponential(__m512 x) {
  x = _mm512_max_ps(_mm512_set1_ps(-200), x * _mm512_set1_ps(0x1.715476p+0F)); /* keeps NaN */
  const __m512 n = nearest_integers(x), r = x - n;
  __m512 p = _mm512_set1_ps(0x1.c2a21ap-5F);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.f00c4cp-3F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.62f5fap-1F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1));
  return _mm512_scalef_ps(p, n);
}

/* Returns the largest of n scores and of `largest`, which is never NaN. NaN scores are ignored. */
TARGET_AVX512 KERNEL_INLINE __m512 largest_score(const float *scores, int64_t stride, int64_t n,
                                                 __m512 largest) {
  __m512 other = largest;
  int64_t j = 0;
  for (; j + 2 <= n; j += 2) {
    largest = _mm512_max_ps(_mm512_loadu_ps(scores + j * stride), largest);
    other = _mm512_max_ps(_mm512_loadu_ps(scores + (j + 1) * stride), other);
  }
  if (j < n) largest = _mm512_max_ps(_mm512_loadu_ps(scores + j * stride), largest);
  return _mm512_max_ps(other, largest);
}

/* exponentiate_amx for 16 lanes. */
TARGET_AMX KERNEL_INLINE void exponentiate_half(int lanes, int64_t n, const float *scores,
                                                uint32_t *words, int at, panel_sums *sums) {
  const __m512 none = _mm512_set1_ps(-INFINITY);
  const __m512i order = join_order();
  const __m512 before = _mm512_loadu_ps(sums->largest + at);
  const __m512 largest = largest_score(scores, lanes, n, before);
  const __m512 base = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(largest, none, _CMP_NEQ_UQ), largest);
  const __m512 fade = exponential(before - base);
  __m512 total = _mm512_loadu_ps(sums->total + at) * fade, more = _mm512_setzero_ps();
  int64_t j = 0;
  for (; j + 2 <= n; j += 2, scores += 2 * lanes, words += lanes) {
    const __m512 even = exponential(_mm512_loadu_ps(scores) - base),
                 odd = exponential(_mm512_loadu_ps(scores + lanes) - base);
    total += even;
    more += odd;
    _mm512_storeu_si512(words, join_avx512(even, odd, order));
  }
  for (; j < n; j++, words += lanes) {
    const __m512 even = exponential(_mm512_loadu_ps(scores) - base);
    total += even;
    _mm512_storeu_si512(words, join_avx512(even, _mm512_setzero_ps(), order));
  }
  for (j = (n + 1) / 2; j % DEEP > 0; j++, words += lanes)
    _mm512_storeu_si512(words, _mm512_setzero_si512());
  _mm512_storeu_ps(sums->largest + at, largest);
  _mm512_storeu_ps(sums->fade + at, fade);
  _mm512_storeu_ps(sums->total + at, total + more);
}

TARGET_AMX static void exponentiate_amx(int lanes, int64_t n, const float *scores, uint32_t *words,
                                        panel_sums *sums) {
  for (int at = 0; at < lanes; at += PANEL_HALF)
    exponentiate_half(lanes, n, scores + at, words + at, at, sums);
}

static const panel_tiles tiles = {.begin = attend_amx_begin,
                                  .end = attend_amx_end,
                                  .multiply = attend_amx_multiply,
                                  .join_columns = join_columns,
                                  .exponentiate = exponentiate_amx};
#endif

const panel_tiles *choose_panel_tiles(void) {
#if KERNEL_X86
  if (cpu_has_amx()) return &tiles;
#endif
  return NULL;
}
