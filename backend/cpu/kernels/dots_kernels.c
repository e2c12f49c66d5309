/* Inner kernels of rounded rows by panels of codes: by bytes that are multiplied and added four at
 * a time (AVX-512 VNNI), or two at a time in 16 bits (AVX2), or as floats, which hold the integers.
 * What follows a span's sum is the same, one rounding for each step. */
#include <math.h>

#include "backend/cpu/kernels/codes_vectors.h"
#include "backend/cpu/kernels/dots.h"

/* Behind the words of a part of a tile. */
static inline const float *scales_of(const int32_t *part, int rows) {
  return (const float *)(const void *)(part + DOT_WORDS * rows);
}
static inline const int32_t *sums_of(const int32_t *part, int rows, int span) {
  return part + (DOT_WORDS + 1 + span) * rows;
}
static inline const float *scaled_sums_of(const int32_t *part, int rows, int span) {
  return (const float *)(const void *)sums_of(part, rows, span);
}

/* ---------------------------------------------------------------- any processor */

enum { PORTABLE_ROWS = 4 };

/* to (k of a part, rows) */
static void unpack_rows(int bits, const int32_t *part, int rows, float *to) {
  for (int i = 0; i < DOT_WORDS * rows; i++) {
    int word = i / rows, row = i % rows;
    int8_t bytes[4];
    memcpy(bytes, &part[i], sizeof bytes);
    for (int j = 0; j < 4; j++) {
      int k = bits == 8 ? 4 * word + j : word / 2 * 8 + 2 * j + word % 2;
      to[k * rows + row] = bytes[j];
    }
  }
}

/* to += x * y, each rounded once */
static inline void add_scaled(float *to /* (QUARTER) */, vec4 x, vec4 y) {
  for (int i = 0; i < QUARTER; i++) to[i] = fmaf(x[i], y[i], to[i]);
}

/* The totals of a quarter += sums (rows) of a span of a part, scaled. */
KERNEL_INLINE void scale_quarter(const dots_tile *t, int rows, const int32_t *part, int s,
                                 int64_t span, int quarter, const vec4 *sums) {
  const code_panels *p = t->p;
  const vec4 scale = read_factors(p, t->panel[0], p->d_at, p->s_at, span, quarter);
  vec4 low = {0};
  if (p->has_lows) low = read_factors(p, t->panel[0], p->m_at, p->l_at, span, quarter);
  for (int r = 0; r < rows; r++) {
    float *to = t->sums + r * CODE_PANEL + quarter * QUARTER;
    add_scaled(to, sums[r], scale * scales_of(part, rows)[r]);
    if (!p->has_lows) continue;
    float sum = scaled_sums_of(part, rows, s)[r];
    add_scaled(to, (vec4){sum, sum, sum, sum}, low);
  }
}

static void multiply_quarter(const dots_tile *t, int rows, const int32_t *part, int64_t number,
                             const float *q, int quarter) {
  const code_panels *p = t->p;
  vec4 sums[PORTABLE_ROWS];
  for (int s = 0; s < p->spans; s++) {
    int64_t span = number * p->spans + s;
    sum_span(p, rows, 1, words_of(p, t->panel[0], span) + quarter * (VECTOR / 4),
             q + s * (DECODED_AT_ONCE / p->spans) * rows, sums);
    scale_quarter(t, rows, part, s, span, quarter, sums);
  }
}

static void run_portable(const dots_tile *t, int rows) {
  const int32_t *part = t->a;
  for (int64_t i = 0; i < t->n; i++, part += dots_part_words(t->p, rows)) {
    float q[DECODED_AT_ONCE * PORTABLE_ROWS];
    unpack_rows(t->p->bits, part, rows, q);
    for (int quarter = 0; quarter < 4; quarter++)
      multiply_quarter(t, rows, part, t->first + i, q, quarter);
  }
}

static int one_panel(int rows) {
  (void)rows;
  return 1;
}

#if KERNEL_X86
/* Bytes that a panel is asked for ahead: of several panels at once, whose lines the first-level
 * cache has few places for. */
enum { NEAR = 2048 };

/* ---------------------------------------------------------------- AVX-512 VNNI */

enum { VNNI_ROWS = 4, VNNI_SUMS = 8 };

/* Several panels are several streams of reads, without which memory waits. */
KERNEL_INLINE int panels_of_vnni(int rows) { return rows <= 2 ? 4 : 2; }
static int vnni_panels(int rows) { return panels_of_vnni(rows); }

/* sums (panels, rows) += those of a vector of words of each panel, which begin at `at`; a: the
 * words of the rows that meet them. */
TARGET_AVX512_VNNI KERNEL_INLINE void add_vnni(int bits, int rows, const dots_tile *t, int64_t at,
                                               const int32_t *a, __m512i *sums) {
  const __m512i low = _mm512_set1_epi8(15);
#pragma GCC unroll 4
  for (int p = 0; p < panels_of_vnni(rows); p++) {
    const char *words = t->panel[p] + at;
    const __m512i w = _mm512_loadu_si512(words);
    const __m512i x = bits == 8 ? w : _mm512_and_si512(w, low);
    const __m512i y = _mm512_and_si512(_mm512_srli_epi32(w, 4), low);
    _mm_prefetch(words + NEAR, _MM_HINT_T0);
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
      __m512i *sum = &sums[p * rows + r];
      *sum = _mm512_dpbusd_epi32(*sum, x, _mm512_set1_epi32(a[r]));
      if (bits == 4) *sum = _mm512_dpbusd_epi32(*sum, y, _mm512_set1_epi32(a[rows + r]));
    }
  }
}

TARGET_AVX512_VNNI KERNEL_INLINE void scale_vnni(int rows, const dots_tile *t, const int32_t *part,
                                                 int span, span_place at, const __m512i *sums,
                                                 __m512 *totals) {
  const code_panels *of = t->p;
#pragma GCC unroll 4
  for (int p = 0; p < panels_of_vnni(rows); p++) {
    const __m512 scale = factors_avx512(of, t->panel[p], of->d_at, of->s_at, at);
    __m512 *total = &totals[p * rows];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
      total[r] =
          _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[p * rows + r]),
                          _mm512_mul_ps(scale, _mm512_set1_ps(scales_of(part, rows)[r])), total[r]);
    if (!of->has_lows) continue;
    const __m512 low = factors_avx512(of, t->panel[p], of->m_at, of->l_at, at);
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
      total[r] =
          _mm512_fmadd_ps(_mm512_set1_ps(scaled_sums_of(part, rows, span)[r]), low, total[r]);
  }
}

TARGET_AVX512_VNNI KERNEL_INLINE void multiply_vnni(int bits, int rows, const dots_tile *t) {
  const code_panels *of = t->p;
  const int count = rows * panels_of_vnni(rows), words = bits == 8 ? 1 : 2;
  const int32_t *part = t->a;
  span_place at = span_of_part(of, t->first);
  __m512 totals[VNNI_SUMS];
#pragma GCC unroll 8
  for (int i = 0; i < count; i++) totals[i] = _mm512_loadu_ps(t->sums + i * CODE_PANEL);
  for (int64_t i = 0; i < t->n; i++, part += dots_part_words(of, rows)) {
    const int32_t *a = part;
    for (int s = 0; s < of->spans; s++, next_span(of, &at)) {
      __m512i sums[VNNI_SUMS];
      int64_t from = at.span * vectors_of(of) * VECTOR;
#pragma GCC unroll 8
      for (int j = 0; j < count; j++)
        sums[j] = of->has_lows ? _mm512_setzero_si512()
                               : _mm512_set1_epi32(sums_of(part, rows, s)[j % rows]);
      for (int v = 0; v < vectors_of(of); v++, from += VECTOR, a += words * rows)
        add_vnni(bits, rows, t, from, a, sums);
      scale_vnni(rows, t, part, s, at, sums, totals);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < count; i++) _mm512_storeu_ps(t->sums + i * CODE_PANEL, totals[i]);
}

TARGET_AVX512_VNNI KERNEL_INLINE void run_bits_vnni(int bits, const dots_tile *t, int rows) {
  if (rows == 1) multiply_vnni(bits, 1, t);
  if (rows == 2) multiply_vnni(bits, 2, t);
  if (rows == 3) multiply_vnni(bits, 3, t);
  if (rows == 4) multiply_vnni(bits, 4, t);
}

TARGET_AVX512_VNNI static void run_vnni(const dots_tile *t, int rows) {
  if (t->p->bits == 4)
    run_bits_vnni(4, t, rows);
  else
    run_bits_vnni(8, t, rows);
}

/* ---------------------------------------------------------------- AVX2: half a panel at a time */

enum { AVX2_ROWS = 4 };

/* sums (rows) of a span, without what codes begin at: low and high halves of bytes apart, of which
 * 16 bits hold the sum of 16 products, 2 * 8 * 15 * 127 at most. */
TARGET_AVX2 KERNEL_INLINE void sum_avx2(int bits, int rows, int vectors, const char *words,
                                        const int32_t *a, __m256i *sums) {
  const __m256i mask = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1),
                sixteens = _mm256_set1_epi16(16);
  __m256i low[AVX2_ROWS], high[AVX2_ROWS];
  const int next = bits == 8 ? 0 : rows; /* words of the rows that the high halves meet */
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++) low[r] = high[r] = _mm256_setzero_si256();
  for (int v = 0; v < vectors; v++, words += VECTOR, a += rows + next) {
    const __m256i w = _mm256_loadu_si256((const void *)words);
    const __m256i x = _mm256_and_si256(w, mask),
                  y = _mm256_and_si256(_mm256_srli_epi32(w, 4), mask);
    _mm_prefetch(words + NEAR, _MM_HINT_T0);
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
      low[r] = _mm256_add_epi16(low[r], _mm256_maddubs_epi16(x, _mm256_set1_epi32(a[r])));
      high[r] = _mm256_add_epi16(high[r], _mm256_maddubs_epi16(y, _mm256_set1_epi32(a[next + r])));
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++)
    sums[r] = _mm256_add_epi32(_mm256_madd_epi16(low[r], ones),
                               _mm256_madd_epi16(high[r], bits == 8 ? sixteens : ones));
}

TARGET_AVX2 KERNEL_INLINE void scale_avx2(int rows, const dots_tile *t, const int32_t *part,
                                          int span, span_place at, int half, const __m256i *sums) {
  const code_panels *of = t->p;
  const __m256 scale = factors_avx2(of, t->panel[0], of->d_at, of->s_at, at, half),
               low = of->has_lows ? factors_avx2(of, t->panel[0], of->m_at, of->l_at, at, half)
                                  : _mm256_setzero_ps();
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++) {
    float *to = t->sums + r * CODE_PANEL + half * HALF;
    const __m256i begin = _mm256_set1_epi32(of->has_lows ? 0 : sums_of(part, rows, span)[r]);
    __m256 total = _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_add_epi32(sums[r], begin)),
                                   _mm256_mul_ps(scale, _mm256_set1_ps(scales_of(part, rows)[r])),
                                   _mm256_loadu_ps(to));
    if (of->has_lows)
      total = _mm256_fmadd_ps(_mm256_set1_ps(scaled_sums_of(part, rows, span)[r]), low, total);
    _mm256_storeu_ps(to, total);
  }
}

TARGET_AVX2 KERNEL_INLINE void multiply_avx2(int bits, int rows, const dots_tile *t) {
  const code_panels *of = t->p;
  const int32_t *part = t->a;
  span_place at = span_of_part(of, t->first);
  for (int64_t i = 0; i < t->n; i++, part += dots_part_words(of, rows))
    for (int s = 0; s < of->spans; s++, next_span(of, &at))
      for (int half = 0; half < 2; half++) {
        __m256i sums[AVX2_ROWS];
        sum_avx2(bits, rows, vectors_of(of),
                 words_of(of, t->panel[0], at.span) + half * (VECTOR / 2),
                 part + s * (DOT_WORDS / of->spans) * rows, sums);
        scale_avx2(rows, t, part, s, at, half, sums);
      }
}

TARGET_AVX2 KERNEL_INLINE void run_bits_avx2(int bits, const dots_tile *t, int rows) {
  if (rows == 1) multiply_avx2(bits, 1, t);
  if (rows == 2) multiply_avx2(bits, 2, t);
  if (rows == 3) multiply_avx2(bits, 3, t);
  if (rows == 4) multiply_avx2(bits, 4, t);
}

TARGET_AVX2 static void run_avx2(const dots_tile *t, int rows) {
  if (t->p->bits == 4)
    run_bits_avx2(4, t, rows);
  else
    run_bits_avx2(8, t, rows);
}
#endif

#if KERNEL_ARM
/* ---------------------------------------------------------------- NEON's dot products of bytes */

enum { DOTPROD_ROWS = 4 };

TARGET_DOTPROD KERNEL_INLINE int4 dot_bytes(int4 sum, int4 codes, int32_t q) {
  return (int4)vdotq_s32((int32x4_t)sum, (int8x16_t)codes, vreinterpretq_s8_s32(vdupq_n_s32(q)));
}

/* sums (rows) of a quarter's span, without what codes begin at: low and high halves of bytes, as
 * both factors are signed. */
TARGET_DOTPROD KERNEL_INLINE void sum_dotprod(int bits, int rows, int vectors, const char *words,
                                              const int32_t *a, int4 *sums) {
  const int halves = 0x0f0f0f0f, next = bits == 8 ? 0 : rows;
  int4 low[DOTPROD_ROWS], high[DOTPROD_ROWS], w;
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++) low[r] = high[r] = (int4){0};
  for (int v = 0; v < vectors; v++, words += VECTOR, a += rows + next) {
    memcpy(&w, words, sizeof w);
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
      low[r] = dot_bytes(low[r], w & halves, a[r]);
      high[r] = dot_bytes(high[r], w >> 4 & halves, a[next + r]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++) sums[r] = low[r] + (bits == 8 ? high[r] * 16 : high[r]);
}

TARGET_DOTPROD KERNEL_INLINE void multiply_dotprod(int bits, int rows, const dots_tile *t) {
  const code_panels *of = t->p;
  const int32_t *part = t->a;
  for (int64_t i = 0; i < t->n; i++, part += dots_part_words(of, rows))
    for (int s = 0; s < of->spans; s++)
      for (int quarter = 0; quarter < 4; quarter++) {
        int64_t span = (t->first + i) * of->spans + s;
        int4 sums[DOTPROD_ROWS];
        vec4 floats[DOTPROD_ROWS];
        sum_dotprod(bits, rows, vectors_of(of),
                    words_of(of, t->panel[0], span) + quarter * (VECTOR / 4),
                    part + s * (DOT_WORDS / of->spans) * rows, sums);
        for (int r = 0; r < rows; r++) {
          int begin = of->has_lows ? 0 : sums_of(part, rows, s)[r];
          floats[r] = __builtin_convertvector(sums[r] + begin, vec4);
        }
        scale_quarter(t, rows, part, s, span, quarter, floats);
      }
}

TARGET_DOTPROD KERNEL_INLINE void run_bits_dotprod(int bits, const dots_tile *t, int rows) {
  if (rows == 1) multiply_dotprod(bits, 1, t);
  if (rows == 2) multiply_dotprod(bits, 2, t);
  if (rows == 3) multiply_dotprod(bits, 3, t);
  if (rows == 4) multiply_dotprod(bits, 4, t);
}

TARGET_DOTPROD static void run_dotprod(const dots_tile *t, int rows) {
  if (t->p->bits == 4)
    run_bits_dotprod(4, t, rows);
  else
    run_bits_dotprod(8, t, rows);
}
#endif

dots_kernel dots_kernel_for(void) {
#if KERNEL_X86
  if (cpu_has_avx512_vnni()) return (dots_kernel){VNNI_ROWS, vnni_panels, run_vnni};
  if (cpu_has_avx2()) return (dots_kernel){AVX2_ROWS, one_panel, run_avx2};
#endif
#if KERNEL_ARM
  if (cpu_has_dotprod()) return (dots_kernel){DOTPROD_ROWS, one_panel, run_dotprod};
#endif
  return (dots_kernel){PORTABLE_ROWS, one_panel, run_portable};
}
