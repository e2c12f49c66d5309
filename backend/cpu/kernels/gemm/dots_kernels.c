/* Inner kernels of rounded rows by panels of codes. They multiply and add bytes eight at a time
 * (aarch64 I8MM), four (AVX-512 VNNI, aarch64 dot products) or two in 16 bits (AVX2), or as floats,
 * which hold the integers exactly. Spans are scaled the same way in all, with one rounding per
 * step. Loop order: part of k, span, columns, rows. */
#include <math.h>

#include "backend/cpu/kernels/gemm/codes_vectors.h"
#include "backend/cpu/kernels/gemm/dots.h"

/* Return the scales, or the sums, which follow the words of a part of a tile in this order. */
static inline const float *scales_of(const int32_t *part, int rows) {
  return (const float *)(const void *)(part + DOT_WORDS * rows);
}
static inline const int32_t *dots_kernels_sums_of(const int32_t *part, int rows, int span) {
  return part + (DOT_WORDS + 1 + span) * rows;
}
static inline const float *scaled_sums_of(const int32_t *part, int rows, int span) {
  return (const float *)(const void *)dots_kernels_sums_of(part, rows, span);
}

/* Returns the factors d * s of span s of part i; lows_of: the factors m * l that follow. */
static inline const float *dots_kernels_factors_of(const dots_tile *tile, int panels, int i,
                                                   int s) {
  return tile->factors +
         (i * tile->p->spans + s) * (tile->p->has_lows ? 2 : 1) * panels * CODE_PANEL;
}
static inline const float *lows_of(const float *factors, int panels) {
  return factors + panels * CODE_PANEL;
}

/* ---------------------------------------------------------------- any processor */

enum { PORTABLE_ROWS = 4 };

/* Unpacks a part to (k, rows) floats. */
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

/* to += x * y, each rounded once. */
static inline void dots_kernels_add_scaled(float *to /* (QUARTER) */, vec4 x, vec4 y) {
  for (int i = 0; i < QUARTER; i++) to[i] = fmaf(x[i], y[i], to[i]);
}

static void read_factors_portable(const dots_tile *tile, int panels, float *to) {
  const code_panels *of = tile->p;
  for (int span = 0; span < tile->n * of->spans; span++)
    for (int low = 0; low <= of->has_lows; low++)
      for (int quarter = 0; quarter < 4 * panels; quarter++, to += QUARTER) {
        const vec4 x = read_factors(of, tile->block[quarter / 4], low ? of->m_at : of->d_at,
                                    low ? of->l_at : of->s_at, span, quarter % 4);
        memcpy(to, &x, sizeof x);
      }
}

/* Adds sums (rows) of span s of part i, scaled, to the totals of a quarter. */
KERNEL_INLINE void scale_quarter(const dots_tile *tile, int rows, const int32_t *part, int i, int s,
                                 int quarter, const vec4 *sums) {
  const code_panels *panels = tile->p;
  const float *from = dots_kernels_factors_of(tile, 1, i, s) + quarter * QUARTER;
  vec4 scale, low = {0};
  memcpy(&scale, from, sizeof scale);
  if (panels->has_lows) memcpy(&low, lows_of(from, 1), sizeof low);
  for (int r = 0; r < rows; r++) {
    float *to = tile->sums + r * tile->ld + quarter * QUARTER;
    dots_kernels_add_scaled(to, sums[r], scale * scales_of(part, rows)[r]);
    if (!panels->has_lows) continue;
    float sum = scaled_sums_of(part, rows, s)[r];
    dots_kernels_add_scaled(to, (vec4){sum, sum, sum, sum}, low);
  }
}

static void multiply_quarter(const dots_tile *tile, int rows, const int32_t *part, int i,
                             const float *q, int quarter) {
  const code_panels *panels = tile->p;
  vec4 sums[PORTABLE_ROWS];
  for (int s = 0; s < panels->spans; s++) {
    sum_span(panels, rows, 1,
             words_of(panels, tile->block[0], i * panels->spans + s) + quarter * (VECTOR / 4),
             q + s * (DECODED_AT_ONCE / panels->spans) * rows, sums);
    scale_quarter(tile, rows, part, i, s, quarter, sums);
  }
}

static void dots_kernels_run_portable(const dots_tile *tile, int rows) {
  const int32_t *part = tile->a;
  for (int i = 0; i < tile->n; i++, part += dots_part_words(tile->p, rows)) {
    float q[DECODED_AT_ONCE * PORTABLE_ROWS];
    unpack_rows(tile->p->bits, part, rows, q);
    for (int quarter = 0; quarter < 4; quarter++) multiply_quarter(tile, rows, part, i, q, quarter);
  }
}

static int one_panel(int rows) {
  (void)rows;
  return 1;
}

#if KERNEL_X86
/* ---------------------------------------------------------------- AVX-512 VNNI */

enum { VNNI_ROWS = 4, VNNI_SUMS = 8 };

/* Tiles with at most so many rows read one panel at a time in memory order, with its factors in
 * place. In larger tiles, all rows share the unpacked codes of two panels. */
enum { VNNI_IN_ORDER = 2 };
KERNEL_INLINE int panels_of_vnni(int rows) { return rows <= VNNI_IN_ORDER ? 1 : 2; }
static int vnni_panels(int rows) { return panels_of_vnni(rows); }
/* Returns the independent sums per row, as an addition waits for the one before. */
KERNEL_INLINE int chains_of_vnni(int rows) { return rows <= VNNI_IN_ORDER ? 2 : 1; }

/* Prefetches the cache lines with the factors of later blocks. */
static inline void prefetch_factors(const dots_tile *tile, int panels) {
  for (int p = 0; p < panels; p++)
    for (size_t at = tile->p->d_at; at < tile->p->block_bytes; at += VECTOR)
      prefetch_line(tile->block[p] + at, AHEAD);
}

TARGET_AVX512 static void read_factors_avx512(const dots_tile *tile, int panels, float *to) {
  const code_panels *of = tile->p;
  prefetch_factors(tile, panels);
  for (int span = 0; span < tile->n * of->spans; span++) {
    for (int p = 0; p < panels; p++, to += CODE_PANEL)
      _mm512_storeu_ps(to, factors_avx512(of, tile->block[p], of->d_at, of->s_at, span));
    for (int p = 0; p < panels && of->has_lows; p++, to += CODE_PANEL)
      _mm512_storeu_ps(to, factors_avx512(of, tile->block[p], of->m_at, of->l_at, span));
  }
}

/* sums (chains, panels, rows) += products of vector v of each panel's words, from byte `at` on. a:
 * the words of the rows that they are multiplied by. */
TARGET_AVX512_VNNI KERNEL_INLINE void add_vnni(int bits, int rows, const dots_tile *tile, size_t at,
                                               int v, const int32_t *a, __m512i *sums) {
  const int panels = panels_of_vnni(rows), count = rows * panels, chains = chains_of_vnni(rows);
  const __m512i low = _mm512_set1_epi8(15);
#pragma GCC unroll 2
  for (int p = 0; p < panels; p++) {
    const char *words = tile->block[p] + at;
    const __m512i w = _mm512_loadu_si512(words);
    const __m512i x = bits == 8 ? w : _mm512_and_si512(w, low);
    const __m512i y = _mm512_and_si512(_mm512_srli_epi32(w, 4), low);
    prefetch_line(words, panels == 1 ? AHEAD : SEVERAL_AHEAD);
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
      __m512i *sum = &sums[(bits == 8 ? v % chains : 0) * count + p * rows + r],
              *other = &sums[(chains - 1) * count + p * rows + r];
      *sum = _mm512_dpbusd_epi32(*sum, x, _mm512_set1_epi32(a[r]));
      if (bits == 4) *other = _mm512_dpbusd_epi32(*other, y, _mm512_set1_epi32(a[rows + r]));
    }
  }
}

/* Returns d * s or m * l of panel p for span `at` of a block. factors: those read before, or
 * unused. */
TARGET_AVX512 KERNEL_INLINE __m512 factors_vnni(const dots_tile *tile, bool lows, int rows, int p,
                                                int at, const float *factors) {
  const code_panels *of = tile->p;
  if (rows > VNNI_IN_ORDER)
    return _mm512_loadu_ps((lows ? lows_of(factors, panels_of_vnni(rows)) : factors) +
                           p * CODE_PANEL);
  return factors_avx512(of, tile->block[p], lows ? of->m_at : of->d_at, lows ? of->l_at : of->s_at,
                        at);
}

/* totals (panels, rows) += sums of a span of a part, scaled. at: the span in the block. */
TARGET_AVX512_VNNI KERNEL_INLINE void scale_vnni(const dots_tile *tile, bool lows, int rows,
                                                 const int32_t *part, int span, int at,
                                                 const float *factors, const __m512i *sums,
                                                 __m512 *totals) {
  const int panels = panels_of_vnni(rows);
#pragma GCC unroll 4
  for (int p = 0; p < panels; p++) {
    const __m512 scale = factors_vnni(tile, false, rows, p, at, factors);
    __m512 *total = &totals[p * rows];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
      total[r] =
          _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[p * rows + r]),
                          _mm512_mul_ps(scale, _mm512_set1_ps(scales_of(part, rows)[r])), total[r]);
    if (!lows) continue;
    const __m512 low = factors_vnni(tile, true, rows, p, at, factors);
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
      total[r] =
          _mm512_fmadd_ps(_mm512_set1_ps(scaled_sums_of(part, rows, span)[r]), low, total[r]);
  }
}

/* Computes sums of span s of a part, whose words begin at `from`. */
TARGET_AVX512_VNNI KERNEL_INLINE void sum_vnni(int bits, int spans, bool lows, int rows,
                                               const dots_tile *tile, size_t from, int s,
                                               const int32_t *part, __m512i *sums) {
  const int count = rows * panels_of_vnni(rows), chains = chains_of_vnni(rows),
            vectors = bits / spans, words = bits == 8 ? 1 : 2, more = (chains - 1) * count;
#pragma GCC unroll 8
  for (int i = 0; i < chains * count; i++)
    sums[i] = lows || i >= count ? _mm512_setzero_si512()
                                 : _mm512_set1_epi32(dots_kernels_sums_of(part, rows, s)[i % rows]);
#pragma GCC unroll 8
  for (int v = s * vectors; v < (s + 1) * vectors; v++)
    add_vnni(bits, rows, tile, from + (size_t)v * VECTOR, v, part + v * words * rows, sums);
#pragma GCC unroll 4
  for (int i = 0; i < more; i++) sums[i] = _mm512_add_epi32(sums[i], sums[count + i]);
}

/* Returns the address of sums i of (panels, rows). */
static inline float *sums_at(const dots_tile *tile, int rows, int i) {
  return tile->sums + i % rows * tile->ld + i / rows * CODE_PANEL;
}

/* Multiplies a tile. bits, spans and lows are constants, so that the loops have no branches. */
TARGET_AVX512_VNNI KERNEL_INLINE void dots_kernels_multiply_vnni(int bits, int spans, bool lows,
                                                                 int rows, const dots_tile *tile) {
  const int panels = panels_of_vnni(rows), count = rows * panels;
  const int32_t *part = tile->a;
  const float *factors = tile->factors;
  __m512 totals[VNNI_SUMS];
#pragma GCC unroll 8
  for (int i = 0; i < count; i++) totals[i] = _mm512_loadu_ps(sums_at(tile, rows, i));
  for (int i = 0; i < tile->n; i++, part += (DOT_WORDS + 1 + spans) * rows)
#pragma GCC unroll 2
    for (int s = 0; s < spans; s++, factors += (lows ? 2 : 1) * panels * CODE_PANEL) {
      __m512i sums[VNNI_SUMS];
      sum_vnni(bits, spans, lows, rows, tile, (size_t)i * (size_t)bits * VECTOR, s, part, sums);
      scale_vnni(tile, lows, rows, part, s, i * spans + s, factors, sums, totals);
    }
#pragma GCC unroll 8
  for (int i = 0; i < count; i++) _mm512_storeu_ps(sums_at(tile, rows, i), totals[i]);
}

TARGET_AVX512_VNNI KERNEL_INLINE void rows_vnni(int bits, int spans, bool lows,
                                                const dots_tile *tile, int rows) {
  if (rows == 1) dots_kernels_multiply_vnni(bits, spans, lows, 1, tile);
  if (rows == 2) dots_kernels_multiply_vnni(bits, spans, lows, 2, tile);
  if (rows == 3) dots_kernels_multiply_vnni(bits, spans, lows, 3, tile);
  if (rows == 4) dots_kernels_multiply_vnni(bits, spans, lows, 4, tile);
}

TARGET_AVX512_VNNI KERNEL_INLINE void spans_vnni(int bits, bool lows, const dots_tile *tile,
                                                 int rows) {
  if (tile->p->spans == 1)
    rows_vnni(bits, 1, lows, tile, rows);
  else
    rows_vnni(bits, 2, lows, tile, rows);
}

TARGET_AVX512_VNNI static void run_vnni(const dots_tile *tile, int rows) {
  const bool lows = tile->p->has_lows;
  if (tile->p->bits == 4 && lows) spans_vnni(4, true, tile, rows);
  if (tile->p->bits == 4 && !lows) spans_vnni(4, false, tile, rows);
  if (tile->p->bits == 8 && lows) spans_vnni(8, true, tile, rows);
  if (tile->p->bits == 8 && !lows) spans_vnni(8, false, tile, rows);
}

/* ---------------------------------------------------------------- AVX2: half a panel at a time */

enum { AVX2_ROWS = 4 };

/* Computes sums (rows) of a span without the codes' base. Low and high halves of bytes are summed
 * separately, so that 16 bits hold the sum of 16 products, at most 2 * 8 * 15 * 127. */
TARGET_AVX2 KERNEL_INLINE void dots_kernels_sum_avx2(int bits, int rows, int vectors,
                                                     const char *words, const int32_t *a,
                                                     __m256i *sums) {
  const __m256i mask = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1),
                sixteens = _mm256_set1_epi16(16);
  __m256i low[AVX2_ROWS], high[AVX2_ROWS];
  const int next = bits == 8 ? 0 : rows; /* offset of the words for the high halves */
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++) low[r] = high[r] = _mm256_setzero_si256();
  for (int v = 0; v < vectors; v++, words += VECTOR, a += rows + next) {
    const __m256i w = _mm256_loadu_si256((const void *)words);
    const __m256i x = _mm256_and_si256(w, mask),
                  y = _mm256_and_si256(_mm256_srli_epi32(w, 4), mask);
    prefetch_line(words, AHEAD);
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

TARGET_AVX2 static void read_factors_avx2(const dots_tile *tile, int panels, float *to) {
  const code_panels *of = tile->p;
  prefetch_factors(tile, panels);
  for (int span = 0; span < tile->n * of->spans; span++)
    for (int low = 0; low <= of->has_lows; low++)
      for (int half = 0; half < 2 * panels; half++, to += HALF)
        _mm256_storeu_ps(to, factors_avx2(of, tile->block[half / 2], low ? of->m_at : of->d_at,
                                          low ? of->l_at : of->s_at, span, half % 2));
}

TARGET_AVX2 KERNEL_INLINE void dots_kernels_scale_avx2(int rows, const dots_tile *tile,
                                                       const int32_t *part, int i, int span,
                                                       int half, const __m256i *sums) {
  const code_panels *of = tile->p;
  const float *from = dots_kernels_factors_of(tile, 1, i, span) + half * HALF;
  const __m256 scale = _mm256_loadu_ps(from),
               low = of->has_lows ? _mm256_loadu_ps(lows_of(from, 1)) : _mm256_setzero_ps();
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++) {
    float *to = tile->sums + r * tile->ld + half * HALF;
    const __m256i begin =
        _mm256_set1_epi32(of->has_lows ? 0 : dots_kernels_sums_of(part, rows, span)[r]);
    __m256 total = _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_add_epi32(sums[r], begin)),
                                   _mm256_mul_ps(scale, _mm256_set1_ps(scales_of(part, rows)[r])),
                                   _mm256_loadu_ps(to));
    if (of->has_lows)
      total = _mm256_fmadd_ps(_mm256_set1_ps(scaled_sums_of(part, rows, span)[r]), low, total);
    _mm256_storeu_ps(to, total);
  }
}

TARGET_AVX2 KERNEL_INLINE void dots_kernels_multiply_avx2(int bits, int rows,
                                                          const dots_tile *tile) {
  const code_panels *of = tile->p;
  const int32_t *part = tile->a;
  for (int i = 0; i < tile->n; i++, part += dots_part_words(of, rows))
    for (int s = 0; s < of->spans; s++)
      for (int half = 0; half < 2; half++) {
        __m256i sums[AVX2_ROWS];
        dots_kernels_sum_avx2(bits, rows, vectors_of(of),
                              words_of(of, tile->block[0], i * of->spans + s) + half * (VECTOR / 2),
                              part + s * (DOT_WORDS / of->spans) * rows, sums);
        dots_kernels_scale_avx2(rows, tile, part, i, s, half, sums);
      }
}

TARGET_AVX2 KERNEL_INLINE void run_bits_avx2(int bits, const dots_tile *tile, int rows) {
  if (rows == 1) dots_kernels_multiply_avx2(bits, 1, tile);
  if (rows == 2) dots_kernels_multiply_avx2(bits, 2, tile);
  if (rows == 3) dots_kernels_multiply_avx2(bits, 3, tile);
  if (rows == 4) dots_kernels_multiply_avx2(bits, 4, tile);
}

TARGET_AVX2 static void dots_kernels_run_avx2(const dots_tile *tile, int rows) {
  if (tile->p->bits == 4)
    run_bits_avx2(4, tile, rows);
  else
    run_bits_avx2(8, tile, rows);
}
#endif

#if KERNEL_ARM
/* ---------------------------------------------------------------- NEON's dot products of bytes */

enum { DOTPROD_ROWS = 4 };

TARGET_DOTPROD KERNEL_INLINE int4 dot_bytes(int4 sum, int4 codes, int32_t q) {
  return (int4)vdotq_s32((int32x4_t)sum, (int8x16_t)codes, vreinterpretq_s8_s32(vdupq_n_s32(q)));
}

/* Computes sums (rows) of a quarter's span without the codes' base, from low and high halves of
 * bytes, as both factors are signed. */
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

/* Adds sums (rows) of span s of part i with the codes' base, scaled, to the totals of a quarter. */
KERNEL_INLINE void scale_integers(const dots_tile *tile, int rows, const int32_t *part, int i,
                                  int s, int quarter, const int4 *sums) {
  vec4 floats[DOTPROD_ROWS];
  for (int r = 0; r < rows; r++) {
    int begin = tile->p->has_lows ? 0 : dots_kernels_sums_of(part, rows, s)[r];
    floats[r] = __builtin_convertvector(sums[r] + begin, vec4);
  }
  scale_quarter(tile, rows, part, i, s, quarter, floats);
}

TARGET_DOTPROD KERNEL_INLINE void dots_kernels_multiply_dotprod(int bits, int rows,
                                                                const dots_tile *tile) {
  const code_panels *of = tile->p;
  const int32_t *part = tile->a;
  for (int i = 0; i < tile->n; i++, part += dots_part_words(of, rows))
    for (int s = 0; s < of->spans; s++)
      for (int quarter = 0; quarter < 4; quarter++) {
        int4 sums[DOTPROD_ROWS];
        sum_dotprod(bits, rows, vectors_of(of),
                    words_of(of, tile->block[0], i * of->spans + s) + quarter * (VECTOR / 4),
                    part + s * (DOT_WORDS / of->spans) * rows, sums);
        scale_integers(tile, rows, part, i, s, quarter, sums);
      }
}

TARGET_DOTPROD KERNEL_INLINE void run_bits_dotprod(int bits, const dots_tile *tile, int rows) {
  if (rows == 1) dots_kernels_multiply_dotprod(bits, 1, tile);
  if (rows == 2) dots_kernels_multiply_dotprod(bits, 2, tile);
  if (rows == 3) dots_kernels_multiply_dotprod(bits, 3, tile);
  if (rows == 4) dots_kernels_multiply_dotprod(bits, 4, tile);
}

TARGET_DOTPROD static void run_dotprod(const dots_tile *tile, int rows) {
  if (tile->p->bits == 4)
    run_bits_dotprod(4, tile, rows);
  else
    run_bits_dotprod(8, tile, rows);
}

/* ---------------------------------------------------------------- I8MM: (2, 8) by (8, 2) bytes */

/* Returns two words of row r and two of the next row, or of r again if it is the last. */
KERNEL_INLINE int8x16_t pair_of_rows(int rows, const int32_t *a, int r) {
  const bool pair = r + 1 < rows;
  const int32x2_t first = pair ? vld1_s32(a + r) : vdup_n_s32(a[r]),
                  second = pair ? vld1_s32(a + rows + r) : vdup_n_s32(a[rows + r]);
  return vreinterpretq_s8_s32(vzip1q_s32(vcombine_s32(first, first), vcombine_s32(second, second)));
}

/* Returns the 8 k of four columns that two words of a row are multiplied by, two columns per
 * vector. */
KERNEL_INLINE uint8x16x2_t pairs_of_columns(int bits, const char *words) {
  const int halves = 0x0f0f0f0f;
  int4 w, next;
  memcpy(&w, words, sizeof w);
  if (bits == 8)
    memcpy(&next, words + VECTOR, sizeof next);
  else
    next = w >> 4 & halves, w &= halves;
  return (uint8x16x2_t){{(uint8x16_t)vzip1q_s32((int32x4_t)w, (int32x4_t)next),
                         (uint8x16_t)vzip2q_s32((int32x4_t)w, (int32x4_t)next)}};
}

/* Computes sums (2, rows) of a span of two quarters without the codes' base. */
TARGET_I8MM KERNEL_INLINE void sum_i8mm(int bits, int rows, int vectors, const char *words,
                                        const int32_t *a, int4 *sums) {
  const int stride = bits == 8 ? 2 : 1, pairs = (rows + 1) / 2;
  int32x4_t acc[2][DOTPROD_ROWS / 2][2]; /* by quarter, pair of rows, pair of columns */
#pragma GCC unroll 8
  for (int i = 0; i < 4 * pairs; i++) acc[i % 2][i / 4][i / 2 % 2] = vdupq_n_s32(0);
  for (int v = 0; v < vectors; v += stride, words += stride * VECTOR, a += 2 * rows)
#pragma GCC unroll 2
    for (int q = 0; q < 2; q++) {
      const uint8x16x2_t x = pairs_of_columns(bits, words + q * (VECTOR / 4));
#pragma GCC unroll 2
      for (int r = 0; r < pairs; r++) {
        const int8x16_t y = pair_of_rows(rows, a, 2 * r);
        acc[q][r][0] = vusmmlaq_s32(acc[q][r][0], x.val[0], y);
        acc[q][r][1] = vusmmlaq_s32(acc[q][r][1], x.val[1], y);
      }
    }
#pragma GCC unroll 8
  for (int i = 0; i < 2 * rows; i++) {
    const int32x4_t *of = acc[i / rows][i % rows / 2];
    sums[i] = (int4)(i % rows % 2 ? vuzp2q_s32(of[0], of[1]) : vuzp1q_s32(of[0], of[1]));
  }
}

TARGET_I8MM KERNEL_INLINE void dots_kernels_multiply_i8mm(int bits, int rows,
                                                          const dots_tile *tile) {
  const code_panels *of = tile->p;
  const int32_t *part = tile->a;
  for (int i = 0; i < tile->n; i++, part += dots_part_words(of, rows))
    for (int s = 0; s < of->spans; s++)
      for (int half = 0; half < 2; half++) {
        int4 sums[2 * DOTPROD_ROWS];
        sum_i8mm(bits, rows, vectors_of(of),
                 words_of(of, tile->block[0], i * of->spans + s) + half * (VECTOR / 2),
                 part + s * (DOT_WORDS / of->spans) * rows, sums);
        for (int q = 0; q < 2; q++)
          scale_integers(tile, rows, part, i, s, 2 * half + q, sums + q * rows);
      }
}

TARGET_I8MM KERNEL_INLINE void run_bits_i8mm(int bits, const dots_tile *tile, int rows) {
  if (rows == 1) dots_kernels_multiply_i8mm(bits, 1, tile);
  if (rows == 2) dots_kernels_multiply_i8mm(bits, 2, tile);
  if (rows == 3) dots_kernels_multiply_i8mm(bits, 3, tile);
  if (rows == 4) dots_kernels_multiply_i8mm(bits, 4, tile);
}

TARGET_I8MM static void run_i8mm(const dots_tile *tile, int rows) {
  if (tile->p->bits == 4)
    run_bits_i8mm(4, tile, rows);
  else
    run_bits_i8mm(8, tile, rows);
}
#endif

dots_kernel dots_kernel_for(void) {
  if (KERNEL_PLAIN) return (dots_kernel){0}; /* unused, so the linker drops the kernels */
#if KERNEL_X86
  if (cpu_has_avx512_vnni())
    return (dots_kernel){VNNI_ROWS, VNNI_IN_ORDER, vnni_panels, read_factors_avx512, run_vnni};
  if (cpu_has_avx2())
    return (dots_kernel){AVX2_ROWS, 0, one_panel, read_factors_avx2, dots_kernels_run_avx2};
#endif
#if KERNEL_ARM
  if (cpu_has_i8mm())
    return (dots_kernel){DOTPROD_ROWS, 0, one_panel, read_factors_portable, run_i8mm};
  if (cpu_has_dotprod())
    return (dots_kernel){DOTPROD_ROWS, 0, one_panel, read_factors_portable, run_dotprod};
#endif
  return (dots_kernel){PORTABLE_ROWS, 0, one_panel, read_factors_portable,
                       dots_kernels_run_portable};
}
