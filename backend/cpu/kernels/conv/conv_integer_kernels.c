/* Kernels of integer convolutions for each instruction set: sums (rows, cells) = begin (rows) +
 * weights (rows, words) * patches (words, cells). Also packs patches, and moves tiles to and from
 * rows. Loop order: rows, cells, then k in registers. */
#include "backend/cpu/kernels/conv/conv_integer_kernels.h"

#include <string.h>

#include "backend/cpu/kernels/gemm/amx.h"
#include "backend/cpu/kernels/support/avx512.h"
#if KERNEL_ARM
#include <arm_neon.h>
#endif

enum { TILE = INTEGER_TILE, ROWS = 8 /* number of outputs at a time, except with AMX */ };

KERNEL_INLINE uint32_t weight_word(const weight_rows *weights, int row, int64_t i) {
  uint32_t word;
  memcpy(&word,
         i == weights->n ? weights->rest + 4 * row : weights->first + row * weights->stride + 4 * i,
         sizeof word);
  return word;
}

KERNEL_INLINE int64_t conv_integer_kernels_word_count(const weight_rows *weights) {
  return weights->n + (weights->has_rest ? 1 : 0);
}

/* Returns the rows from r on. */
static inline weight_rows conv_integer_kernels_rows_from(const weight_rows *weights, int r) {
  weight_rows some = *weights;
  some.first += r * weights->stride;
  if (weights->has_rest) some.rest += 4 * r;
  return some;
}

static void conv_integer_kernels_multiply_portable(int rows, int cells, const weight_rows *weights,
                                                   const uint32_t *patches, const int32_t *begin,
                                                   int32_t *sums) {
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < cells; c++) sums[r * TILE + c] = begin[r];
  for (int64_t i = 0; i < conv_integer_kernels_word_count(weights); i++, patches += TILE)
    for (int r = 0; r < rows; r++) {
      uint32_t word = weight_word(weights, r, i);
      int b[4];
      for (int j = 0; j < 4; j++) b[j] = (signed char)(word >> 8 * j);
      int32_t *to = sums + r * TILE;
      for (int c = 0; c < cells; c++) {
        uint32_t x = patches[c];
        to[c] += (int)(x & 255) * b[0] + (int)(x >> 8 & 255) * b[1] + (int)(x >> 16 & 255) * b[2] +
                 (int)(x >> 24) * b[3];
      }
    }
}

#if KERNEL_X86
enum { AVX2_VECTORS = 2, AVX2_ROWS = 3, AVX512_VECTORS = 2 };

/* Multiplies bytes 0 and 2, then 1 and 3, as 16 bits each. The sum of two products fits in 32
 * bits. */
KERNEL_INLINE __attribute__((target("avx2"))) void multiply_avx2_rows(int rows,
                                                                      const weight_rows *weights,
                                                                      const uint32_t *patches,
                                                                      const int32_t *begin,
                                                                      int32_t *sums) {
  const __m256i low = _mm256_set1_epi32(0x00ff00ff);
  __m256i sum[ROWS][AVX2_VECTORS];
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < AVX2_VECTORS; v++) sum[r][v] = _mm256_set1_epi32(begin[r]);
  for (int64_t i = 0; i < conv_integer_kernels_word_count(weights); i++, patches += TILE) {
    __m256i even[AVX2_VECTORS], odd[AVX2_VECTORS];
    for (int v = 0; v < AVX2_VECTORS; v++) {
      const __m256i x = _mm256_loadu_si256((const __m256i *)(patches + 8 * v));
      even[v] = _mm256_and_si256(x, low);
      odd[v] = _mm256_srli_epi16(x, 8);
    }
    for (int r = 0; r < rows; r++) {
      const __m256i word = _mm256_set1_epi32((int)weight_word(weights, r, i)),
                    b_odd = _mm256_srai_epi16(word, 8),
                    b_even = _mm256_srai_epi16(_mm256_slli_epi16(word, 8), 8);
      for (int v = 0; v < AVX2_VECTORS; v++) {
        sum[r][v] = _mm256_add_epi32(sum[r][v], _mm256_madd_epi16(even[v], b_even));
        sum[r][v] = _mm256_add_epi32(sum[r][v], _mm256_madd_epi16(odd[v], b_odd));
      }
    }
  }
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < AVX2_VECTORS; v++)
      _mm256_storeu_si256((__m256i *)(sums + r * TILE + 8 * v), sum[r][v]);
}

static __attribute__((target("avx2"))) void conv_integer_kernels_multiply_avx2(
    int rows, int cells, const weight_rows *weights, const uint32_t *patches, const int32_t *begin,
    int32_t *sums) {
  for (int r = 0, n; r < rows; r += n) {
    n = rows - r < AVX2_ROWS ? 1 : AVX2_ROWS;
    const weight_rows some = conv_integer_kernels_rows_from(weights, r);
    for (int c = 0; c < cells; c += 8 * AVX2_VECTORS) {
      int32_t *to = sums + r * TILE + c;
      if (n == AVX2_ROWS)
        multiply_avx2_rows(AVX2_ROWS, &some, patches + c, begin + r, to);
      else
        multiply_avx2_rows(1, &some, patches + c, begin + r, to);
    }
  }
}

/* Adds the product of one word of each cell and one word of each row to sum. */
KERNEL_INLINE TARGET_AVX512_VNNI void add_word_vnni(int rows, const uint32_t *words,
                                                    const uint32_t *patches,
                                                    __m512i sum[][AVX512_VECTORS]) {
  __m512i x[AVX512_VECTORS];
#pragma GCC unroll 2
  for (int v = 0; v < AVX512_VECTORS; v++) x[v] = _mm512_loadu_si512(patches + 16 * v);
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++) {
    const __m512i word = _mm512_set1_epi32((int)words[r]);
#pragma GCC unroll 2
    for (int v = 0; v < AVX512_VECTORS; v++) sum[r][v] = add_dots_avx512(sum[r][v], x[v], word);
  }
}

KERNEL_INLINE TARGET_AVX512_VNNI void multiply_vnni_rows(int rows, const weight_rows *weights,
                                                         const uint32_t *patches,
                                                         const int32_t *begin, int32_t *sums) {
  __m512i sum[ROWS][AVX512_VECTORS];
  uint32_t words[ROWS];
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
    for (int v = 0; v < AVX512_VECTORS; v++) sum[r][v] = _mm512_set1_epi32(begin[r]);
  for (int64_t i = 0; i < weights->n; i++, patches += TILE) {
    /* Prefetches one cache line of a following row for each line that is read here. */
    prefetch_line(weights->first + (rows + i % rows) * weights->stride, (int)(i / 16 * 64));
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
      memcpy(&words[r], weights->first + r * weights->stride + 4 * i, sizeof *words);
    add_word_vnni(rows, words, patches, sum);
  }
  if (weights->has_rest) {
    memcpy(words, weights->rest, (size_t)rows * sizeof *words);
    add_word_vnni(rows, words, patches, sum);
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
    for (int v = 0; v < AVX512_VECTORS; v++)
      _mm512_storeu_si512(sums + r * TILE + 16 * v, sum[r][v]);
}

static TARGET_AVX512_VNNI void conv_integer_kernels_multiply_vnni(int rows, int cells,
                                                                  const weight_rows *weights,
                                                                  const uint32_t *patches,
                                                                  const int32_t *begin,
                                                                  int32_t *sums) {
  for (int c = 0; c < cells; c += 16 * AVX512_VECTORS) {
    if (rows == 8) multiply_vnni_rows(8, weights, patches + c, begin, sums + c);
    if (rows == 7) multiply_vnni_rows(7, weights, patches + c, begin, sums + c);
    if (rows == 6) multiply_vnni_rows(6, weights, patches + c, begin, sums + c);
    if (rows == 5) multiply_vnni_rows(5, weights, patches + c, begin, sums + c);
    if (rows == 4) multiply_vnni_rows(4, weights, patches + c, begin, sums + c);
    if (rows == 3) multiply_vnni_rows(3, weights, patches + c, begin, sums + c);
    if (rows == 2) multiply_vnni_rows(2, weights, patches + c, begin, sums + c);
    if (rows == 1) multiply_vnni_rows(1, weights, patches + c, begin, sums + c);
  }
}

/* A tile of weights has 64 bytes (one step) of 16 rows. AMX registers 0 to 3 hold sums of 16 cells
 * each, register 4 weights, 5 and 6 patches. */
enum {
  AMX_STEP = AMX_WORDS * 4,
  AMX_CELLS = 16,
  MIN_AMX_K = 20 /* for a smaller k, AMX is slower than VNNI (Sapphire Rapids, k = 16: 1.15) */
};

/* Copies a step of `rows` rows, and zeros for the others of a tile. */
KERNEL_INLINE TARGET_AMX void copy_few_rows(int rows, const unsigned char *from, int64_t stride,
                                            unsigned char *to) {
  for (int r = 0; r < AMX_ROWS; r++)
    _mm512_store_si512(to + r * AMX_STEP,
                       r < rows ? _mm512_loadu_si512(from + r * stride) : _mm512_setzero_si512());
}

/* Adds a step of weights times a step of patches to the sums of `tiles` times 16 cells. */
KERNEL_INLINE TARGET_AMX void add_step_amx(int tiles, const unsigned char *weight, int64_t stride,
                                           const uint32_t *patches) {
  enum { ROW = TILE * sizeof(uint32_t) };
  _tile_loadd(4, weight, (size_t)stride);
  _tile_loadd(5, patches, ROW);
  _tile_dpbsud(0, 4, 5);
  if (tiles > 1) _tile_loadd(6, patches + AMX_CELLS, ROW);
  if (tiles > 1) _tile_dpbsud(1, 4, 6);
  if (tiles > 2) _tile_loadd(5, patches + 2 * AMX_CELLS, ROW);
  if (tiles > 2) _tile_dpbsud(2, 4, 5);
  if (tiles > 3) _tile_loadd(6, patches + 3 * AMX_CELLS, ROW);
  if (tiles > 3) _tile_dpbsud(3, 4, 6);
}

KERNEL_INLINE TARGET_AMX void store_sums_amx(int tiles, int32_t *sums) {
  enum { ROW = TILE * sizeof(int32_t) };
  _tile_stored(0, sums, ROW);
  if (tiles > 1) _tile_stored(1, sums + AMX_CELLS, ROW);
  if (tiles > 2) _tile_stored(2, sums + 2 * AMX_CELLS, ROW);
  if (tiles > 3) _tile_stored(3, sums + 3 * AMX_CELLS, ROW);
}

/* Multiplies a tile of 16 rows, of which `rows` are read and stored. */
KERNEL_INLINE TARGET_AMX void multiply_amx_tiles(int tiles, int rows, const weight_rows *weights,
                                                 const uint32_t *patches, const int32_t *begin,
                                                 int32_t *sums) {
  _Alignas(64) unsigned char few[AMX_ROWS * AMX_STEP];
  _Alignas(64) int32_t some[AMX_ROWS * TILE];
  const bool is_whole = rows == AMX_ROWS;
  int32_t *to = is_whole ? sums : some;
  amx_compiler_barrier();
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t i = 0; i < weights->n + weights->has_rest; i++, patches += AMX_WORDS * TILE) {
    const unsigned char *weight = i < weights->n ? weights->first + i * AMX_STEP : weights->rest;
    int64_t stride = i < weights->n ? weights->stride : AMX_STEP;
    /* Prefetches the same step of the next rows. */
#pragma GCC unroll 16
    for (int r = 0; r < AMX_ROWS; r++)
      prefetch_line(weights->first + (AMX_ROWS + r) * weights->stride, (int)i * AMX_STEP);
    if (!is_whole) {
      copy_few_rows(rows, weight, stride, few);
      amx_compiler_barrier();
      weight = few;
      stride = AMX_STEP;
    }
    add_step_amx(tiles, weight, stride, patches);
  }
  store_sums_amx(tiles, to);
  for (int r = 0; r < rows; r++)
    for (int t = 0; t < tiles; t++) {
      const __m512i sum = _mm512_loadu_si512(to + r * TILE + t * AMX_CELLS);
      _mm512_storeu_si512(sums + r * TILE + t * AMX_CELLS,
                          _mm512_add_epi32(sum, _mm512_set1_epi32(begin[r])));
    }
}

static TARGET_AMX void conv_integer_kernels_multiply_amx(int rows, int cells,
                                                         const weight_rows *weights,
                                                         const uint32_t *patches,
                                                         const int32_t *begin, int32_t *sums) {
  const int tiles = (cells + AMX_CELLS - 1) / AMX_CELLS;
  if (tiles == 1) multiply_amx_tiles(1, rows, weights, patches, begin, sums);
  if (tiles == 2) multiply_amx_tiles(2, rows, weights, patches, begin, sums);
  if (tiles == 3) multiply_amx_tiles(3, rows, weights, patches, begin, sums);
  if (tiles == 4) multiply_amx_tiles(4, rows, weights, patches, begin, sums);
}

static TARGET_AMX void conv_integer_kernels_begin_amx(void) { amx_begin(); }
static TARGET_AMX void conv_integer_kernels_end_amx(void) { amx_end(); }
#endif

#if KERNEL_ARM
enum { NEON_CELLS = 4, NEON_VECTORS = 4, NEON_ROWS = 4 };

KERNEL_INLINE TARGET_DOTPROD void multiply_dotprod_rows(int rows, const weight_rows *weights,
                                                        const uint32_t *patches,
                                                        const int32_t *begin, int32_t *sums) {
  int32x4_t sum[NEON_ROWS][NEON_VECTORS];
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
    for (int v = 0; v < NEON_VECTORS; v++) sum[r][v] = vdupq_n_s32(begin[r]);
  for (int64_t i = 0; i < conv_integer_kernels_word_count(weights); i++, patches += TILE) {
    int8x16_t x[NEON_VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < NEON_VECTORS; v++)
      x[v] = vreinterpretq_s8_u32(vld1q_u32(patches + NEON_CELLS * v));
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
      const int8x16_t word = vreinterpretq_s8_u32(vdupq_n_u32(weight_word(weights, r, i)));
#pragma GCC unroll 4
      for (int v = 0; v < NEON_VECTORS; v++) sum[r][v] = vdotq_s32(sum[r][v], x[v], word);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
    for (int v = 0; v < NEON_VECTORS; v++) vst1q_s32(sums + r * TILE + NEON_CELLS * v, sum[r][v]);
}

static TARGET_DOTPROD void conv_integer_kernels_multiply_dotprod(int rows, int cells,
                                                                 const weight_rows *weights,
                                                                 const uint32_t *patches,
                                                                 const int32_t *begin,
                                                                 int32_t *sums) {
  for (int r = 0; r < rows; r += NEON_ROWS) {
    const weight_rows some = conv_integer_kernels_rows_from(weights, r);
    const int n = rows - r < NEON_ROWS ? rows - r : NEON_ROWS;
    for (int c = 0; c < cells; c += NEON_CELLS * NEON_VECTORS) {
      int32_t *to = sums + r * TILE + c;
      if (n == 4) multiply_dotprod_rows(4, &some, patches + c, begin + r, to);
      if (n == 3) multiply_dotprod_rows(3, &some, patches + c, begin + r, to);
      if (n == 2) multiply_dotprod_rows(2, &some, patches + c, begin + r, to);
      if (n == 1) multiply_dotprod_rows(1, &some, patches + c, begin + r, to);
    }
  }
}

/* Returns words i and i + 1 of rows r and r + 1, or r twice if it is the last. Missing words are
 * 0. */
KERNEL_INLINE int8x16_t weight_pair(int rows, const weight_rows *weights, int r, int64_t i) {
  const int next = r + 1 < rows ? r + 1 : r;
  const bool is_last = i + 1 == conv_integer_kernels_word_count(weights);
  const uint32_t words[4] = {
      weight_word(weights, r, i), is_last ? 0 : weight_word(weights, r, i + 1),
      weight_word(weights, next, i), is_last ? 0 : weight_word(weights, next, i + 1)};
  return vreinterpretq_s8_u32(vld1q_u32(words));
}

/* Multiplies (2, 8) by (8, 2) bytes: pairs of rows by pairs of cells. */
KERNEL_INLINE TARGET_I8MM void multiply_i8mm_rows(int rows, const weight_rows *weights,
                                                  const uint32_t *patches, const int32_t *begin,
                                                  int32_t *sums) {
  const int pairs = (rows + 1) / 2;
  int32x4_t acc[NEON_ROWS / 2][NEON_VECTORS][2];
#pragma GCC unroll 2
  for (int p = 0; p < pairs; p++)
#pragma GCC unroll 4
    for (int v = 0; v < NEON_VECTORS; v++) acc[p][v][0] = acc[p][v][1] = vdupq_n_s32(0);
  for (int64_t i = 0; i < conv_integer_kernels_word_count(weights); i += 2, patches += 2 * TILE) {
    const uint32_t *next =
        i + 1 < conv_integer_kernels_word_count(weights) ? patches + TILE : patches; /* weight 0 */
    int8x16_t y[NEON_ROWS / 2];
#pragma GCC unroll 2
    for (int p = 0; p < pairs; p++) y[p] = weight_pair(rows, weights, 2 * p, i);
#pragma GCC unroll 4
    for (int v = 0; v < NEON_VECTORS; v++) {
      const uint32x4_t a = vld1q_u32(patches + NEON_CELLS * v),
                       b = vld1q_u32(next + NEON_CELLS * v);
#pragma GCC unroll 2
      for (int p = 0; p < pairs; p++) {
        acc[p][v][0] = vmmlaq_s32(acc[p][v][0], vreinterpretq_s8_u32(vzip1q_u32(a, b)), y[p]);
        acc[p][v][1] = vmmlaq_s32(acc[p][v][1], vreinterpretq_s8_u32(vzip2q_u32(a, b)), y[p]);
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
    for (int v = 0; v < NEON_VECTORS; v++) {
      const int32x4_t *of = acc[r / 2][v];
      int32_t *to = sums + r * TILE + NEON_CELLS * v;
      const int32x4_t sum = r % 2 ? vuzp2q_s32(of[0], of[1]) : vuzp1q_s32(of[0], of[1]);
      vst1q_s32(to, vaddq_s32(vdupq_n_s32(begin[r]), sum));
    }
}

static TARGET_I8MM void conv_integer_kernels_multiply_i8mm(int rows, int cells,
                                                           const weight_rows *weights,
                                                           const uint32_t *patches,
                                                           const int32_t *begin, int32_t *sums) {
  for (int r = 0; r < rows; r += NEON_ROWS) {
    const weight_rows some = conv_integer_kernels_rows_from(weights, r);
    const int n = rows - r < NEON_ROWS ? rows - r : NEON_ROWS;
    for (int c = 0; c < cells; c += NEON_CELLS * NEON_VECTORS) {
      int32_t *to = sums + r * TILE + c;
      if (n == 4) multiply_i8mm_rows(4, &some, patches + c, begin + r, to);
      if (n == 3) multiply_i8mm_rows(3, &some, patches + c, begin + r, to);
      if (n == 2) multiply_i8mm_rows(2, &some, patches + c, begin + r, to);
      if (n == 1) multiply_i8mm_rows(1, &some, patches + c, begin + r, to);
    }
  }
}
#endif

/* ---------------------------------------------------------------- words of patches */

static void conv_integer_kernels_pack_portable(const unsigned char *const rows[4], uint32_t flip,
                                               uint32_t *to) {
  for (int c = 0; c < TILE; c++)
    to[c] = ((uint32_t)rows[0][c] | (uint32_t)rows[1][c] << 8 | (uint32_t)rows[2][c] << 16 |
             (uint32_t)rows[3][c] << 24) ^
            flip;
}

#if KERNEL_X86
/* Joins bytes of four rows to words. The dwords of each row are first permuted so that unpacking
 * bytes, then pairs of bytes, yields the words in order. */
static TARGET_AVX512_VNNI void conv_integer_kernels_pack_vnni(const unsigned char *const rows[4],
                                                              uint32_t flip, uint32_t *to) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15),
                all = _mm512_set1_epi32((int)flip);
  __m512i r[4];
#pragma GCC unroll 4
  for (int k = 0; k < 4; k++) r[k] = _mm512_permutexvar_epi32(order, _mm512_loadu_si512(rows[k]));
  const __m512i low01 = _mm512_unpacklo_epi8(r[0], r[1]), low23 = _mm512_unpacklo_epi8(r[2], r[3]),
                high01 = _mm512_unpackhi_epi8(r[0], r[1]),
                high23 = _mm512_unpackhi_epi8(r[2], r[3]);
  _mm512_storeu_si512(to, _mm512_xor_si512(_mm512_unpacklo_epi16(low01, low23), all));
  _mm512_storeu_si512(to + 16, _mm512_xor_si512(_mm512_unpackhi_epi16(low01, low23), all));
  _mm512_storeu_si512(to + 32, _mm512_xor_si512(_mm512_unpacklo_epi16(high01, high23), all));
  _mm512_storeu_si512(to + 48, _mm512_xor_si512(_mm512_unpackhi_epi16(high01, high23), all));
}
#endif

/* ---------------------------------------------------------------- moving tiles */

static void scatter_portable(const char *tile, int64_t size, const cell_run *runs, int n_runs,
                             char *row) {
  for (const cell_run *c = runs; c < runs + n_runs; c++)
    copy_few(row + c->cell * size, tile + c->from * size, c->n * size);
}

static void gather_portable(const char *row, int64_t size, const cell_run *runs, int n_runs,
                            char *tile) {
  for (const cell_run *c = runs; c < runs + n_runs; c++)
    copy_few(tile + c->from * size, row + c->cell * size, c->n * size);
}

#if KERNEL_X86
/* Returns a mask of the first n bits of 64. */
KERNEL_INLINE uint64_t first_bits(int64_t n) {
  return n >= 64 ? ~UINT64_C(0) : n > 0 ? (UINT64_C(1) << n) - 1 : 0;
}

/* Returns a mask of the bytes of a run in vector v of a tile. */
KERNEL_INLINE uint64_t bytes_of_run(const cell_run *run, int64_t size, int64_t v) {
  const int64_t begin = run->from * size - 64 * v;
  return first_bits(begin + run->n * size) & ~first_bits(begin);
}

/* Returns the offset that byte 0 of vector v would have if the whole tile were this run. The mask
 * excludes bytes outside the run. A tile is read in the vectors in which it was written. */
KERNEL_INLINE int64_t place_of_run(const cell_run *run, int64_t size, int64_t v) {
  return (run->cell - run->from) * size + 64 * v;
}

static TARGET_AVX512_VNNI void scatter_vnni(const char *tile, int64_t size, const cell_run *runs,
                                            int n_runs, char *row) {
  for (int64_t v = 0; v < TILE * size / 64; v++) {
    const __m512i x = _mm512_loadu_si512(tile + 64 * v);
    for (const cell_run *c = runs; c < runs + n_runs; c++) {
      const uint64_t some = bytes_of_run(c, size, v);
      if (some) _mm512_mask_storeu_epi8(row + place_of_run(c, size, v), some, x);
    }
  }
}

static TARGET_AVX512_VNNI void gather_vnni(const char *row, int64_t size, const cell_run *runs,
                                           int n_runs, char *tile) {
  for (int64_t v = 0; v < TILE * size / 64; v++) {
    __m512i x = _mm512_setzero_si512();
    for (const cell_run *c = runs; c < runs + n_runs; c++) {
      const uint64_t some = bytes_of_run(c, size, v);
      if (some) x = _mm512_mask_loadu_epi8(x, some, row + place_of_run(c, size, v));
    }
    _mm512_storeu_si512(tile + 64 * v, x);
  }
}
#endif

static const integer_kernel portable = {.multiply = conv_integer_kernels_multiply_portable,
                                        .pack = conv_integer_kernels_pack_portable,
                                        .scatter = scatter_portable,
                                        .gather = gather_portable,
                                        .rows = ROWS,
                                        .step = 4};

#if KERNEL_X86 || KERNEL_ARM
/* Returns the portable kernel with another multiply. */
static integer_kernel with_multiply(void (*multiply)(int rows, int cells,
                                                     const weight_rows *weights,
                                                     const uint32_t *patches, const int32_t *begin,
                                                     int32_t *sums),
                                    bool is_signed) {
  integer_kernel kernel = portable;
  kernel.multiply = multiply;
  kernel.is_signed = is_signed;
  return kernel;
}
#endif

#if KERNEL_X86
static const integer_kernel vnni = {.multiply = conv_integer_kernels_multiply_vnni,
                                    .pack = conv_integer_kernels_pack_vnni,
                                    .scatter = scatter_vnni,
                                    .gather = gather_vnni,
                                    .rows = ROWS,
                                    .step = 4};
static const integer_kernel amx = {.multiply = conv_integer_kernels_multiply_amx,
                                   .pack = conv_integer_kernels_pack_vnni,
                                   .scatter = scatter_vnni,
                                   .gather = gather_vnni,
                                   .begin = conv_integer_kernels_begin_amx,
                                   .end = conv_integer_kernels_end_amx,
                                   .rows = AMX_ROWS,
                                   .fills = true,
                                   .step = AMX_STEP};
#endif

integer_kernel choose_integer_kernel(int64_t k) {
#if KERNEL_X86
  if (cpu_has_amx() && k >= MIN_AMX_K) return amx;
  if (cpu_has_avx512_vnni()) return vnni;
  if (cpu_has_avx2()) return with_multiply(conv_integer_kernels_multiply_avx2, false);
#endif
#if KERNEL_ARM
  if (cpu_has_i8mm()) return with_multiply(conv_integer_kernels_multiply_i8mm, true);
  if (cpu_has_dotprod()) return with_multiply(conv_integer_kernels_multiply_dotprod, true);
#endif
  (void)k;
  return portable;
}
