/* c = from + a * b of words of BF16 pairs: packs rows and columns as words, and multiplies them. */
#include "backend/cpu/kernels/gemm/pairs.h"

#include <string.h>

#include "backend/cpu/kernels/gemm/amx.h"
#include "backend/cpu/kernels/gemm/pairs_vectors.h"
#include "backend/cpu/kernels/support/vec4.h"
#include "base/counts.h"

/* ---------------------------------------------------------------- packing */

enum { SOME = ROW_BLOCK / 2 /* words of a lane at a time */, MAX_LANES = 32 };

static void round_portable(const float *x /* (2 n) */, int64_t n, uint32_t *to) {
  for (int64_t i = 0; i < n; i++)
    to[i] = f32_to_bf16(x[2 * i]) | (uint32_t)f32_to_bf16(x[2 * i + 1]) << 16;
}

#if KERNEL_X86
TARGET_AVX512_BF16 static void round_bf16(const float *x, int64_t n, uint32_t *to) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    _mm512_storeu_si512(to + i, (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + 2 * i + 16),
                                                             _mm512_loadu_ps(x + 2 * i)));
  if (i == n) return;
  const uint32_t some = bits_between(0, 2 * (n - i));
  const __m512 low = _mm512_maskz_loadu_ps((__mmask16)some, x + 2 * i),
               high = _mm512_maskz_loadu_ps((__mmask16)(some >> 16), x + 2 * i + 16);
  _mm512_mask_storeu_epi32(to + i, (__mmask16)bits_between(0, n - i),
                           (__m512i)_mm512_cvtne2ps_pbh(high, low));
}

/* Joins elements of two rows to words [i, i + n), n <= 16. */
TARGET_AVX512_BF16 KERNEL_INLINE void join_some(const float *even, const float *odd, int64_t i,
                                                int64_t n, __m512i order, uint32_t *to) {
  const __mmask16 some = (__mmask16)bits_between(0, n);
  const __m512 low = _mm512_maskz_loadu_ps(some, even + i),
               high = odd ? _mm512_maskz_loadu_ps(some, odd + i) : _mm512_setzero_ps();
  _mm512_mask_storeu_epi32(to + i, some, join_avx512(low, high, order));
}

TARGET_AVX512_BF16 static void pairs_join_bf16(const float *even, const float *odd, int64_t n,
                                               uint32_t *to) {
  const __m512i order = join_order();
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) join_some(even, odd, i, 16, order, to);
  if (i < n) join_some(even, odd, i, n - i, order, to);
}
#endif

static void pairs_join_portable(const float *even, const float *odd, int64_t n, uint32_t *to) {
  for (int64_t i = 0; i < n; i++)
    to[i] = f32_to_bf16(even[i]) | (odd ? (uint32_t)f32_to_bf16(odd[i]) << 16 : 0);
}

#if KERNEL_ARM
TARGET_ARM_BF16 static void join_arm(const float *even, const float *odd, int64_t n, uint32_t *to) {
  const float32x4_t none = vdupq_n_f32(0);
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const uint16x4_t low = vreinterpret_u16_bf16(vcvt_bf16_f32(vld1q_f32(even + i))),
                     high = vreinterpret_u16_bf16(vcvt_bf16_f32(odd ? vld1q_f32(odd + i) : none));
    vst1q_u32(to + i, vorrq_u32(vmovl_u16(low), vshll_n_u16(high, 16)));
  }
  pairs_join_portable(even + i, odd ? odd + i : NULL, n - i, to + i);
}

TARGET_ARM_BF16 static void round_arm(const float *x, int64_t n, uint32_t *to) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const bfloat16x8_t low = vcvtq_low_bf16_f32(vld1q_f32(x + 2 * i));
    vst1q_u32(to + i, vreinterpretq_u32_bf16(vcvtq_high_bf16_f32(low, vld1q_f32(x + 2 * i + 4))));
  }
  round_portable(x + 2 * i, n - i, to + i);
}
#endif

void pairs_round(const float *x, int64_t n, uint32_t *to) {
#if KERNEL_X86
  if (cpu_has_avx512_bf16()) {
    round_bf16(x, n, to);
    return;
  }
#endif
#if KERNEL_ARM
  if (cpu_has_arm_bf16()) {
    round_arm(x, n, to);
    return;
  }
#endif
  round_portable(x, n, to);
}

void pairs_join(const float *even, const float *odd, int64_t n, uint32_t *to) {
#if KERNEL_X86
  if (cpu_has_avx512_bf16()) {
    pairs_join_bf16(even, odd, n, to);
    return;
  }
#endif
#if KERNEL_ARM
  if (cpu_has_arm_bf16()) {
    join_arm(even, odd, n, to);
    return;
  }
#endif
  pairs_join_portable(even, odd, n, to);
}

void pairs_join_panels(const float *x, int64_t stride, int64_t rows, int64_t n, int64_t width,
                       uint32_t *to) {
  const int64_t words = pairs_of(rows);
  for (int64_t i = 0; i < words; i++, x += 2 * stride)
    for (int64_t column = 0; column < n; column += width)
      pairs_join(x + column, 2 * i + 1 < rows ? x + stride + column : NULL,
                 min_i64(width, n - column), to + column * words + i * width);
}

/* Loads n words of a lane. */
static void pairs_load_words(const pairs_source *source, int64_t lane, int64_t word, int64_t n,
                             uint32_t *to) {
  float x[2 * SOME];
  int64_t k = 2 * word, kn = min_i64(2 * n, source->k - k);
  const void *from =
      element_at(source->data, source->type, lane * source->lane_stride + k * source->k_stride);
  if (source->type == DTYPE_F32 && source->k_stride == 1 && kn == 2 * n) {
    pairs_round(from, n, to);
    return;
  }
  if (source->type == DTYPE_BF16 && source->k_stride == 1 && kn == 2 * n) {
    memcpy(to, from, (size_t)n * sizeof *to);
    return;
  }
  load_row(COMPUTE_F32, source->type, from, source->k_stride, kn, x);
  if (kn < 2 * n) x[kn] = 0;
  pairs_round(x, n, to);
}

void pairs_pack(const pairs_source *source, int64_t lane, int64_t lanes, int64_t word, int64_t n,
                int64_t width, uint32_t *to) {
  uint32_t words[MAX_LANES][SOME];
  for (int64_t at = 0; at < n; at += SOME) {
    int64_t some = min_i64(SOME, n - at);
    for (int64_t i = 0; i < lanes; i++)
      pairs_load_words(source, lane + i, word + at, some, words[i]);
    gemm_pack_strided(COMPUTE_F32, DTYPE_F32, words, SOME, 1, lanes, some, width, to + at * width);
  }
}

void pairs_pack_blocks(const pairs_source *source, int64_t lane, int64_t lanes, int64_t word,
                       int64_t n, int64_t width, uint32_t *to) {
  enum { BLOCK = PAIRS_DEEP * (int)sizeof *to };
  uint32_t words[SOME];
  for (int64_t i = 0; i < lanes; i++)
    for (int64_t at = 0; at < n; at += SOME) {
      const int64_t some = min_i64(SOME, n - at), whole = round_up(some, PAIRS_DEEP);
      pairs_load_words(source, lane + i, word + at, some, words);
      for (int64_t j = some; j < whole; j++) words[j] = 0;
      for (int64_t j = 0; j < whole; j += PAIRS_DEEP)
        memcpy(to + (at + j) * width + i * PAIRS_DEEP, words + j, BLOCK);
    }
}

typedef struct packing {
  const gemm_b *b;
  uint32_t *to;
} packing;

/* Describes the words of b as gemm.c reads them. */
static gemm_b pairs_words_of(const gemm_b *b) {
  return (gemm_b){.type = DTYPE_F32, .n = b->n, .k = pairs_of(b->k)};
}

static void pairs_pack_panels(void *ctx, int64_t begin, int64_t end) {
  const packing *packing = ctx;
  const gemm_b *gemm_b = packing->b;
  const pairs_source source = {gemm_b->type, gemm_b->data, gemm_b->k, gemm_b->n_stride,
                               gemm_b->k_stride};
  int64_t width = pairs_kernel().nr, words = pairs_of(gemm_b->k);
  for (int64_t i = begin; i < end; i++) {
    int64_t lanes = min_i64(width, gemm_b->n - i * width);
    uint32_t *to = packing->to + i * width * words;
    if (lanes < width) memset(to, 0, (size_t)(words * width) * sizeof *to);
    pairs_pack(&source, i * width, lanes, 0, words, width, to);
  }
}

size_t pairs_b_bytes(const gemm_b *b) {
  const gemm_b words = pairs_words_of(b);
  return gemm_b_bytes(&words);
}

void pairs_pack_b(const kernel_context *ctx, const gemm_b *b, char *to) {
  enum { GRAIN = 8 << 10 /* words that justify waking a thread */ };
  packing packing = {b, (uint32_t *)(void *)to};
  int64_t width = pairs_kernel().nr;
  ctx->parallel_for(ctx->pool, (b->n + width - 1) / width, GRAIN / (pairs_of(b->k) * width) + 1,
                    pairs_pack_panels, &packing);
}

/* ---------------------------------------------------------------- any processor */

enum { PORTABLE_ROWS = 4 };

/* Computes four columns of each row. */
static void run_four(const gemm_tile *tile, int rows, int columns, int column) {
  const int32_t *a = tile->a, *b = tile->b;
  vec4 sums[PORTABLE_ROWS] = {{0}};
  for (int64_t k = 0; k < tile->k; k++, a += rows, b += columns) {
    int4 w;
    memcpy(&w, b + column, sizeof w);
    for (int i = 0; i < rows; i++)
      sums[i] = vec4_add_pairs(sums[i], (vec4)((int4){0} + a[i]), (vec4)w);
  }
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < 4; j++)
      ((float *)tile->c)[i * tile->ldc + column + j] =
          ((const float *)tile->from)[i * tile->from_stride + column + j] + sums[i][j];
}

static void pairs_run_columns(const gemm_tile *tile, int rows, int columns) {
  for (int j = 0; j < columns; j += 4) run_four(tile, rows, columns, j);
}
static void run_8(const gemm_tile *tile, int rows) { pairs_run_columns(tile, rows, 8); }

#if KERNEL_X86
static void run_16(const gemm_tile *tile, int rows) { pairs_run_columns(tile, rows, 16); }
static void run_32(const gemm_tile *tile, int rows) { pairs_run_columns(tile, rows, 32); }

/* ---------------------------------------------------------------- AVX-512 BF16 */

/* sums (rows, 2) += words of a (rows) * 32 columns of b. */
TARGET_AVX512_BF16 KERNEL_INLINE void pairs_add_bf16(dtype type, int rows, const float *a,
                                                     const void *b, int64_t at, __m512 *sums) {
  enum { AHEAD = 2048 /* bytes */ };
  const char *from = (const char *)b + at * (int64_t)sizeof *a;
  const __m512bh b0 = (__m512bh)_mm512_loadu_si512(from),
                 b1 = (__m512bh)_mm512_loadu_si512(from + sizeof b0);
  (void)type;
  prefetch_line(from, AHEAD);
  prefetch_line(from + sizeof b0, AHEAD);
#pragma GCC unroll 12
  for (int i = 0; i < rows; i++) {
    const __m512bh x = (__m512bh)_mm512_set1_ps(a[i]);
    sums[2 * i] = _mm512_dpbf16_ps(sums[2 * i], x, b0);
    sums[2 * i + 1] = _mm512_dpbf16_ps(sums[2 * i + 1], x, b1);
  }
}

#define TILE_TARGET TARGET_AVX512_BF16
#define TILE_ONE tile_bf16
#define TILE_RUN rows_bf16
#define TILE_ROWS 12
#define TILE_COLUMNS 32
#define TILE_VECTOR __m512
#define TILE_ADD pairs_add_bf16
#include "backend/cpu/kernels/gemm/gemm_tiles.h"

TARGET_AVX512_BF16 static void pairs_run_bf16(const gemm_tile *tile, int rows) {
  rows_bf16(DTYPE_F32, tile, rows);
}

/* ---------------------------------------------------------------- AMX */

/* For each 32 k, AMX adds 16 products of even k and 16 products of odd k in f32, and adds both sums
 * to the element. So a product is rounded at most k / 32 + 17 times. With chains of GEMM_BLOCK_K
 * words it would be rounded 128 times, and when the chains are added. */
enum {
  AMX_TILE_ROWS = 2 * AMX_ROWS,
  AMX_TILE_COLUMNS = 2 * AMX_WORDS,
  AMX_CHAIN = 256 /* words of a chain; so many of a panel of b fit in the first-level cache */
};

/* Adds the last words, fewer than a tile has. Copies the words of b, because other words follow
 * them. */
TARGET_AMX KERNEL_INLINE void add_rest_amx(int tiles, const char *a, const char *b, int64_t n) {
  _Alignas(64) char rest[PAIRS_DEEP * 2 * AMX_ROW_BYTES];
  memset(rest, 0, sizeof rest);
  memcpy(rest, b, (size_t)n * 2 * AMX_ROW_BYTES);
  amx_compiler_barrier();
  amx_add_products(tiles, 2, a, AMX_ROW_BYTES, rest, 2 * AMX_ROW_BYTES);
}

/* Prefetches two rows of c, which will be stored. */
KERNEL_INLINE void prefetch_rows_amx(const char *c, int64_t stride) {
  for (int i = 0; i < 2; i++) {
    __builtin_prefetch(c + i * stride, 1, 3);
    __builtin_prefetch(c + i * stride + AMX_ROW_BYTES, 1, 3);
  }
}

/* Computes all rows of the tiles. */
TARGET_AMX KERNEL_INLINE void pairs_tiles_amx(int tiles, const gemm_tile *tile) {
  const int64_t c_stride = tile->ldc * 4, a_stride = tiles * AMX_ROWS * AMX_ROW_BYTES;
  const char *a = tile->a, *b = tile->b;
  char *c = tile->c;
  amx_load_sums(tiles, 2, tile->from, tile->from_stride * 4);
  int64_t k = 0;
  for (; k + PAIRS_DEEP <= tile->k;
       k += PAIRS_DEEP, a += a_stride, b += PAIRS_DEEP * 2 * AMX_ROW_BYTES) {
    prefetch_bytes(tile->next + k * tile->next_stride, PAIRS_DEEP * tile->next_stride);
    if (k < tiles * AMX_ROWS * (PAIRS_DEEP / 2))
      prefetch_rows_amx(c + k / (PAIRS_DEEP / 2) * c_stride, c_stride);
    amx_add_products(tiles, 2, a, AMX_ROW_BYTES, b, 2 * AMX_ROW_BYTES);
  }
  if (k < tile->k) add_rest_amx(tiles, a, b, tile->k - k);
  amx_store_sums(tiles, 2, c, c_stride);
}

/* Computes fewer rows than the tiles have, with the sums in a local array. */
TARGET_AMX static void some_rows_amx(const gemm_tile *tile, int rows) {
  enum { ROW = 2 * AMX_ROW_BYTES };
  _Alignas(64) float sums[AMX_TILE_ROWS][AMX_TILE_COLUMNS];
  gemm_tile apart = *tile;
  apart.c = sums;
  apart.from = sums;
  apart.ldc = apart.from_stride = AMX_TILE_COLUMNS;
  for (int i = 0; i < rows; i++)
    memcpy(sums[i], (const float *)tile->from + i * tile->from_stride, ROW);
  memset(sums[rows], 0, (size_t)(AMX_TILE_ROWS - rows) * ROW);
  amx_compiler_barrier();
  if (rows > AMX_ROWS)
    pairs_tiles_amx(2, &apart);
  else
    pairs_tiles_amx(1, &apart);
  for (int i = 0; i < rows; i++) memcpy((float *)tile->c + i * tile->ldc, sums[i], ROW);
}

TARGET_AMX static void run_amx(const gemm_tile *tile, int rows) {
  if (rows == AMX_TILE_ROWS)
    pairs_tiles_amx(2, tile);
  else if (rows == AMX_ROWS)
    pairs_tiles_amx(1, tile);
  else
    some_rows_amx(tile, rows);
}

TARGET_AMX static void pairs_begin_amx(void) { amx_begin(); }
TARGET_AMX static void pairs_end_amx(void) { amx_end(); }
static const gemm_blocks blocks_amx = {.rows = AMX_ROWS,
                                       .k = PAIRS_DEEP,
                                       .chain = AMX_CHAIN,
                                       .begin = pairs_begin_amx,
                                       .end = pairs_end_amx};
#endif

#if KERNEL_ARM
/* ---------------------------------------------------------------- NEON's products of pairs */

/* sums (rows, 2) += words of a (rows) * 8 columns of b. */
TARGET_ARM_BF16 KERNEL_INLINE void add_bfdot(dtype type, int rows, const float *a, const void *b,
                                             int64_t at, vec4 *sums) {
  const float *from = (const float *)b + at;
  const bfloat16x8_t b0 = vreinterpretq_bf16_f32(vld1q_f32(from)),
                     b1 = vreinterpretq_bf16_f32(vld1q_f32(from + 4));
  (void)type;
#pragma GCC unroll 12
  for (int i = 0; i < rows; i++) {
    const bfloat16x8_t x = vreinterpretq_bf16_f32(vdupq_n_f32(a[i]));
    sums[2 * i] = (vec4)vbfdotq_f32((float32x4_t)sums[2 * i], x, b0);
    sums[2 * i + 1] = (vec4)vbfdotq_f32((float32x4_t)sums[2 * i + 1], x, b1);
  }
}

#define TILE_TARGET TARGET_ARM_BF16
#define TILE_ONE tile_bfdot
#define TILE_RUN rows_bfdot
#define TILE_ROWS 12
#define TILE_COLUMNS 8
#define TILE_VECTOR vec4
#define TILE_ADD add_bfdot
#include "backend/cpu/kernels/gemm/gemm_tiles.h"

/* ---------------------------------------------------------------- NEON's matrices of BF16 */

enum { MATRIX_ROWS = 12, MATRIX_COLUMNS = 8 };

/* Return a matrix (2, 4): the words of two k, of two lanes each. */
TARGET_ARM_BF16 KERNEL_INLINE bfloat16x8_t lanes_low(uint32x4_t k0, uint32x4_t k1) {
  return vreinterpretq_bf16_u32(vzip1q_u32(k0, k1));
}
TARGET_ARM_BF16 KERNEL_INLINE bfloat16x8_t lanes_high(uint32x4_t k0, uint32x4_t k1) {
  return vreinterpretq_bf16_u32(vzip2q_u32(k0, k1));
}

/* sums (rows / 2, 4) of matrices (2, 2) += two words of each row * two words of 8 columns. */
TARGET_ARM_BF16 KERNEL_INLINE void add_bfmmla(int rows, const uint32_t *a0, const uint32_t *a1,
                                              const uint32_t *b0, const uint32_t *b1,
                                              float32x4_t sums[][4]) {
  const uint32x4_t left0 = vld1q_u32(b0), left1 = vld1q_u32(b1), right0 = vld1q_u32(b0 + 4),
                   right1 = vld1q_u32(b1 + 4);
  const bfloat16x8_t b[4] = {lanes_low(left0, left1), lanes_high(left0, left1),
                             lanes_low(right0, right1), lanes_high(right0, right1)};
#pragma GCC unroll 3
  for (int i = 0; i < rows; i += 4) {
    const uint32x4_t x0 = vld1q_u32(a0 + i), x1 = vld1q_u32(a1 + i);
    const bfloat16x8_t low = lanes_low(x0, x1), high = lanes_high(x0, x1);
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
      sums[i / 2][j] = vbfmmlaq_f32(sums[i / 2][j], low, b[j]);
      sums[i / 2 + 1][j] = vbfmmlaq_f32(sums[i / 2 + 1][j], high, b[j]);
    }
  }
}

/* Stores rows i and i + 1. sums has a matrix (2, 2) for each pair of columns. */
TARGET_ARM_BF16 KERNEL_INLINE void pairs_store_rows(const gemm_tile *tile, int i,
                                                    const float32x4_t sums[4]) {
  float *c = (float *)tile->c + i * tile->ldc;
  const float *from = (const float *)tile->from + i * tile->from_stride;
#pragma GCC unroll 2
  for (int j = 0; j < 2; j++, c += 4, from += 4) {
    const float32x4_t first =
                          vcombine_f32(vget_low_f32(sums[2 * j]), vget_low_f32(sums[2 * j + 1])),
                      second =
                          vcombine_f32(vget_high_f32(sums[2 * j]), vget_high_f32(sums[2 * j + 1]));
    vst1q_f32(c, vaddq_f32(vld1q_f32(from), first));
    vst1q_f32(c + tile->ldc, vaddq_f32(vld1q_f32(from + tile->from_stride), second));
  }
}

/* rows: 4, 8 or 12. An odd last word is paired with zeros. */
TARGET_ARM_BF16 KERNEL_INLINE void tile_bfmmla(const gemm_tile *tile, int rows) {
  static const uint32_t zeros[MATRIX_ROWS];
  const uint32_t *a = tile->a, *b = tile->b;
  float32x4_t sums[MATRIX_ROWS / 2][4];
#pragma GCC unroll 6
  for (int i = 0; i < rows / 2; i++)
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) sums[i][j] = vdupq_n_f32(0);
  for (int64_t k = 0; k + 2 <= tile->k; k += 2, a += 2 * rows, b += 2 * MATRIX_COLUMNS)
    add_bfmmla(rows, a, a + rows, b, b + MATRIX_COLUMNS, sums);
  if (tile->k % 2) add_bfmmla(rows, a, zeros, b, zeros, sums);
#pragma GCC unroll 6
  for (int i = 0; i < rows / 2; i++) pairs_store_rows(tile, 2 * i, sums[i]);
}

/* Uses matrix instructions if rows come in fours. */
TARGET_ARM_BF16 static void run_arm_bf16(const gemm_tile *tile, int rows) {
  switch (rows) {
    case 12:
      tile_bfmmla(tile, 12);
      break;
    case 8:
      tile_bfmmla(tile, 8);
      break;
    case 4:
      tile_bfmmla(tile, 4);
      break;
    default:
      rows_bfdot(DTYPE_F32, tile, rows);
  }
}
#endif

bool pairs_are_fast(void) { return cpu_has_avx512_bf16() || cpu_has_arm_bf16(); }

/* The panels are as wide as those of floats. */
gemm_kernel pairs_kernel(void) {
#if KERNEL_X86
  if (cpu_has_avx512_bf16()) return (gemm_kernel){.mr = 12, .nr = 32, .run = pairs_run_bf16};
  if (cpu_has_avx512()) return (gemm_kernel){.mr = PORTABLE_ROWS, .nr = 32, .run = run_32};
  if (cpu_has_avx2()) return (gemm_kernel){.mr = PORTABLE_ROWS, .nr = 16, .run = run_16};
#endif
#if KERNEL_ARM
  if (cpu_has_arm_bf16())
    return (gemm_kernel){.mr = MATRIX_ROWS, .nr = MATRIX_COLUMNS, .run = run_arm_bf16};
#endif
  return (gemm_kernel){.mr = PORTABLE_ROWS, .nr = 8, .run = run_8};
}

gemm_kernel pairs_kernel_for(int64_t m) {
#if KERNEL_X86
  enum { FEW_ROWS = 2 }; /* products of at most so many rows are not slower without AMX */
  if (cpu_has_amx() && m > FEW_ROWS)
    return (gemm_kernel){.mr = AMX_TILE_ROWS, .nr = 32, .run = run_amx, .blocks = &blocks_amx};
#endif
  (void)m;
  return pairs_kernel();
}
