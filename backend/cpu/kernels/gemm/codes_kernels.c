/* Inner kernels over panels of codes. A code is converted to a float in a register; the sum of a
 * span's products is scaled once. With AVX-512 a vector holds all 16 columns, with AVX2 half of
 * them. Loop order: block, span, part of the columns, k. */
#include "backend/cpu/kernels/gemm/codes.h"
#include "backend/cpu/kernels/gemm/codes_vectors.h"

/* ---------------------------------------------------------------- any processor, by quarters */

enum { PORTABLE_ROWS = 4, PORTABLE_SUMS = 8 };

/* A block of a panel, and the elements of the rows that it is multiplied by. */
typedef struct block_place {
  const char *block;
  int spans;
  const float *a, *sums; /* the block's first span */
} block_place;

static inline block_place block_at(const codes_rows *codes_rows, int rows, int64_t part) {
  const code_panels *panels = codes_rows->p;
  return (block_place){codes_rows->panel + code_block_at(panels, part),
                       spans_of_block(panels, part), codes_rows->a + part * DECODED_AT_ONCE * rows,
                       codes_rows->sums + part * panels->spans * rows};
}

/* total (rows, quarters) += quarters [first, first + quarters) of a block. */
KERNEL_INLINE void add_block_portable(int rows, int quarters, int first, const code_panels *panels,
                                      const block_place *place, vec4 *total) {
  const int deep = DECODED_AT_ONCE / panels->spans;
  vec4 sums[PORTABLE_SUMS];
  for (int span = 0; span < place->spans; span++) {
    sum_span(panels, rows, quarters, words_of(panels, place->block, span) + first * (VECTOR / 4),
             place->a + span * deep * rows, sums);
    for (int q = 0; q < quarters; q++) {
      const vec4 scale =
          read_factors(panels, place->block, panels->d_at, panels->s_at, span, first + q);
      for (int r = 0; r < rows; r++)
        total[r * quarters + q] =
            vec4_add_product(total[r * quarters + q], sums[r * quarters + q], scale);
      if (!panels->has_lows) continue;
      const vec4 low =
          read_factors(panels, place->block, panels->m_at, panels->l_at, span, first + q);
      for (int r = 0; r < rows; r++)
        total[r * quarters + q] =
            vec4_add_scaled(total[r * quarters + q], place->sums[span * rows + r], low);
    }
  }
}

KERNEL_INLINE void codes_kernels_multiply_portable(int rows, int quarters, int first,
                                                   const codes_rows *codes_rows) {
  vec4 total[PORTABLE_SUMS] = {{0}};
  for (int64_t part = 0; part < codes_rows->p->parts; part += codes_rows->p->block) {
    const block_place place = block_at(codes_rows, rows, part);
    add_block_portable(rows, quarters, first, codes_rows->p, &place, total);
  }
  for (int r = 0; r < rows; r++)
    memcpy(codes_rows->out + r * codes_rows->ldc + first * QUARTER, &total[r * quarters],
           (size_t)quarters * sizeof *total);
}

/* Computes as many quarters at once as eight sums allow. */
static void codes_kernels_run_portable(const codes_rows *codes_rows, int rows) {
  if (rows == 1) codes_kernels_multiply_portable(1, 4, 0, codes_rows);
  if (rows == 2) codes_kernels_multiply_portable(2, 4, 0, codes_rows);
  for (int first = 0; first < 4; first += 2) {
    if (rows == 3) codes_kernels_multiply_portable(3, 2, first, codes_rows);
    if (rows == 4) codes_kernels_multiply_portable(4, 2, first, codes_rows);
  }
}

/* part: of a block */
static void widen_quarter(const code_panels *panels, const char *block, int part, int quarter,
                          float *to, int64_t stride) {
  for (int span = part * panels->spans; span < (part + 1) * panels->spans; span++) {
    const char *words = words_of(panels, block, span) + quarter * VECTOR / 4;
    const vec4 scale = read_factors(panels, block, panels->d_at, panels->s_at, span, quarter),
               nothing = {-0.0F, -0.0F, -0.0F, -0.0F}, /* adding -0.0 changes nothing */
        low = panels->has_lows
                  ? read_factors(panels, block, panels->m_at, panels->l_at, span, quarter)
                  : nothing;
    for (int v = 0; v < vectors_of(panels); v++)
      for (int shift = 0; shift < 32; shift += panels->bits, to += stride) {
        const vec4 x = read_codes(panels, words + v * VECTOR, shift) * scale + low;
        memcpy(to, &x, sizeof x);
      }
  }
}

static void widen_portable(const code_panels *panels, const char *block, int part, float *to,
                           int64_t stride) {
  for (int quarter = 0; quarter < 4; quarter++)
    widen_quarter(panels, block, part, quarter, to + quarter * QUARTER, stride);
}

#if KERNEL_X86
/* Kinds of codes, for which kernels have separate code. */
typedef enum code_storage { NIBBLES, BYTES, FLOATS } code_storage;
KERNEL_INLINE int codes_kernels_bits_of(code_storage storage) { return storage == NIBBLES ? 4 : 8; }
static inline code_storage codes_kernels_storage_of(const code_panels *panels) {
  return panels->code != CODE_INT ? FLOATS : panels->bits == 4 ? NIBBLES : BYTES;
}

/* Returns the independent sums per row: several for few rows, to hide the latency. */
KERNEL_INLINE int chains_of(int rows) { return rows == 1 ? 4 : rows <= 3 ? 2 : 1; }

/* ---------------------------------------------------------------- AVX-512 */

/* Constants of code_avx512. For 4 bits, base holds the float of each code; for 8 bits, the number
 * that is subtracted. For codes that are floats, see float_codes. */
typedef struct constants_avx512 {
  __m512 base, smallest;
  __m512i up, exponents, special;
} constants_avx512;

TARGET_AVX512 KERNEL_INLINE constants_avx512 constants_of_avx512(code_storage storage,
                                                                 const code_panels *panels) {
  const __m512i codes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  constants_avx512 constants = {.base = _mm512_set1_ps((float)((1 << 23) - panels->least))};
  if (storage == NIBBLES)
    constants.base = _mm512_cvtepi32_ps(_mm512_add_epi32(codes, _mm512_set1_epi32(panels->least)));
  if (storage == FLOATS) {
    const float_codes float_codes = float_codes_of(panels);
    constants.smallest = _mm512_set1_ps(float_codes.smallest);
    constants.up = _mm512_set1_epi32(23 - float_codes.mantissa);
    constants.exponents = _mm512_set1_epi32(float_codes.exponents);
    constants.special = _mm512_set1_epi32(float_codes.special);
  }
  return constants;
}

/* See floats_of. */
TARGET_AVX512 KERNEL_INLINE __m512 floats_avx512(__m512i codes, const constants_avx512 *constants) {
  const __m512i normal = _mm512_set1_epi32(NORMAL), not_finite = _mm512_set1_epi32(NOT_FINITE);
  const __m512i size =
      _mm512_sllv_epi32(_mm512_and_si512(codes, _mm512_set1_epi32(SIGN - 1)), constants->up);
  const __mmask16 small = _mm512_cmplt_epi32_mask(size, normal),
                  special = _mm512_cmpge_epi32_mask(size, constants->special);
  __m512i bits = _mm512_add_epi32(size, constants->exponents);
  bits = _mm512_mask_add_epi32(bits, small, bits, normal);
  bits = _mm512_mask_or_epi32(bits, special, bits, not_finite);
  const __m512 x = _mm512_castsi512_ps(bits);
  const __m512i sign = _mm512_slli_epi32(codes, 24);
  const __m512 size_of = _mm512_mask_sub_ps(x, small, x, constants->smallest);
  return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(
      _mm512_castps_si512(size_of), sign, _mm512_set1_epi32(INT32_MIN), 0xF8)); /* a | (sign & c) */
}

/* Returns code j of each word. An 8-bit code is placed in the last bits of a float whose exponent
 * makes them integers; subtracting the base is exact. */
TARGET_AVX512 KERNEL_INLINE __m512 code_avx512(code_storage storage, __m512i w, int j,
                                               const constants_avx512 *constants) {
  const __m512i at = j ? _mm512_srli_epi32(w, (unsigned)(j * codes_kernels_bits_of(storage))) : w;
  if (storage == NIBBLES)
    return _mm512_permutexvar_ps(at, constants->base); /* indexed by the lowest 4 bits */
  if (storage == FLOATS) return floats_avx512(at, constants);
  const __m512i mask = _mm512_set1_epi32(255), ones = _mm512_set1_epi32(150 << 23);
  return _mm512_sub_ps(_mm512_castsi512_ps(_mm512_ternarylogic_epi32(at, mask, ones, 0xEA)),
                       constants->base);
}

#define TILE_SET TILE_AVX512
#define TILE(name) name##_avx512
#define TILE_ROWS 12
#define TILE_WORDS __m512i
#define TILE_LOAD_WORDS(from) _mm512_loadu_si512(from)
#define TILE_FACTORS(p, block, at, subs_at, span, part) factors_avx512(p, block, at, subs_at, span)
#include "backend/cpu/kernels/gemm/codes_tiles.h"

/* ---------------------------------------------------------------- AVX2: half a panel at a time */

enum { PLACES = 5 };

/* Returns how many codes of a word are converted in place; others are shifted there first. */
KERNEL_INLINE int codes_kernels_places_of(code_storage storage) {
  return storage == NIBBLES ? PLACES : 2;
}

/* bases[i] is subtracted from a code that is converted at place i. It is the value of the float
 * without the code, minus `least`. For codes that are floats, see float_codes. */
typedef struct constants_avx2 {
  __m256 bases[PLACES], smallest;
  __m256i up, exponents, special;
} constants_avx2;

TARGET_AVX2 KERNEL_INLINE constants_avx2 constants_of_avx2(code_storage storage,
                                                           const code_panels *panels) {
  constants_avx2 avx2;
  if (storage == FLOATS) {
    const float_codes codes = float_codes_of(panels);
    avx2.smallest = _mm256_set1_ps(codes.smallest);
    avx2.up = _mm256_set1_epi32(23 - codes.mantissa);
    avx2.exponents = _mm256_set1_epi32(codes.exponents);
    avx2.special = _mm256_set1_epi32(codes.special - 1);
    return avx2;
  }
#pragma GCC unroll 5
  for (int i = 0; i < codes_kernels_places_of(storage); i++)
    avx2.bases[i] =
        _mm256_set1_ps((float)((1 << (23 - i * codes_kernels_bits_of(storage))) - panels->least));
  return avx2;
}

/* See floats_of. */
TARGET_AVX2 KERNEL_INLINE __m256 floats_avx2(__m256i codes, const constants_avx2 *avx2) {
  const __m256i normal = _mm256_set1_epi32(NORMAL), not_finite = _mm256_set1_epi32(NOT_FINITE);
  const __m256i size =
      _mm256_sllv_epi32(_mm256_and_si256(codes, _mm256_set1_epi32(SIGN - 1)), avx2->up);
  const __m256i small = _mm256_cmpgt_epi32(normal, size),
                special = _mm256_cmpgt_epi32(size, avx2->special);
  __m256i bits = _mm256_add_epi32(size, avx2->exponents);
  bits = _mm256_add_epi32(bits, _mm256_and_si256(small, normal));
  bits = _mm256_or_si256(bits, _mm256_and_si256(special, not_finite));
  const __m256 less = _mm256_and_ps(_mm256_castsi256_ps(small), avx2->smallest);
  const __m256i sign = _mm256_and_si256(_mm256_slli_epi32(codes, 24), _mm256_set1_epi32(INT32_MIN));
  return _mm256_or_ps(_mm256_sub_ps(_mm256_castsi256_ps(bits), less), _mm256_castsi256_ps(sign));
}

/* Returns code j of each word, converted like 8-bit codes in code_avx512. */
TARGET_AVX2 KERNEL_INLINE __m256 code_avx2(code_storage storage, __m256i w, int j,
                                           const constants_avx2 *avx2) {
  const int place = j % codes_kernels_places_of(storage),
            at = place * codes_kernels_bits_of(storage);
  if (j >= codes_kernels_places_of(storage))
    w = _mm256_srli_epi32(w, codes_kernels_bits_of(storage) * codes_kernels_places_of(storage));
  if (storage == FLOATS) return floats_avx2(at ? _mm256_srli_epi32(w, at) : w, avx2);
  const __m256i mask = _mm256_set1_epi32(((1 << codes_kernels_bits_of(storage)) - 1) << at),
                ones = _mm256_set1_epi32((150 - at) << 23);
  const __m256i x = _mm256_or_si256(_mm256_and_si256(w, mask), ones);
  return _mm256_sub_ps(_mm256_castsi256_ps(x), avx2->bases[place]);
}

#define TILE_SET TILE_AVX2
#define TILE(name) name##_avx2
#define TILE_ROWS 8
#define TILE_WORDS __m256i
#define TILE_LOAD_WORDS(from) _mm256_loadu_si256((const void *)(from))
#define TILE_FACTORS factors_avx2
#include "backend/cpu/kernels/gemm/codes_tiles.h"
#endif

codes_kernel codes_kernel_for(void) {
  if (KERNEL_PLAIN) return (codes_kernel){0}; /* unused, so the linker drops the kernels */
#if KERNEL_X86
  if (cpu_has_avx512()) return (codes_kernel){max_rows_avx512, run_avx512, widen_avx512};
  if (cpu_has_avx2()) return (codes_kernel){max_rows_avx2, run_avx2, widen_avx2};
#endif
  return (codes_kernel){PORTABLE_ROWS, codes_kernels_run_portable, widen_portable};
}
