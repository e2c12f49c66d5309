/* Inner kernels over panels of codes: a code becomes a float in a register, and the sum of a span's
 * products is scaled at once. Sixteen columns are a vector with AVX-512, two with AVX2. */
#include "backend/cpu/kernels/codes.h"
#include "backend/cpu/kernels/codes_vectors.h"

/* ---------------------------------------------------------------- any processor: quarters of a
 * panel */

enum { PORTABLE_ROWS = 4, PORTABLE_SUMS = 8 };

/* Blocks of a panel in turn, and what of the rows meets them. */
typedef struct block_place {
  const char *block;
  int spans;
  const float *a, *sums; /* of the block's first span */
} block_place;

static inline block_place block_at(const codes_rows *c, int rows, int64_t part) {
  const code_panels *p = c->p;
  return (block_place){c->panel + code_block_at(p, part), spans_of_block(p, part),
                       c->a + part * DECODED_AT_ONCE * rows, c->sums + part * p->spans * rows};
}

/* total (rows, quarters) += quarters [first, first + quarters) of a block. */
KERNEL_INLINE void add_block_portable(int rows, int quarters, int first, const code_panels *p,
                                      const block_place *b, vec4 *total) {
  const int deep = DECODED_AT_ONCE / p->spans;
  vec4 sums[PORTABLE_SUMS];
  for (int span = 0; span < b->spans; span++) {
    sum_span(p, rows, quarters, words_of(p, b->block, span) + first * (VECTOR / 4),
             b->a + span * deep * rows, sums);
    for (int q = 0; q < quarters; q++) {
      const vec4 scale = read_factors(p, b->block, p->d_at, p->s_at, span, first + q);
      for (int r = 0; r < rows; r++)
        total[r * quarters + q] =
            vec4_add_product(total[r * quarters + q], sums[r * quarters + q], scale);
      if (!p->has_lows) continue;
      const vec4 low = read_factors(p, b->block, p->m_at, p->l_at, span, first + q);
      for (int r = 0; r < rows; r++)
        total[r * quarters + q] =
            vec4_add_scaled(total[r * quarters + q], b->sums[span * rows + r], low);
    }
  }
}

KERNEL_INLINE void multiply_portable(int rows, int quarters, int first, const codes_rows *c) {
  vec4 total[PORTABLE_SUMS] = {{0}};
  for (int64_t part = 0; part < c->p->parts; part += c->p->block) {
    const block_place b = block_at(c, rows, part);
    add_block_portable(rows, quarters, first, c->p, &b, total);
  }
  for (int r = 0; r < rows; r++)
    memcpy(c->out + r * c->ldc + first * QUARTER, &total[r * quarters],
           (size_t)quarters * sizeof *total);
}

/* As many quarters at once as eight sums are for. */
static void run_portable(const codes_rows *c, int rows) {
  if (rows == 1) multiply_portable(1, 4, 0, c);
  if (rows == 2) multiply_portable(2, 4, 0, c);
  for (int first = 0; first < 4; first += 2) {
    if (rows == 3) multiply_portable(3, 2, first, c);
    if (rows == 4) multiply_portable(4, 2, first, c);
  }
}

/* part: of a block */
static void widen_quarter(const code_panels *p, const char *block, int part, int quarter, float *to,
                          int64_t step) {
  for (int span = part * p->spans; span < (part + 1) * p->spans; span++) {
    const char *words = words_of(p, block, span) + quarter * VECTOR / 4;
    const vec4 scale = read_factors(p, block, p->d_at, p->s_at, span, quarter),
               nothing = {-0.0F, -0.0F, -0.0F, -0.0F}, /* adding it changes nothing */
        low = p->has_lows ? read_factors(p, block, p->m_at, p->l_at, span, quarter) : nothing;
    for (int v = 0; v < vectors_of(p); v++)
      for (int shift = 0; shift < 32; shift += p->bits, to += step) {
        const vec4 x = read_codes(p, words + v * VECTOR, shift) * scale + low;
        memcpy(to, &x, sizeof x);
      }
  }
}

static void widen_portable(const code_panels *p, const char *block, int part, float *to,
                           int64_t step) {
  for (int quarter = 0; quarter < 4; quarter++)
    widen_quarter(p, block, part, quarter, to + quarter * QUARTER, step);
}

#if KERNEL_X86
/* What codes are, of which the bits are a constant of each kernel. */
typedef enum code_form { NIBBLES, BYTES, FLOATS } code_form;
KERNEL_INLINE int bits_of(code_form form) { return form == NIBBLES ? 4 : 8; }
static inline code_form form_of(const code_panels *p) {
  return p->code != CODE_INT ? FLOATS : p->bits == 4 ? NIBBLES : BYTES;
}

/* Independent sums of a row: the fewer rows, the more, as an addition waits for the one before. */
KERNEL_INLINE int chains_of(int rows) { return rows == 1 ? 4 : rows <= 3 ? 2 : 1; }

/* ---------------------------------------------------------------- AVX-512 */

enum { AVX512_ROWS = 12, AVX512_SUMS = 12 };

/* What code_avx512 makes codes floats by: of 4 bits the float of each code, of 8 what is taken off;
 * of floats codes_vectors.h's constants. */
typedef struct base512 {
  __m512 base, smallest;
  __m512i up, exponents, special;
} base512;

TARGET_AVX512 KERNEL_INLINE base512 base_avx512(code_form form, const code_panels *p) {
  const __m512i codes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  base512 b = {.base = _mm512_set1_ps((float)((1 << 23) - p->least))};
  if (form == NIBBLES)
    b.base = _mm512_cvtepi32_ps(_mm512_add_epi32(codes, _mm512_set1_epi32(p->least)));
  if (form == FLOATS) {
    const float_codes f = float_codes_of(p);
    b.smallest = _mm512_set1_ps(f.smallest);
    b.up = _mm512_set1_epi32(23 - f.mantissa);
    b.exponents = _mm512_set1_epi32(f.exponents);
    b.special = _mm512_set1_epi32(f.special);
  }
  return b;
}

/* floats_of. */
TARGET_AVX512 KERNEL_INLINE __m512 floats_avx512(__m512i codes, const base512 *b) {
  const __m512i normal = _mm512_set1_epi32(NORMAL), not_finite = _mm512_set1_epi32(NOT_FINITE);
  const __m512i size =
      _mm512_sllv_epi32(_mm512_and_si512(codes, _mm512_set1_epi32(SIGN - 1)), b->up);
  const __mmask16 small = _mm512_cmplt_epi32_mask(size, normal),
                  special = _mm512_cmpge_epi32_mask(size, b->special);
  __m512i bits = _mm512_add_epi32(size, b->exponents);
  bits = _mm512_mask_add_epi32(bits, small, bits, normal);
  bits = _mm512_mask_or_epi32(bits, special, bits, not_finite);
  const __m512 x = _mm512_castsi512_ps(bits);
  const __m512i sign = _mm512_slli_epi32(codes, 24);
  const __m512 size_of = _mm512_mask_sub_ps(x, small, x, b->smallest);
  return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(
      _mm512_castps_si512(size_of), sign, _mm512_set1_epi32(INT32_MIN), 0xF8)); /* a | b & c */
}

/* Code j of each word. One of 8 bits becomes the last bits of a float whose exponent makes them
 * ones; what that adds is taken off, which is exact. */
TARGET_AVX512 KERNEL_INLINE __m512 code_avx512(code_form form, __m512i w, int j, const base512 *b) {
  const __m512i at = j ? _mm512_srli_epi32(w, (unsigned)(j * bits_of(form))) : w;
  if (form == NIBBLES) return _mm512_permutexvar_ps(at, b->base); /* by the lowest 4 bits of each */
  if (form == FLOATS) return floats_avx512(at, b);
  const __m512i mask = _mm512_set1_epi32(255), ones = _mm512_set1_epi32(150 << 23);
  return _mm512_sub_ps(_mm512_castsi512_ps(_mm512_ternarylogic_epi32(at, mask, ones, 0xEA)),
                       b->base);
}

/* sums (rows) of a span's products. */
TARGET_AVX512 KERNEL_INLINE void sum_avx512(code_form form, int rows, int vectors,
                                            const char *words, const float *a, const base512 *base,
                                            __m512 *sums) {
  const int chains = chains_of(rows), codes = 32 / bits_of(form);
  __m512 sum[AVX512_SUMS];
#pragma GCC unroll 12
  for (int i = 0; i < rows * chains; i++) sum[i] = _mm512_setzero_ps();
  for (int v = 0; v < vectors; v++, words += VECTOR, a += codes * rows) {
    const __m512i w = _mm512_loadu_si512(words);
    ask_for(words, AHEAD);
#pragma GCC unroll 8
    for (int j = 0; j < codes; j++) {
      const __m512 x = code_avx512(form, w, j, base);
#pragma GCC unroll 12
      for (int r = 0; r < rows; r++) {
        const int i = r * chains + j % chains;
        sum[i] = _mm512_fmadd_ps(_mm512_set1_ps(a[j * rows + r]), x, sum[i]);
      }
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < rows; r++) {
    sums[r] = sum[r * chains];
#pragma GCC unroll 4
    for (int c = 1; c < chains; c++) sums[r] = _mm512_add_ps(sums[r], sum[r * chains + c]);
  }
}

/* total (rows) += a block. */
TARGET_AVX512 KERNEL_INLINE void add_block_avx512(code_form form, int rows, const code_panels *p,
                                                  const base512 *base, const block_place *b,
                                                  __m512 *total) {
  const int a_step = DECODED_AT_ONCE / p->spans * rows;
  __m512 sums[AVX512_ROWS];
  for (int span = 0; span < b->spans; span++) {
    sum_avx512(form, rows, vectors_of(p), words_of(p, b->block, span), b->a + span * a_step, base,
               sums);
    const __m512 scale = factors_avx512(p, b->block, p->d_at, p->s_at, span);
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) total[r] = _mm512_fmadd_ps(sums[r], scale, total[r]);
    if (!p->has_lows) continue;
    const __m512 low = factors_avx512(p, b->block, p->m_at, p->l_at, span);
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
      total[r] = _mm512_fmadd_ps(_mm512_set1_ps(b->sums[span * rows + r]), low, total[r]);
  }
}

TARGET_AVX512 KERNEL_INLINE void multiply_avx512(code_form form, int rows, const codes_rows *c) {
  const base512 base = base_avx512(form, c->p);
  __m512 total[AVX512_ROWS];
#pragma GCC unroll 12
  for (int r = 0; r < rows; r++) total[r] = _mm512_setzero_ps();
  for (int64_t part = 0; part < c->p->parts; part += c->p->block) {
    const block_place b = block_at(c, rows, part);
    add_block_avx512(form, rows, c->p, &base, &b, total);
  }
#pragma GCC unroll 12
  for (int r = 0; r < rows; r++) _mm512_storeu_ps(c->out + r * c->ldc, total[r]);
}

TARGET_AVX512 KERNEL_INLINE void run_form_avx512(code_form form, int rows, const codes_rows *c){
#define TILE_CASE(n) multiply_avx512(form, n, c)
#define TILE_ROWS 12
#include "backend/cpu/kernels/tile_rows.h"
#undef TILE_ROWS
}

TARGET_AVX512 static void run_avx512(const codes_rows *c, int rows) {
  const code_form form = form_of(c->p);
  if (form == NIBBLES) run_form_avx512(NIBBLES, rows, c);
  if (form == BYTES) run_form_avx512(BYTES, rows, c);
  if (form == FLOATS) run_form_avx512(FLOATS, rows, c);
}

TARGET_AVX512 KERNEL_INLINE void widen_form_avx512(code_form form, const code_panels *p,
                                                   const char *block, int part, float *to,
                                                   int64_t step) {
  const base512 base = base_avx512(form, p);
  for (int span = part * p->spans; span < (part + 1) * p->spans; span++) {
    const __m512 scale = factors_avx512(p, block, p->d_at, p->s_at, span),
                 low = p->has_lows ? factors_avx512(p, block, p->m_at, p->l_at, span)
                                   : _mm512_set1_ps(-0.0F);
    const char *words = words_of(p, block, span);
    for (int v = 0; v < vectors_of(p); v++, words += VECTOR) {
      const __m512i w = _mm512_loadu_si512(words);
#pragma GCC unroll 8
      for (int j = 0; j < 32 / bits_of(form); j++, to += step)
        _mm512_storeu_ps(to, _mm512_fmadd_ps(code_avx512(form, w, j, &base), scale, low));
    }
  }
}

TARGET_AVX512 static void widen_avx512(const code_panels *p, const char *block, int part, float *to,
                                       int64_t step) {
  const code_form form = form_of(p);
  if (form == NIBBLES) widen_form_avx512(NIBBLES, p, block, part, to, step);
  if (form == BYTES) widen_form_avx512(BYTES, p, block, part, to, step);
  if (form == FLOATS) widen_form_avx512(FLOATS, p, block, part, to, step);
}

/* ---------------------------------------------------------------- AVX2: half a panel at a time */

enum { AVX2_ROWS = 8, AVX2_SUMS = 8, PLACES = 5 };

/* Codes of a word that become floats where they are; the others once they are shifted there. */
KERNEL_INLINE int places_of(code_form form) { return form == NIBBLES ? PLACES : 2; }

/* What the exponent of a code's float adds, by its place; codes_vectors.h's constants of floats. */
typedef struct base256 {
  __m256 bases[PLACES], smallest;
  __m256i up, exponents, special;
} base256;

TARGET_AVX2 KERNEL_INLINE base256 base_avx2(code_form form, const code_panels *p) {
  base256 b;
  if (form == FLOATS) {
    const float_codes f = float_codes_of(p);
    b.smallest = _mm256_set1_ps(f.smallest);
    b.up = _mm256_set1_epi32(23 - f.mantissa);
    b.exponents = _mm256_set1_epi32(f.exponents);
    b.special = _mm256_set1_epi32(f.special - 1);
    return b;
  }
#pragma GCC unroll 5
  for (int i = 0; i < places_of(form); i++)
    b.bases[i] = _mm256_set1_ps((float)((1 << (23 - i * bits_of(form))) - p->least));
  return b;
}

/* floats_of. */
TARGET_AVX2 KERNEL_INLINE __m256 floats_avx2(__m256i codes, const base256 *b) {
  const __m256i normal = _mm256_set1_epi32(NORMAL), not_finite = _mm256_set1_epi32(NOT_FINITE);
  const __m256i size =
      _mm256_sllv_epi32(_mm256_and_si256(codes, _mm256_set1_epi32(SIGN - 1)), b->up);
  const __m256i small = _mm256_cmpgt_epi32(normal, size),
                special = _mm256_cmpgt_epi32(size, b->special);
  __m256i bits = _mm256_add_epi32(size, b->exponents);
  bits = _mm256_add_epi32(bits, _mm256_and_si256(small, normal));
  bits = _mm256_or_si256(bits, _mm256_and_si256(special, not_finite));
  const __m256 less = _mm256_and_ps(_mm256_castsi256_ps(small), b->smallest);
  const __m256i sign = _mm256_and_si256(_mm256_slli_epi32(codes, 24), _mm256_set1_epi32(INT32_MIN));
  return _mm256_or_ps(_mm256_sub_ps(_mm256_castsi256_ps(bits), less), _mm256_castsi256_ps(sign));
}

/* Code j of each word, as code_avx512 makes it of 8 bits; w has them shifted. */
TARGET_AVX2 KERNEL_INLINE __m256 code_avx2(code_form form, __m256i w, int j, const base256 *b) {
  const int place = j % places_of(form), at = place * bits_of(form);
  if (form == FLOATS) return floats_avx2(at ? _mm256_srli_epi32(w, at) : w, b);
  const __m256i mask = _mm256_set1_epi32(((1 << bits_of(form)) - 1) << at),
                ones = _mm256_set1_epi32((150 - at) << 23);
  const __m256i x = _mm256_or_si256(_mm256_and_si256(w, mask), ones);
  return _mm256_sub_ps(_mm256_castsi256_ps(x), b->bases[place]);
}
TARGET_AVX2 KERNEL_INLINE __m256i shifted_avx2(code_form form, __m256i w, int j) {
  return j < places_of(form) ? w : _mm256_srli_epi32(w, bits_of(form) * places_of(form));
}

/* out (rows; half a panel) += a span's products. */
TARGET_AVX2 KERNEL_INLINE void sum_avx2(code_form form, int rows, int vectors, const char *words,
                                        const float *a, const base256 *base, __m256 scale,
                                        float *out, int64_t ldc) {
  const int chains = chains_of(rows), codes = 32 / bits_of(form);
  __m256 sum[AVX2_SUMS];
#pragma GCC unroll 8
  for (int i = 0; i < rows * chains; i++) sum[i] = _mm256_setzero_ps();
  for (int v = 0; v < vectors; v++, words += VECTOR, a += codes * rows) {
    const __m256i w = _mm256_loadu_si256((const void *)words);
    ask_for(words, AHEAD);
#pragma GCC unroll 8
    for (int j = 0; j < codes; j++) {
      const __m256 x = code_avx2(form, shifted_avx2(form, w, j), j, base);
#pragma GCC unroll 12
      for (int r = 0; r < rows; r++) {
        const int i = r * chains + j % chains;
        sum[i] = _mm256_fmadd_ps(_mm256_broadcast_ss(a + j * rows + r), x, sum[i]);
      }
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < rows; r++) {
    __m256 s = sum[r * chains];
#pragma GCC unroll 4
    for (int c = 1; c < chains; c++) s = _mm256_add_ps(s, sum[r * chains + c]);
    float *to = out + r * ldc;
    _mm256_storeu_ps(to, _mm256_fmadd_ps(s, scale, _mm256_loadu_ps(to)));
  }
}

/* out += a block. */
TARGET_AVX2 KERNEL_INLINE void add_block_avx2(code_form form, int rows, const code_panels *p,
                                              const base256 *base, const block_place *b, float *out,
                                              int64_t ldc) {
  const int a_step = DECODED_AT_ONCE / p->spans * rows;
  for (int i = 0; i < 2 * b->spans; i++) {
    const int span = i / 2, half = i % 2;
    sum_avx2(form, rows, vectors_of(p), words_of(p, b->block, span) + half * VECTOR / 2,
             b->a + span * a_step, base, factors_avx2(p, b->block, p->d_at, p->s_at, span, half),
             out + half * HALF, ldc);
    if (!p->has_lows) continue;
    const __m256 low = factors_avx2(p, b->block, p->m_at, p->l_at, span, half);
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
      float *to = out + r * ldc + half * HALF;
      const __m256 sum = _mm256_broadcast_ss(b->sums + span * rows + r);
      _mm256_storeu_ps(to, _mm256_fmadd_ps(sum, low, _mm256_loadu_ps(to)));
    }
  }
}

TARGET_AVX2 KERNEL_INLINE void multiply_avx2(code_form form, int rows, const codes_rows *c) {
  const base256 base = base_avx2(form, c->p);
#pragma GCC unroll 12
  for (int r = 0; r < rows; r++) memset(c->out + r * c->ldc, 0, VECTOR);
  for (int64_t part = 0; part < c->p->parts; part += c->p->block) {
    const block_place b = block_at(c, rows, part);
    add_block_avx2(form, rows, c->p, &base, &b, c->out, c->ldc);
  }
}

TARGET_AVX2 KERNEL_INLINE void run_form_avx2(code_form form, int rows, const codes_rows *c){
#define TILE_CASE(n) multiply_avx2(form, n, c)
#define TILE_ROWS 8
#include "backend/cpu/kernels/tile_rows.h"
#undef TILE_ROWS
}

TARGET_AVX2 static void run_avx2(const codes_rows *c, int rows) {
  const code_form form = form_of(c->p);
  if (form == NIBBLES) run_form_avx2(NIBBLES, rows, c);
  if (form == BYTES) run_form_avx2(BYTES, rows, c);
  if (form == FLOATS) run_form_avx2(FLOATS, rows, c);
}

TARGET_AVX2 KERNEL_INLINE void widen_form_avx2(code_form form, const code_panels *p,
                                               const char *block, int part, int half, float *to,
                                               int64_t step) {
  const base256 base = base_avx2(form, p);
  for (int span = part * p->spans; span < (part + 1) * p->spans; span++) {
    const __m256 scale = factors_avx2(p, block, p->d_at, p->s_at, span, half),
                 low = p->has_lows ? factors_avx2(p, block, p->m_at, p->l_at, span, half)
                                   : _mm256_set1_ps(-0.0F);
    const char *words = words_of(p, block, span) + half * VECTOR / 2;
    for (int v = 0; v < vectors_of(p); v++, words += VECTOR) {
      const __m256i w = _mm256_loadu_si256((const void *)words);
#pragma GCC unroll 8
      for (int j = 0; j < 32 / bits_of(form); j++, to += step) {
        const __m256 x = code_avx2(form, shifted_avx2(form, w, j), j, &base);
        _mm256_storeu_ps(to, _mm256_fmadd_ps(x, scale, low));
      }
    }
  }
}

TARGET_AVX2 static void widen_avx2(const code_panels *p, const char *block, int part, float *to,
                                   int64_t step) {
  const code_form form = form_of(p);
  for (int half = 0; half < 2; half++, to += HALF) {
    if (form == NIBBLES) widen_form_avx2(NIBBLES, p, block, part, half, to, step);
    if (form == BYTES) widen_form_avx2(BYTES, p, block, part, half, to, step);
    if (form == FLOATS) widen_form_avx2(FLOATS, p, block, part, half, to, step);
  }
}
#endif

codes_kernel codes_kernel_for(void) {
  if (KERNEL_PLAIN) return (codes_kernel){0}; /* not called: the kernels are dropped */
#if KERNEL_X86
  if (cpu_has_avx512()) return (codes_kernel){AVX512_ROWS, run_avx512, widen_avx512};
  if (cpu_has_avx2()) return (codes_kernel){AVX2_ROWS, run_avx2, widen_avx2};
#endif
  return (codes_kernel){PORTABLE_ROWS, run_portable, widen_portable};
}
