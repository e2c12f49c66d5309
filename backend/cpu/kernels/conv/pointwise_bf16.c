/* Tiles of rounded pointwise convolutions on values that are kept as BF16. */
#include "backend/cpu/kernels/conv/pointwise_bf16.h"

#include "backend/cpu/kernels/support/avx512.h"
#include "backend/cpu/kernels/support/bf16.h"
#include "backend/cpu/kernels/support/vec4.h"

#if KERNEL_X86
#define TILE_ROWS 12
enum { LANES = 16, MAX_SUMS = TILE_ROWS * BF16_COLUMNS / LANES };

/* Loads words of 16 or 32 columns of two rows of BF16; odd may be NULL for zeros. 32 columns stay
 * in the order of the unpack instructions; see in_order. */
TARGET_AVX512_BF16 KERNEL_INLINE void pointwise_bf16_load_words(const uint16_t *even,
                                                                const uint16_t *odd,
                                                                const int vectors, __m512i *words) {
  if (vectors == 1) {
    const __m512i low = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)even)),
                  high = odd ? _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)odd))
                             : _mm512_setzero_si512();
    words[0] = _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
    return;
  }
  const __m512i low = _mm512_loadu_si512(even),
                high = odd ? _mm512_loadu_si512(odd) : _mm512_setzero_si512();
  words[0] = _mm512_unpacklo_epi16(low, high);
  words[1] = _mm512_unpackhi_epi16(low, high);
}

/* Restores the order of sums of 32 columns of unpacked words, whose quarters alternate. */
TARGET_AVX512_BF16 KERNEL_INLINE void in_order(__m512 *sums) {
  const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23),
                second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
  const __m512 a = sums[0], b = sums[1];
  sums[0] = _mm512_permutex2var_ps(a, first, b);
  sums[1] = _mm512_permutex2var_ps(a, second, b);
}

TARGET_AVX512_BF16 KERNEL_INLINE void pointwise_bf16_add_words(const uint32_t *a,
                                                               const __m512i *words, const int rows,
                                                               const int vectors, __m512 *sums) {
#pragma GCC unroll 12
  for (int i = 0; i < rows; i++) {
    const __m512bh x = (__m512bh)_mm512_set1_epi32((int)a[i]);
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++)
      sums[i * vectors + v] = _mm512_dpbf16_ps(sums[i * vectors + v], x, (__m512bh)words[v]);
  }
}

TARGET_AVX512_BF16 KERNEL_INLINE void pointwise_bf16_sum(const bf16_tile *tile, const int rows,
                                                         const int vectors, __m512 *sums) {
  const uint32_t *a = tile->a;
  const uint16_t *b = tile->b;
  const int64_t stride = tile->b_stride, a_stride = tile->a_stride;
  __m512i words[2];
  for (int64_t k = tile->channels; k > 1; k -= 2, a += a_stride, b += 2 * stride) {
    pointwise_bf16_load_words(b, b + stride, vectors, words);
    prefetch_line(b, vectors * LANES * (int)sizeof *b);
    prefetch_line(b + stride, vectors * LANES * (int)sizeof *b);
    pointwise_bf16_add_words(a, words, rows, vectors, sums);
  }
  if (tile->channels % 2) {
    pointwise_bf16_load_words(b, NULL, vectors, words);
    pointwise_bf16_add_words(a, words, rows, vectors, sums);
  }
  if (vectors == 2)
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) in_order(sums + 2 * i);
}

TARGET_AVX512_BF16 KERNEL_INLINE void sum_wide(const bf16_tile *tile, const int rows,
                                               const int vectors, __m512 *sums) {
  const uint32_t *a = tile->a, *b = tile->b;
  __m512i words[2];
  for (int64_t k = 0; k < tile->channels; k += 2, a += tile->a_stride, b += tile->b_stride) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) words[v] = _mm512_loadu_si512(b + v * LANES);
    pointwise_bf16_add_words(a, words, rows, vectors, sums);
  }
}

TARGET_AVX512_BF16 KERNEL_INLINE void pointwise_bf16_store_tile(const bf16_tile *tile,
                                                                const int rows, const int vectors,
                                                                const __m512 *sums) {
  const bf16_tile own = *tile; /* a copy that no store can change */
  const __m512 low = _mm512_set1_ps(own.low), high = _mm512_set1_ps(own.high);
#pragma GCC unroll 12
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) {
      const int64_t at = i * own.c_stride + v * LANES;
      __m512 sum = sums[i * vectors + v];
      if (own.bias) sum += _mm512_set1_ps(own.bias[i]);
      if (own.added)
        sum += load_avx512(own.added_type == DTYPE_BF16 ? DTYPE_BF16 : DTYPE_F32, own.added, at);
      sum = _mm512_min_ps(high, _mm512_max_ps(low, sum));
      if (own.c_type == DTYPE_BF16)
        _mm256_storeu_si256((void *)((uint16_t *)own.c + at), (__m256i)_mm512_cvtneps_pbh(sum));
      else
        _mm512_storeu_ps((float *)own.c + at, sum);
    }
}

TARGET_AVX512_BF16 KERNEL_INLINE void tile_one(const bf16_tile *tile, const int rows,
                                               const int vectors) {
  __m512 sums[MAX_SUMS];
#pragma GCC unroll 24
  for (int i = 0; i < rows * vectors; i++) sums[i] = _mm512_setzero_ps();
  if (tile->b_is_planes)
    pointwise_bf16_sum(tile, rows, vectors, sums);
  else
    sum_wide(tile, rows, vectors, sums);
  pointwise_bf16_store_tile(tile, rows, vectors, sums);
}

TARGET_AVX512_BF16 KERNEL_INLINE void pointwise_bf16_tile_rows(const bf16_tile *tile, int rows,
                                                               const int vectors){
#define TILE_CASE(n) tile_one(tile, n, vectors)
#include "backend/cpu/kernels/support/tile_rows.h"
}

TARGET_AVX512_BF16 static void run_whole(const bf16_tile *tile, int rows) {
  pointwise_bf16_tile_rows(tile, rows, 2);
}
TARGET_AVX512_BF16 static void run_half(const bf16_tile *tile, int rows) {
  pointwise_bf16_tile_rows(tile, rows, 1);
}
#undef TILE_ROWS

/* Stores all rows. vectors and adds are constants, so that a row takes few instructions. */
TARGET_AVX512_BF16 KERNEL_INLINE void pointwise_bf16_store_all(const bf16_tile *tile, int rows,
                                                               const int vectors, const bool adds,
                                                               const float *sums) {
  const bf16_tile own = *tile;
  const __m512 low = _mm512_set1_ps(own.low), high = _mm512_set1_ps(own.high);
  for (int i = 0; i < rows; i++, sums += BF16_COLUMNS) {
    const __m512 bias = _mm512_set1_ps(own.bias ? own.bias[i] : -0.0F);
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) {
      const int64_t at = i * own.c_stride + v * LANES;
      __m512 sum = _mm512_loadu_ps(sums + v * LANES) + bias;
      if (adds)
        sum += load_avx512(own.added_type == DTYPE_BF16 ? DTYPE_BF16 : DTYPE_F32, own.added, at);
      sum = _mm512_min_ps(high, _mm512_max_ps(low, sum));
      if (own.c_type == DTYPE_BF16)
        _mm256_storeu_si256((void *)((uint16_t *)own.c + at), (__m256i)_mm512_cvtneps_pbh(sum));
      else
        _mm512_storeu_ps((float *)own.c + at, sum);
    }
  }
}

TARGET_AVX512_BF16 static void pointwise_bf16_store_rows(const bf16_tile *tile, int rows,
                                                         int columns, const float *sums) {
  if (columns < BF16_COLUMNS)
    pointwise_bf16_store_all(tile, rows, 1, tile->added != NULL, sums);
  else if (tile->added)
    pointwise_bf16_store_all(tile, rows, 2, true, sums);
  else
    pointwise_bf16_store_all(tile, rows, 2, false, sums);
}
#endif

/* ---------------------------------------------------------------- any processor */

static float sum_of(const bf16_tile *tile, int row, int column) {
  const uint16_t *planes = tile->b;
  const uint32_t *words = tile->b;
  float sum = 0;
  for (int64_t k = 0; k < tile->channels; k++) {
    const uint32_t x = tile->a[k / 2 * tile->a_stride + row], y = words[0];
    const uint16_t a = (uint16_t)(k % 2 ? x >> 16 : x & 0xffff);
    const uint32_t word = tile->b_is_planes ? y : words[k / 2 * tile->b_stride + column];
    const uint16_t b = tile->b_is_planes ? planes[k * tile->b_stride + column]
                                         : (uint16_t)(k % 2 ? word >> 16 : word & 0xffff);
    sum += bf16_to_f32(a) * bf16_to_f32(b);
  }
  return sum;
}

static void pointwise_bf16_run_portable(const bf16_tile *tile, int rows, int columns) {
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++) {
      const int64_t at = i * tile->c_stride + j;
      float sum = sum_of(tile, i, j) + (tile->bias ? tile->bias[i] : -0.0F), added;
      if (tile->added) {
        load_row(COMPUTE_F32, tile->added_type, element_at(tile->added, tile->added_type, at), 1, 1,
                 &added);
        sum += added;
      }
      sum = tile->low > sum ? tile->low : sum;
      sum = tile->high < sum ? tile->high : sum;
      store_row(COMPUTE_F32, tile->c_type, element_at(tile->c, tile->c_type, at), 1, 1, &sum);
    }
}

void bf16_tile_run(const bf16_tile *tile, int rows, int columns) {
#if KERNEL_X86
  if (cpu_has_avx512_bf16()) {
    (columns == BF16_COLUMNS ? run_whole : run_half)(tile, rows);
    return;
  }
#endif
  pointwise_bf16_run_portable(tile, rows, columns);
}

void bf16_tile_store(const bf16_tile *tile, int rows, int columns, const float *sums) {
#if KERNEL_X86
  pointwise_bf16_store_rows(tile, rows, columns, sums);
#else
  (void)tile, (void)rows, (void)columns, (void)sums;
#endif
}
