/* c (outputs, columns) = or += a * b, in up to four tiles. Loop order: block of words, tap. */
#include "backend/cpu/kernels/gemm/amx_sums.h"

#include <string.h>

#include "backend/cpu/kernels/gemm/pairs_vectors.h"
#include "backend/cpu/kernels/support/avx512.h"

#if KERNEL_X86
/* Returns the bytes between rows of a tile that are so many words apart. */
KERNEL_INLINE int64_t bytes(int64_t words) { return words * (int64_t)sizeof(uint32_t); }

/* Prefetches the weight's tiles of a later step, which are not in a cache. */
KERNEL_INLINE void prefetch_step(const uint32_t *a) {
  enum { AHEAD = 4, STEP = 2 * AMX_TILE_WORDS, LINE = 16 /* words */ };
#pragma GCC unroll 32
  for (int i = 0; i < STEP; i += LINE) __builtin_prefetch(a + AHEAD * STEP + i, 0, 3);
}

/* rows, columns: in tiles. */
TARGET_AMX KERNEL_INLINE void add_all(const amx_sums *sums, const int rows, const int columns) {
  const uint32_t *a = sums->a, *b = sums->b;
  amx_compiler_barrier();
  if (sums->adds)
    amx_load_sums(rows, columns, sums->c, bytes(sums->c_stride));
  else
    amx_clear_sums();
  for (int64_t block = 0; block < sums->blocks; block++, b += AMX_WORDS * sums->b_stride)
    for (int64_t tap = 0; tap < sums->taps; tap++, a += 2 * AMX_TILE_WORDS) {
      if (sums->prefetches) prefetch_step(a);
      amx_add_products(rows, columns, a, AMX_ROW_BYTES, b + sums->offsets[tap],
                       bytes(sums->b_stride));
    }
  amx_store_sums(rows, columns, sums->c, bytes(sums->c_stride));
}

TARGET_AMX static void amx_sums_run_tiles(const amx_sums *sums, int outputs, int columns) {
  if (outputs > 16 && columns > 16)
    add_all(sums, 2, 2);
  else if (outputs > 16)
    add_all(sums, 2, 1);
  else if (columns > 16)
    add_all(sums, 1, 2);
  else
    add_all(sums, 1, 1);
}

/* Joins some columns of two rows to words. odd may be NULL for zeros. */
TARGET_AVX512_BF16 KERNEL_INLINE void amx_sums_join_bf16(const uint16_t *even, const uint16_t *odd,
                                                         const int columns, uint32_t *to) {
  if (columns == 16) {
    const __m512i low = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)even)),
                  high = odd ? _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)odd))
                             : _mm512_setzero_si512();
    _mm512_storeu_si512(to, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
    return;
  }
  const __m512i second = _mm512_set1_epi32(16 << 16); /* 0, 32, 1, 33, ... */
  const __m512i order = _mm512_add_epi16(join_order(), second),
                next = _mm512_add_epi16(order, _mm512_set1_epi16(16));
  const __m512i low = _mm512_loadu_si512(even),
                high = odd ? _mm512_loadu_si512(odd) : _mm512_setzero_si512();
  _mm512_storeu_si512(to, _mm512_permutex2var_epi16(low, order, high));
  _mm512_storeu_si512(to + 16, _mm512_permutex2var_epi16(low, next, high));
}

TARGET_AVX512_BF16 KERNEL_INLINE void amx_sums_join_wide(const float *even, const float *odd,
                                                         const int columns, uint32_t *to) {
#pragma GCC unroll 2
  for (int i = 0; i < columns; i += 16) {
    const __m512 low = _mm512_loadu_ps(even + i),
                 high = odd ? _mm512_loadu_ps(odd + i) : _mm512_setzero_ps();
    _mm512_storeu_si512(to + i, join_avx512(low, high, join_order()));
  }
}

TARGET_AVX512_BF16 KERNEL_INLINE void amx_sums_pack(const void *x, const bool is_rounded,
                                                    int64_t stride, int64_t rows, int64_t words,
                                                    const int columns, uint32_t *to) {
  const uint16_t *bf16 = x;
  const float *wide = x;
  int64_t word = 0;
  for (int64_t row = 0; row < rows; row += 2, word++, to += AMX_COLUMNS) {
    const int64_t odd = row + 1 < rows ? stride : 0;
    if (is_rounded) {
      prefetch_line(bf16, 2 * 32);
      prefetch_line(bf16 + odd, 2 * 32);
      amx_sums_join_bf16(bf16, odd ? bf16 + odd : NULL, columns, to);
      bf16 += 2 * stride;
    } else {
      amx_sums_join_wide(wide, odd ? wide + odd : NULL, columns, to);
      wide += 2 * stride;
    }
  }
  memset(to, 0, (size_t)((words - word) * AMX_COLUMNS) * sizeof *to);
}

TARGET_AVX512_BF16 static void amx_sums_pack_panel(const void *x, bool is_rounded, int64_t stride,
                                                   int64_t rows, int64_t words, int columns,
                                                   uint32_t *to) {
  if (is_rounded && columns > 16)
    amx_sums_pack(x, true, stride, rows, words, 32, to);
  else if (is_rounded)
    amx_sums_pack(x, true, stride, rows, words, 16, to);
  else if (columns > 16)
    amx_sums_pack(x, false, stride, rows, words, 32, to);
  else
    amx_sums_pack(x, false, stride, rows, words, 16, to);
}
TARGET_AMX void amx_sums_begin(void) { amx_begin(); }
TARGET_AMX void amx_sums_end(void) { amx_end(); }
void amx_sums_run(const amx_sums *sums, int outputs, int columns) {
  amx_sums_run_tiles(sums, outputs, columns);
}
void amx_pack_panel(const void *x, bool is_rounded, int64_t stride, int64_t rows, int64_t words,
                    int columns, uint32_t *to) {
  amx_sums_pack_panel(x, is_rounded, stride, rows, words, columns, to);
}
#else
void amx_sums_begin(void) {}
void amx_sums_end(void) {}
void amx_sums_run(const amx_sums *sums, int outputs, int columns) {
  (void)sums, (void)outputs, (void)columns;
}
void amx_pack_panel(const void *x, bool is_rounded, int64_t stride, int64_t rows, int64_t words,
                    int columns, uint32_t *to) {
  (void)x, (void)is_rounded, (void)stride, (void)rows, (void)words, (void)columns, (void)to;
}
#endif
