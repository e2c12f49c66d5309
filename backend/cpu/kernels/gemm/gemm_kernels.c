/* Inner kernels of gemm.c: c = from + a * b. A tile of c stays in registers while panels of a and b
 * stream by. gemm_tiles.h has the tiles of floats. */
#include <string.h>

#include "backend/cpu/kernels/gemm/gemm.h"
#include "backend/cpu/kernels/support/avx512.h"
#include "backend/cpu/kernels/support/vec4.h"

typedef double vec2 __attribute__((vector_size(16)));

/* ---------------------------------------------------------------- any processor */

enum { TILE_M = 4, TILE_N = 8, TILE_N_WIDE = 4 };
_Static_assert(TILE_N_WIDE * sizeof(double) <= GEMM_ROW_BYTES, "a row of zeros is as wide");

KERNEL_INLINE vec4 load_portable(dtype t, const void *b, int64_t at) {
  vec4 f;
  short4 h;
  if (t == DTYPE_F32) return memcpy(&f, (const float *)b + at, sizeof f), f;
  memcpy(&h, (const uint16_t *)b + at, sizeof h);
  const int4 high = __builtin_convertvector(h, int4) << 16;
  if (t == DTYPE_F16) return vec4_of_f16(h);
  return memcpy(&f, &high, sizeof f), f;
}

/* sums (rows, 2) += a (rows) * 8 columns of b, from element `at` on. */
KERNEL_INLINE void add_portable(dtype type, int rows, const float *a, const void *b, int64_t at,
                                vec4 *sums) {
  const vec4 b0 = load_portable(type, b, at), b1 = load_portable(type, b, at + 4);
#pragma GCC unroll 4
  for (int i = 0; i < rows; i++) {
    sums[2 * i] = vec4_add_scaled(sums[2 * i], a[i], b0);
    sums[2 * i + 1] = vec4_add_scaled(sums[2 * i + 1], a[i], b1);
  }
}

#define TILE_TARGET
#define TILE_ONE tile_portable
#define TILE_RUN rows_portable
#define TILE_ROWS 4
#define TILE_COLUMNS TILE_N
#define TILE_VECTOR vec4
#define TILE_ADD add_portable
#include "backend/cpu/kernels/gemm/gemm_tiles.h"

static void f32_portable(const gemm_tile *tile, int rows) { rows_portable(DTYPE_F32, tile, rows); }
static void f16_portable(const gemm_tile *tile, int rows) { rows_portable(DTYPE_F16, tile, rows); }
static void bf16_portable(const gemm_tile *tile, int rows) {
  rows_portable(DTYPE_BF16, tile, rows);
}

/* Computes TILE_M rows. */
static void tile_f64(const gemm_tile *tile, int rows) {
  const double *a = tile->a, *b = tile->b;
  vec2 acc[TILE_M][2] = {{{0}}};
  (void)rows;
  for (int64_t kk = 0; kk < tile->k; kk++, a += TILE_M, b += TILE_N_WIDE) {
    vec2 b0, b1;
    memcpy(&b0, b, sizeof b0);
    memcpy(&b1, b + 2, sizeof b1);
    for (int i = 0; i < TILE_M; i++) {
      acc[i][0] += a[i] * b0;
      acc[i][1] += a[i] * b1;
    }
  }
  for (int i = 0; i < TILE_M; i++) {
    double *c = (double *)tile->c + i * tile->ldc;
    const double *from = (const double *)tile->from + i * tile->from_stride;
    for (int j = 0; j < 4; j++) c[j] = from[j] + acc[i][j / 2][j % 2];
  }
}

/* Computes TILE_M rows. */
static void tile_i64(const gemm_tile *tile, int rows) {
  const uint64_t *a = tile->a, *b = tile->b;
  uint64_t acc[TILE_M][TILE_N_WIDE] = {{0}};
  (void)rows;
  for (int64_t kk = 0; kk < tile->k; kk++, a += TILE_M, b += TILE_N_WIDE)
    for (int i = 0; i < TILE_M; i++)
      for (int j = 0; j < TILE_N_WIDE; j++) acc[i][j] += a[i] * b[j];
  for (int i = 0; i < TILE_M; i++)
    for (int j = 0; j < TILE_N_WIDE; j++)
      ((uint64_t *)tile->c)[i * tile->ldc + j] =
          ((const uint64_t *)tile->from)[i * tile->from_stride + j] + acc[i][j];
}

static void transpose_portable(const float *from, int64_t from_stride, float *to,
                               int64_t to_stride) {
  for (int i = 0; i < 8; i++)
    for (int j = 0; j < 8; j++) to[i * to_stride + j] = from[j * from_stride + i];
}

#if KERNEL_X86
KERNEL_INLINE void prefetch_ahead(dtype t, const void *b, int64_t at, int n) {
  enum { AHEAD = 16 /* k */ };
  const int size = t == DTYPE_F32 ? 4 : 2;
#pragma GCC unroll 2
  for (int line = 0; line < n * size; line += 64)
    prefetch_line((const char *)b + at * size + line, AHEAD * n * size);
}

/* ---------------------------------------------------------------- AVX2 */

enum { AVX2_M = 6, AVX2_N = 16 };

TARGET_AVX2 KERNEL_INLINE __m256 load_avx2(dtype t, const void *b, int64_t at) {
  if (t == DTYPE_F32) return _mm256_loadu_ps((const float *)b + at);
  const __m128i h = _mm_loadu_si128((const void *)((const uint16_t *)b + at));
  if (t == DTYPE_F16) return _mm256_cvtph_ps(h);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

/* sums (rows, 2) += a (rows) * 16 columns of b, of dtype `type`, from element `at` on. */
TARGET_AVX2 KERNEL_INLINE void add_avx2(dtype type, int rows, const float *a, const void *b,
                                        int64_t at, __m256 *sums) {
  const __m256 b0 = load_avx2(type, b, at), b1 = load_avx2(type, b, at + 8);
  prefetch_ahead(type, b, at, AVX2_N);
#pragma GCC unroll 6
  for (int i = 0; i < rows; i++) {
    const __m256 x = _mm256_broadcast_ss(a + i);
    sums[2 * i] = _mm256_fmadd_ps(x, b0, sums[2 * i]);
    sums[2 * i + 1] = _mm256_fmadd_ps(x, b1, sums[2 * i + 1]);
  }
}

#define TILE_TARGET TARGET_AVX2
#define TILE_ONE tile_avx2
#define TILE_RUN rows_avx2
#define TILE_ROWS 6
#define TILE_COLUMNS AVX2_N
#define TILE_VECTOR __m256
#define TILE_ADD add_avx2
#include "backend/cpu/kernels/gemm/gemm_tiles.h"

TARGET_AVX2 static void f32_avx2(const gemm_tile *tile, int rows) {
  rows_avx2(DTYPE_F32, tile, rows);
}
TARGET_AVX2 static void f16_avx2(const gemm_tile *tile, int rows) {
  rows_avx2(DTYPE_F16, tile, rows);
}
TARGET_AVX2 static void bf16_avx2(const gemm_tile *tile, int rows) {
  rows_avx2(DTYPE_BF16, tile, rows);
}

/* ---------------------------------------------------------------- AVX-512 */

enum { AVX512_M = 12, AVX512_N = 32 };

/* sums (rows, 2) += a (rows) * 32 columns of b, of dtype `type`, from element `at` on. */
TARGET_AVX512 KERNEL_INLINE void add_avx512(dtype type, int rows, const float *a, const void *b,
                                            int64_t at, __m512 *sums) {
  const __m512 b0 = load_avx512(type, b, at), b1 = load_avx512(type, b, at + 16);
  prefetch_ahead(type, b, at, AVX512_N);
#pragma GCC unroll 12
  for (int i = 0; i < rows; i++) {
    const __m512 x = _mm512_set1_ps(a[i]);
    sums[2 * i] = _mm512_fmadd_ps(x, b0, sums[2 * i]);
    sums[2 * i + 1] = _mm512_fmadd_ps(x, b1, sums[2 * i + 1]);
  }
}

#define TILE_TARGET TARGET_AVX512
#define TILE_ONE tile_avx512
#define TILE_RUN rows_avx512
#define TILE_ROWS 12
#define TILE_COLUMNS AVX512_N
#define TILE_VECTOR __m512
#define TILE_ADD add_avx512
#include "backend/cpu/kernels/gemm/gemm_tiles.h"

TARGET_AVX512 static void f32_avx512(const gemm_tile *tile, int rows) {
  rows_avx512(DTYPE_F32, tile, rows);
}
TARGET_AVX512 static void f16_avx512(const gemm_tile *tile, int rows) {
  rows_avx512(DTYPE_F16, tile, rows);
}
TARGET_AVX512 static void bf16_avx512(const gemm_tile *tile, int rows) {
  rows_avx512(DTYPE_BF16, tile, rows);
}

/* Interleaves pairs of rows, then pairs of pairs, then swaps halves. */
TARGET_AVX2 static void transpose_avx2(const float *from, int64_t from_stride, float *to,
                                       int64_t to_stride) {
  __m256 r[8], s[8];
  for (int j = 0; j < 8; j++) r[j] = _mm256_loadu_ps(from + j * from_stride);
  for (int j = 0; j < 8; j += 2) {
    s[j] = _mm256_unpacklo_ps(r[j], r[j + 1]);
    s[j + 1] = _mm256_unpackhi_ps(r[j], r[j + 1]);
  }
  for (int h = 0; h < 8; h += 4) {
    r[h] = _mm256_shuffle_ps(s[h], s[h + 2], _MM_SHUFFLE(1, 0, 1, 0));
    r[h + 1] = _mm256_shuffle_ps(s[h], s[h + 2], _MM_SHUFFLE(3, 2, 3, 2));
    r[h + 2] = _mm256_shuffle_ps(s[h + 1], s[h + 3], _MM_SHUFFLE(1, 0, 1, 0));
    r[h + 3] = _mm256_shuffle_ps(s[h + 1], s[h + 3], _MM_SHUFFLE(3, 2, 3, 2));
  }
  for (int i = 0; i < 4; i++) {
    _mm256_storeu_ps(to + i * to_stride, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(to + (i + 4) * to_stride, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}
#endif

void transpose_8x8(const float *from, int64_t from_stride, float *to, int64_t to_stride) {
#if KERNEL_X86
  if (cpu_has_avx2()) {
    transpose_avx2(from, from_stride, to, to_stride);
    return;
  }
#endif
  transpose_portable(from, from_stride, to, to_stride);
}

/* 1 in a compiled program that has no tensors of 16-bit floats. */
#ifndef KERNEL_SINGLE
#define KERNEL_SINGLE 0
#endif

/* Returns the kernel of floats for the dtype of b. */
static gemm_kernel float_kernel(dtype type) {
  const dtype b = KERNEL_SINGLE ? DTYPE_F32 : type;
#if KERNEL_X86
  if (cpu_has_avx512())
    return (gemm_kernel){.mr = AVX512_M,
                         .nr = AVX512_N,
                         .run = b == DTYPE_F32   ? f32_avx512
                                : b == DTYPE_F16 ? f16_avx512
                                                 : bf16_avx512};
  if (cpu_has_avx2())
    return (gemm_kernel){.mr = AVX2_M,
                         .nr = AVX2_N,
                         .run = b == DTYPE_F32   ? f32_avx2
                                : b == DTYPE_F16 ? f16_avx2
                                                 : bf16_avx2};
#endif
  return (gemm_kernel){.mr = TILE_M,
                       .nr = TILE_N,
                       .run = b == DTYPE_F32   ? f32_portable
                              : b == DTYPE_F16 ? f16_portable
                                               : bf16_portable};
}

gemm_kernel gemm_kernel_for(compute_type c, dtype b) {
  if (c == COMPUTE_F64) return (gemm_kernel){.mr = TILE_M, .nr = TILE_N_WIDE, .run = tile_f64};
  if (c == COMPUTE_I64) return (gemm_kernel){.mr = TILE_M, .nr = TILE_N_WIDE, .run = tile_i64};
  return float_kernel(b);
}
