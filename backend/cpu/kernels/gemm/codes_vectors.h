#ifndef BACKEND_CPU_KERNELS_GEMM_CODES_VECTORS_H
#define BACKEND_CPU_KERNELS_GEMM_CODES_VECTORS_H
/* Reads panels of codes as vectors, for the inner kernels. */
#include <string.h>

#include "backend/cpu/kernels/support/features.h"
#include "backend/cpu/kernels/support/vec4.h"
#include "base/code_panels.h"
#if KERNEL_X86
#include <immintrin.h>
#endif

enum {
  VECTOR = CODE_PANEL * 4, /* bytes of a vector of words */
  HALF = CODE_PANEL / 2,
  QUARTER = CODE_PANEL / 4
};

/* ---------------------------------------------------------------- spans, counted in a block */

/* Vectors of words per span. */
static inline int vectors_of(const code_panels *panels) { return panels->bits / panels->spans; }
static inline const char *words_of(const code_panels *panels, const char *block, int span) {
  return block + span * vectors_of(panels) * VECTOR;
}
/* Spans of the block that begins with part `first`. */
static inline int spans_of_block(const code_panels *panels, int64_t first) {
  return (panels->parts - first < panels->block ? (int)(panels->parts - first) : panels->block) *
         panels->spans;
}

/* ---------------------------------------------------------------- any processor: quarters */

/* Returns d or m of a quarter of a panel, at `at`, times the span's subs, at subs_at. */
static inline vec4 read_factors(const code_panels *panels, const char *block, size_t at,
                                size_t subs_at, int span, int quarter) {
  int first = panels->row[span] * CODE_PANEL + quarter * QUARTER;
  signed char subs[QUARTER];
  short4 half;
  vec4 f;
  if (panels->wide) {
    memcpy(&f, block + at + first * 4, sizeof f);
  } else {
    memcpy(&half, block + at + first * 2, sizeof half);
    f = vec4_of_f16(half);
  }
  if (!panels->has_subs) return f;
  memcpy(subs, block + subs_at + span * CODE_PANEL + quarter * QUARTER, sizeof subs);
  for (int i = 0; i < QUARTER; i++) f[i] *= (float)subs[i];
  return f;
}

/* Constants that convert 8-bit float codes. The bits except the sign are shifted to a float's
 * mantissa and exponent, and the exponent bias is added. Below NORMAL a code is subnormal: its
 * exponent is raised by one, then the implicit first bit is subtracted. From `special` on, codes
 * are infinite or NaN. */
typedef struct float_codes {
  int mantissa;
  int32_t exponents, special;
  float smallest; /* smallest normal number */
} float_codes;
enum { NORMAL = 1 << 23, NOT_FINITE = 0x7f800000, SIGN = 128 };
static inline float_codes float_codes_of(const code_panels *panels) {
  const float_codes e4m3 = {3, 120 << 23, 127 << 20, 0x1p-6F},
                    e5m2 = {2, 112 << 23, 124 << 21, 0x1p-14F};
  return panels->code == CODE_E4M3 ? e4m3 : e5m2;
}

/* Converts codes, each below 256. */
KERNEL_INLINE vec4 floats_of(const float_codes *float_codes, int4 codes) {
  const int4 size = (codes & (SIGN - 1)) << (23 - float_codes->mantissa), small = size < NORMAL;
  int4 bits = size + float_codes->exponents + (small & NORMAL), less;
  const vec4 smallest = {float_codes->smallest, float_codes->smallest, float_codes->smallest,
                         float_codes->smallest};
  vec4 x;
  bits |= (size >= float_codes->special) & NOT_FINITE;
  memcpy(&less, &smallest, sizeof less);
  less &= small;
  x = (vec4)bits - (vec4)less;
  return (vec4)((int4)x | (codes & SIGN) << 24);
}

/* Returns, for each column, the code in the bits from `shift` on of a word. */
KERNEL_INLINE vec4 read_codes(const code_panels *panels, const char *words, int shift) {
  const int mask = (1 << panels->bits) - 1, least = panels->least;
  const int4 masks = {mask, mask, mask, mask}, leasts = {least, least, least, least};
  int4 w;
  memcpy(&w, words, sizeof w);
  if (panels->code != CODE_INT) {
    const float_codes codes = float_codes_of(panels);
    return floats_of(&codes, w >> shift & masks);
  }
  return __builtin_convertvector((w >> shift & masks) + leasts, vec4);
}

/* Computes sums (rows, quarters) of a (k of a span, rows) times codes. */
KERNEL_INLINE void sum_span(const code_panels *panels, int rows, int quarters, const char *words,
                            const float *a, vec4 *sums) {
  for (int i = 0; i < rows * quarters; i++) sums[i] = (vec4){0};
  for (int v = 0; v < vectors_of(panels); v++, words += VECTOR)
    for (int shift = 0; shift < 32; shift += panels->bits, a += rows)
      for (int q = 0; q < quarters; q++) {
        const vec4 x = read_codes(panels, words + q * (VECTOR / 4), shift);
        for (int r = 0; r < rows; r++)
          sums[r * quarters + q] = vec4_add_scaled(sums[r * quarters + q], a[r], x);
      }
}

/* ---------------------------------------------------------------- x86-64 */

#if KERNEL_X86
/* Prefetch distance in bytes, for one panel, and for each of several panels that are read side by
 * side. The hardware prefetcher does not reach far enough. */
enum { AHEAD = 8192, SEVERAL_AHEAD = 2048 };

/* Returns the factors d or m of a panel, times the subs of the span. */
TARGET_AVX512 KERNEL_INLINE __m512 factors_avx512(const code_panels *panels, const char *block,
                                                  size_t at, size_t subs_at, int span) {
  const char *from = block + at + panels->row[span] * (panels->wide ? 64 : 32);
  const __m512 f = panels->wide ? _mm512_loadu_ps(from)
                                : _mm512_cvtph_ps(_mm256_loadu_si256((const void *)from));
  if (!panels->has_subs) return f;
  const __m128i subs = _mm_loadu_si128((const void *)(block + subs_at + span * CODE_PANEL));
  return _mm512_mul_ps(f, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(subs)));
}

/* Like factors_avx512, for half a panel. */
TARGET_AVX2 KERNEL_INLINE __m256 factors_avx2(const code_panels *panels, const char *block,
                                              size_t at, size_t subs_at, int span, int half) {
  const char *from = block + at + (panels->row[span] * 2 + half) * (panels->wide ? 32 : 16);
  const __m256 f = panels->wide ? _mm256_loadu_ps((const void *)from)
                                : _mm256_cvtph_ps(_mm_loadu_si128((const void *)from));
  if (!panels->has_subs) return f;
  const char *subs = block + subs_at + (span * 2 + half) * HALF;
  return _mm256_mul_ps(
      f, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)subs))));
}
#endif

#endif
