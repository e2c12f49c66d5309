/* Four tiles of sums at a time. */
#include "backend/cpu/kernels/amx_sums.h"

#include <string.h>

#include "backend/cpu/kernels/avx512.h"

#if KERNEL_X86
/* Bytes from a row of a tile to the next. */
KERNEL_INLINE int64_t bytes(int64_t words) { return words * (int64_t)sizeof(uint32_t); }

/* Tiles: 0 to 3 sums of (half of the outputs, half of the columns), 4 and 5 a, 6 and 7 b. */
TARGET_AMX KERNEL_INLINE void load_sums(const amx_sums *t, const int outputs, const int columns) {
  const float *c = t->c;
  const int64_t step = bytes(t->c_step);
  _tile_loadd(0, c, step);
  if (columns > 16) _tile_loadd(1, c + 16, step);
  if (outputs > 16) _tile_loadd(2, c + 16 * t->c_step, step);
  if (outputs > 16 && columns > 16) _tile_loadd(3, c + 16 * t->c_step + 16, step);
}

TARGET_AMX KERNEL_INLINE void clear_sums(void) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

TARGET_AMX KERNEL_INLINE void store_sums(const amx_sums *t, const int outputs, const int columns) {
  float *c = t->c;
  const int64_t step = bytes(t->c_step);
  _tile_stored(0, c, step);
  if (columns > 16) _tile_stored(1, c + 16, step);
  if (outputs > 16) _tile_stored(2, c + 16 * t->c_step, step);
  if (outputs > 16 && columns > 16) _tile_stored(3, c + 16 * t->c_step + 16, step);
}

/* Tiles of the weight come from memory: those of a step some steps on are asked for. */
KERNEL_INLINE void ask_for_step(const uint32_t *a) {
  enum { AHEAD = 4, STEP = 2 * AMX_TILE_WORDS, LINE = 16 /* words */ };
#pragma GCC unroll 32
  for (int i = 0; i < STEP; i += LINE) __builtin_prefetch(a + AHEAD * STEP + i, 0, 3);
}

TARGET_AMX KERNEL_INLINE void add_step(const uint32_t *a, const uint32_t *b, int64_t b_bytes,
                                       const int outputs, const int columns) {
  _tile_loadd(6, b, b_bytes);
  _tile_loadd(4, a, 64);
  _tile_dpbf16ps(0, 4, 6);
  if (columns > 16) {
    _tile_loadd(7, b + 16, b_bytes);
    _tile_dpbf16ps(1, 4, 7);
  }
  if (outputs > 16) {
    _tile_loadd(5, a + AMX_TILE_WORDS, 64);
    _tile_dpbf16ps(2, 5, 6);
    if (columns > 16) _tile_dpbf16ps(3, 5, 7);
  }
}

TARGET_AMX KERNEL_INLINE void add_all(const amx_sums *t, const int outputs, const int columns) {
  const uint32_t *a = t->a, *b = t->b;
  const int64_t b_bytes = bytes(t->b_step);
  amx_sees_memory();
  if (t->adds)
    load_sums(t, outputs, columns);
  else
    clear_sums();
  for (int64_t block = 0; block < t->blocks; block++, b += AMX_WORDS * t->b_step)
    for (int64_t tap = 0; tap < t->taps; tap++, a += 2 * AMX_TILE_WORDS) {
      if (t->asks) ask_for_step(a);
      add_step(a, b + t->offsets[tap], b_bytes, outputs, columns);
    }
  store_sums(t, outputs, columns);
}

TARGET_AMX static void run_tiles(const amx_sums *t, int outputs, int columns) {
  if (outputs > 16 && columns > 16)
    add_all(t, 32, 32);
  else if (outputs > 16)
    add_all(t, 32, 16);
  else if (columns > 16)
    add_all(t, 16, 32);
  else
    add_all(t, 16, 16);
}

/* Of elements of 16 bits of two vectors, those of the second `second` on: 0, second, 1, ... */
TARGET_AVX512_BF16 KERNEL_INLINE __m512i in_turns(int second) {
  const __m512i low = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return _mm512_or_si512(low,
                         _mm512_slli_epi32(_mm512_add_epi32(low, _mm512_set1_epi32(second)), 16));
}

/* Words of some columns of two rows, the second of which may be zeros. */
TARGET_AVX512_BF16 KERNEL_INLINE void join_narrow(const uint16_t *even, const uint16_t *odd,
                                                  const int columns, uint32_t *to) {
  if (columns == 16) {
    const __m512i low = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)even)),
                  high = odd ? _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)odd))
                             : _mm512_setzero_si512();
    _mm512_storeu_si512(to, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
    return;
  }
  const __m512i order = in_turns(32), next = _mm512_add_epi16(order, _mm512_set1_epi16(16));
  const __m512i low = _mm512_loadu_si512(even),
                high = odd ? _mm512_loadu_si512(odd) : _mm512_setzero_si512();
  _mm512_storeu_si512(to, _mm512_permutex2var_epi16(low, order, high));
  _mm512_storeu_si512(to + 16, _mm512_permutex2var_epi16(low, next, high));
}

TARGET_AVX512_BF16 KERNEL_INLINE void join_wide(const float *even, const float *odd,
                                                const int columns, uint32_t *to) {
#pragma GCC unroll 2
  for (int i = 0; i < columns; i += 16) {
    const __m512 low = _mm512_loadu_ps(even + i),
                 high = odd ? _mm512_loadu_ps(odd + i) : _mm512_setzero_ps();
    _mm512_storeu_si512(
        to + i, _mm512_permutexvar_epi16(in_turns(16), (__m512i)_mm512_cvtne2ps_pbh(high, low)));
  }
}

TARGET_AVX512_BF16 KERNEL_INLINE void pack(const void *x, const bool is_narrow, int64_t step,
                                           int64_t rows, int64_t words, const int columns,
                                           uint32_t *to) {
  const uint16_t *narrow = x;
  const float *wide = x;
  int64_t word = 0;
  for (int64_t row = 0; row < rows; row += 2, word++, to += AMX_COLUMNS) {
    const int64_t odd = row + 1 < rows ? step : 0;
    if (is_narrow) {
      ask_for(narrow, 2 * 32);
      ask_for(narrow + odd, 2 * 32);
      join_narrow(narrow, odd ? narrow + odd : NULL, columns, to);
      narrow += 2 * step;
    } else {
      join_wide(wide, odd ? wide + odd : NULL, columns, to);
      wide += 2 * step;
    }
  }
  memset(to, 0, (size_t)((words - word) * AMX_COLUMNS) * sizeof *to);
}

TARGET_AVX512_BF16 static void pack_panel(const void *x, bool is_narrow, int64_t step, int64_t rows,
                                          int64_t words, int columns, uint32_t *to) {
  if (is_narrow && columns > 16)
    pack(x, true, step, rows, words, 32, to);
  else if (is_narrow)
    pack(x, true, step, rows, words, 16, to);
  else if (columns > 16)
    pack(x, false, step, rows, words, 32, to);
  else
    pack(x, false, step, rows, words, 16, to);
}
TARGET_AMX void amx_sums_begin(void) { amx_begin(); }
TARGET_AMX void amx_sums_end(void) { amx_end(); }
void amx_sums_run(const amx_sums *t, int outputs, int columns) { run_tiles(t, outputs, columns); }
void amx_pack_panel(const void *x, bool is_narrow, int64_t step, int64_t rows, int64_t words,
                    int columns, uint32_t *to) {
  pack_panel(x, is_narrow, step, rows, words, columns, to);
}
#else
void amx_sums_begin(void) {}
void amx_sums_end(void) {}
void amx_sums_run(const amx_sums *t, int outputs, int columns) {
  (void)t, (void)outputs, (void)columns;
}
void amx_pack_panel(const void *x, bool is_narrow, int64_t step, int64_t rows, int64_t words,
                    int columns, uint32_t *to) {
  (void)x, (void)is_narrow, (void)step, (void)rows, (void)words, (void)columns, (void)to;
}
#endif
