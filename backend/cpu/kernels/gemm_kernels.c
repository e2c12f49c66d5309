/* Inner kernels of the matrix multiplication: a tile of c stays in registers while panels of a and
 * b stream by. Tiles of floats have a body for each number of rows and each type of b. */
#include <string.h>

#include "backend/cpu/kernels/features.h"
#include "backend/cpu/kernels/gemm.h"
#include "backend/cpu/kernels/vec4.h"
#if KERNEL_X86
#include <immintrin.h>
#endif

typedef double vec2 __attribute__((vector_size(16)));

/* ---------------------------------------------------------------- any processor */

enum { TILE_M = 4, TILE_N = 8, TILE_N_WIDE = 4, TILE_SUMS = 12 };

KERNEL_INLINE vec4 load_portable(dtype t, const void *b, int64_t at) {
  vec4 f;
  short4 h;
  if (t == DTYPE_F32) return memcpy(&f, (const float *)b + at, sizeof f), f;
  memcpy(&h, (const uint16_t *)b + at, sizeof h);
  const int4 high = __builtin_convertvector(h, int4) << 16;
  if (t == DTYPE_F16) return vec4_of_f16(h);
  return memcpy(&f, &high, sizeof f), f;
}

/* sums (rows, 2) += a (rows) times 8 columns of b, from element `at` on. */
KERNEL_INLINE void add_portable(dtype type, int rows, const float *a, const void *b, int64_t at,
                                vec4 *sums) {
  const vec4 b0 = load_portable(type, b, at), b1 = load_portable(type, b, at + 4);
#pragma GCC unroll 4
  for (int i = 0; i < rows; i++) {
    sums[2 * i] = vec4_add_scaled(sums[2 * i], a[i], b0);
    sums[2 * i + 1] = vec4_add_scaled(sums[2 * i + 1], a[i], b1);
  }
}

KERNEL_INLINE void tile_portable(dtype type, int rows, const gemm_tile *t) {
  const int chains = gemm_chains(rows);
  const float *a = t->a;
  vec4 acc[TILE_SUMS];
  int64_t k = 0;
#pragma GCC unroll 12
  for (int i = 0; i < 2 * rows * chains; i++) acc[i] = (vec4){0};
  for (; k + chains <= t->k; k += chains) {
#pragma GCC unroll 4
    for (int x = 0; x < chains; x++)
      add_portable(type, rows, a + (k + x) * rows, t->b, (k + x) * TILE_N, acc + x * rows * 2);
  }
  for (; k < t->k; k++) add_portable(type, rows, a + k * rows, t->b, k * TILE_N, acc);
#pragma GCC unroll 4
  for (int i = 0; i < rows; i++) {
    float *c = (float *)t->c + i * t->ldc;
#pragma GCC unroll 4
    for (int x = 1; x < chains; x++)
      for (int h = 0; h < 2; h++) acc[2 * i + h] += acc[(x * rows + i) * 2 + h];
    for (int j = 0; j < 4; j++) c[j] += acc[2 * i][j];
    for (int j = 0; j < 4; j++) c[j + 4] += acc[2 * i + 1][j];
  }
}

KERNEL_INLINE void rows_portable(dtype type, const gemm_tile *t, int rows) {
  if (rows == 1) tile_portable(type, 1, t);
  if (rows == 2) tile_portable(type, 2, t);
  if (rows == 3) tile_portable(type, 3, t);
  if (rows == 4) tile_portable(type, 4, t);
}

static void f32_portable(const gemm_tile *t, int rows) { rows_portable(DTYPE_F32, t, rows); }
static void f16_portable(const gemm_tile *t, int rows) { rows_portable(DTYPE_F16, t, rows); }
static void bf16_portable(const gemm_tile *t, int rows) { rows_portable(DTYPE_BF16, t, rows); }

/* Of TILE_M rows. */
static void tile_f64(const gemm_tile *t, int rows) {
  const double *a = t->a, *b = t->b;
  vec2 acc[TILE_M][2] = {{{0}}};
  (void)rows;
  for (int64_t kk = 0; kk < t->k; kk++, a += TILE_M, b += TILE_N_WIDE) {
    vec2 b0, b1;
    memcpy(&b0, b, sizeof b0);
    memcpy(&b1, b + 2, sizeof b1);
    for (int i = 0; i < TILE_M; i++) {
      acc[i][0] += a[i] * b0;
      acc[i][1] += a[i] * b1;
    }
  }
  for (int i = 0; i < TILE_M; i++) {
    double *c = (double *)t->c + i * t->ldc;
    for (int j = 0; j < 4; j++) c[j] += acc[i][j / 2][j % 2];
  }
}

/* Of TILE_M rows. */
static void tile_i64(const gemm_tile *t, int rows) {
  const uint64_t *a = t->a, *b = t->b;
  uint64_t acc[TILE_M][TILE_N_WIDE] = {{0}};
  (void)rows;
  for (int64_t kk = 0; kk < t->k; kk++, a += TILE_M, b += TILE_N_WIDE)
    for (int i = 0; i < TILE_M; i++)
      for (int j = 0; j < TILE_N_WIDE; j++) acc[i][j] += a[i] * b[j];
  for (int i = 0; i < TILE_M; i++)
    for (int j = 0; j < TILE_N_WIDE; j++) ((uint64_t *)t->c)[i * t->ldc + j] += acc[i][j];
}

static void transpose_portable(const float *from, int64_t from_stride, float *to,
                               int64_t to_stride) {
  for (int i = 0; i < 8; i++)
    for (int j = 0; j < 8; j++) to[i * to_stride + j] = from[j * from_stride + i];
}

#if KERNEL_X86
enum { AHEAD = 8192 /* bytes that b is asked for ahead, as processors do not by themselves */ };

KERNEL_INLINE void ask_ahead(dtype t, const void *b, int64_t at, int n) {
  const int size = t == DTYPE_F32 ? 4 : 2;
#pragma GCC unroll 2
  for (int line = 0; line < n * size; line += 64)
    _mm_prefetch((const char *)b + at * size + line + AHEAD, _MM_HINT_T0);
}

/* ---------------------------------------------------------------- AVX2 */

enum { AVX2_M = 6, AVX2_N = 16, AVX2_SUMS = 12 };

TARGET_AVX2 KERNEL_INLINE __m256 load_avx2(dtype t, const void *b, int64_t at) {
  if (t == DTYPE_F32) return _mm256_loadu_ps((const float *)b + at);
  const __m128i h = _mm_loadu_si128((const void *)((const uint16_t *)b + at));
  if (t == DTYPE_F16) return _mm256_cvtph_ps(h);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

/* sums (rows, 2) += a (rows) times 16 columns of b, of type `type`, from element `at` on. */
TARGET_AVX2 KERNEL_INLINE void add_avx2(dtype type, int rows, const float *a, const void *b,
                                        int64_t at, __m256 *sums) {
  const __m256 b0 = load_avx2(type, b, at), b1 = load_avx2(type, b, at + 8);
#pragma GCC unroll 6
  for (int i = 0; i < rows; i++) {
    const __m256 x = _mm256_broadcast_ss(a + i);
    sums[2 * i] = _mm256_fmadd_ps(x, b0, sums[2 * i]);
    sums[2 * i + 1] = _mm256_fmadd_ps(x, b1, sums[2 * i + 1]);
  }
}

TARGET_AVX2 KERNEL_INLINE void tile_avx2(dtype type, int rows, const gemm_tile *t) {
  const int chains = gemm_chains(rows);
  const float *a = t->a;
  __m256 acc[AVX2_SUMS];
  int64_t k = 0;
#pragma GCC unroll 12
  for (int i = 0; i < 2 * rows * chains; i++) acc[i] = _mm256_setzero_ps();
  for (; k + chains <= t->k; k += chains) {
#pragma GCC unroll 4
    for (int x = 0; x < chains; x++) {
      ask_ahead(type, t->b, (k + x) * AVX2_N, AVX2_N);
      add_avx2(type, rows, a + (k + x) * rows, t->b, (k + x) * AVX2_N, acc + x * rows * 2);
    }
  }
  for (; k < t->k; k++) add_avx2(type, rows, a + k * rows, t->b, k * AVX2_N, acc);
#pragma GCC unroll 6
  for (int i = 0; i < rows; i++) {
    float *c = (float *)t->c + i * t->ldc;
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
      __m256 sum = _mm256_loadu_ps(c + h * 8);
#pragma GCC unroll 4
      for (int x = 0; x < chains; x++) sum = _mm256_add_ps(sum, acc[(x * rows + i) * 2 + h]);
      _mm256_storeu_ps(c + h * 8, sum);
    }
  }
}

TARGET_AVX2 KERNEL_INLINE void rows_avx2(dtype type, const gemm_tile *t, int rows) {
  if (rows == 1) tile_avx2(type, 1, t);
  if (rows == 2) tile_avx2(type, 2, t);
  if (rows == 3) tile_avx2(type, 3, t);
  if (rows == 4) tile_avx2(type, 4, t);
  if (rows == 5) tile_avx2(type, 5, t);
  if (rows == 6) tile_avx2(type, 6, t);
}

TARGET_AVX2 static void f32_avx2(const gemm_tile *t, int rows) { rows_avx2(DTYPE_F32, t, rows); }
TARGET_AVX2 static void f16_avx2(const gemm_tile *t, int rows) { rows_avx2(DTYPE_F16, t, rows); }
TARGET_AVX2 static void bf16_avx2(const gemm_tile *t, int rows) { rows_avx2(DTYPE_BF16, t, rows); }

/* ---------------------------------------------------------------- AVX-512 */

enum { AVX512_M = 12, AVX512_N = 32, AVX512_SUMS = 24 };

TARGET_AVX512 KERNEL_INLINE __m512 load_avx512(dtype t, const void *b, int64_t at) {
  if (t == DTYPE_F32) return _mm512_loadu_ps((const float *)b + at);
  const __m256i h = _mm256_loadu_si256((const void *)((const uint16_t *)b + at));
  if (t == DTYPE_F16) return _mm512_cvtph_ps(h);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

/* sums (rows, 2) += a (rows) times 32 columns of b, of type `type`, from element `at` on. */
TARGET_AVX512 KERNEL_INLINE void add_avx512(dtype type, int rows, const float *a, const void *b,
                                            int64_t at, __m512 *sums) {
  const __m512 b0 = load_avx512(type, b, at), b1 = load_avx512(type, b, at + 16);
#pragma GCC unroll 12
  for (int i = 0; i < rows; i++) {
    const __m512 x = _mm512_set1_ps(a[i]);
    sums[2 * i] = _mm512_fmadd_ps(x, b0, sums[2 * i]);
    sums[2 * i + 1] = _mm512_fmadd_ps(x, b1, sums[2 * i + 1]);
  }
}

TARGET_AVX512 KERNEL_INLINE void tile_avx512(dtype type, int rows, const gemm_tile *t) {
  const int chains = gemm_chains(rows);
  const float *a = t->a;
  __m512 acc[AVX512_SUMS];
  int64_t k = 0;
#pragma GCC unroll 24
  for (int i = 0; i < 2 * rows * chains; i++) acc[i] = _mm512_setzero_ps();
  for (; k + chains <= t->k; k += chains) {
#pragma GCC unroll 4
    for (int x = 0; x < chains; x++) {
      ask_ahead(type, t->b, (k + x) * AVX512_N, AVX512_N);
      add_avx512(type, rows, a + (k + x) * rows, t->b, (k + x) * AVX512_N, acc + x * rows * 2);
    }
  }
  for (; k < t->k; k++) add_avx512(type, rows, a + k * rows, t->b, k * AVX512_N, acc);
#pragma GCC unroll 12
  for (int i = 0; i < rows; i++) {
    float *c = (float *)t->c + i * t->ldc;
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
      __m512 sum = _mm512_loadu_ps(c + h * 16);
#pragma GCC unroll 4
      for (int x = 0; x < chains; x++) sum = _mm512_add_ps(sum, acc[(x * rows + i) * 2 + h]);
      _mm512_storeu_ps(c + h * 16, sum);
    }
  }
}

TARGET_AVX512 KERNEL_INLINE void rows_avx512(dtype type, const gemm_tile *t, int rows) {
  if (rows == 1) tile_avx512(type, 1, t);
  if (rows == 2) tile_avx512(type, 2, t);
  if (rows == 3) tile_avx512(type, 3, t);
  if (rows == 4) tile_avx512(type, 4, t);
  if (rows == 5) tile_avx512(type, 5, t);
  if (rows == 6) tile_avx512(type, 6, t);
  if (rows == 7) tile_avx512(type, 7, t);
  if (rows == 8) tile_avx512(type, 8, t);
  if (rows == 9) tile_avx512(type, 9, t);
  if (rows == 10) tile_avx512(type, 10, t);
  if (rows == 11) tile_avx512(type, 11, t);
  if (rows == 12) tile_avx512(type, 12, t);
}

TARGET_AVX512 static void f32_avx512(const gemm_tile *t, int rows) {
  rows_avx512(DTYPE_F32, t, rows);
}
TARGET_AVX512 static void f16_avx512(const gemm_tile *t, int rows) {
  rows_avx512(DTYPE_F16, t, rows);
}
TARGET_AVX512 static void bf16_avx512(const gemm_tile *t, int rows) {
  rows_avx512(DTYPE_BF16, t, rows);
}

/* Pairs of rows interleave, then pairs of pairs, then the halves change places. */
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

/* Of floats, by the type of b. */
static gemm_kernel float_kernel(dtype b) {
#if KERNEL_X86
  if (cpu_has_avx512())
    return (gemm_kernel){AVX512_M, AVX512_N,
                         b == DTYPE_F32   ? f32_avx512
                         : b == DTYPE_F16 ? f16_avx512
                                          : bf16_avx512};
  if (cpu_has_avx2())
    return (gemm_kernel){AVX2_M, AVX2_N,
                         b == DTYPE_F32   ? f32_avx2
                         : b == DTYPE_F16 ? f16_avx2
                                          : bf16_avx2};
#endif
  return (gemm_kernel){TILE_M, TILE_N,
                       b == DTYPE_F32   ? f32_portable
                       : b == DTYPE_F16 ? f16_portable
                                        : bf16_portable};
}

gemm_kernel gemm_kernel_for(compute_class c, dtype b) {
  if (c == COMPUTE_F64) return (gemm_kernel){TILE_M, TILE_N_WIDE, tile_f64};
  if (c == COMPUTE_I64) return (gemm_kernel){TILE_M, TILE_N_WIDE, tile_i64};
  return float_kernel(b);
}
