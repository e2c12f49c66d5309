/* Joins words of four channels, with vectors if elements are one or two bytes apart. */
#include "backend/cpu/kernels/conv/conv_integer_planes.h"

#include "backend/cpu/kernels/support/avx512.h"
#include "base/counts.h"

static void conv_integer_planes_join_portable(const integer_row *row) {
  const uint32_t padding = (uint32_t)(row->padding & 255) * 0x01010101U;
  for (int64_t i = 0; i < row->width; i++) {
    const bool is_valid = i >= row->left && i < row->left + row->n;
    uint32_t word = is_valid ? 0 : padding;
    for (int c = 0; c < 4 && is_valid; c++)
      if (row->x[c]) word |= (uint32_t)row->x[c][(i - row->left) * row->step] << 8 * c;
    row->to[i] = word;
  }
}

#if KERNEL_X86
enum { LANES = 16 };

/* Loads one byte for each lane in `valid`. For a step of 2, the bit of lane i is bit 2 i. */
KERNEL_INLINE TARGET_AVX512_VNNI __m512i conv_integer_planes_load_bytes(const int step,
                                                                        uint32_t valid,
                                                                        const unsigned char *x) {
  if (step == 2) return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi8(valid, x));
  return _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8((__mmask16)valid, x));
}

/* Moves bit i to 2 i. */
KERNEL_INLINE uint32_t spread_bits(uint32_t x) {
  x = (x | x << 8) & 0x00ff00ffU;
  x = (x | x << 4) & 0x0f0f0f0fU;
  x = (x | x << 2) & 0x33333333U;
  return (x | x << 1) & 0x55555555U;
}

KERNEL_INLINE TARGET_AVX512_VNNI void join_vectors(const integer_row *integer_row, const int step) {
  const __m512i padding =
      _mm512_set1_epi32((int)((uint32_t)(integer_row->padding & 255) * 0x01010101U));
  for (int64_t at = 0; at < integer_row->width; at += LANES) {
    const int64_t from = min_i64(max_i64(integer_row->left - at, 0), LANES),
                  to = max_i64(min_i64(integer_row->left + integer_row->n - at, LANES), from);
    const uint32_t lanes = bits_between(from, to), valid = step == 2 ? spread_bits(lanes) : lanes;
    __m512i words = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++) {
      /* A masked load may start before the row. A load whose mask is empty is slow near address 0,
       * so a missing channel uses another address. */
      const unsigned char *row =
          integer_row->x[c] ? integer_row->x[c] : (const unsigned char *)integer_row->to;
      const uintptr_t x = (uintptr_t)row + (uintptr_t)((at - integer_row->left) * step);
      const __m512i some = conv_integer_planes_load_bytes(step, integer_row->x[c] ? valid : 0,
                                                          (const unsigned char *)x);
      words = _mm512_or_si512(words, _mm512_slli_epi32(some, (unsigned)(8 * c)));
    }
    words = _mm512_mask_mov_epi32(padding, (__mmask16)lanes, words);
    _mm512_mask_storeu_epi32(integer_row->to + at,
                             (__mmask16)bits_between(0, min_i64(LANES, integer_row->width - at)),
                             words);
  }
}

static TARGET_AVX512_VNNI void join_1(const integer_row *row) { join_vectors(row, 1); }
static TARGET_AVX512_VNNI void join_2(const integer_row *row) { join_vectors(row, 2); }
#endif

void integer_join_row(const integer_row *row) {
#if KERNEL_X86
  if (cpu_has_avx512_vnni() && row->step <= 2) {
    (row->step == 1 ? join_1 : join_2)(row);
    return;
  }
#endif
  conv_integer_planes_join_portable(row);
}
