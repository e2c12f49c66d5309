/* Inner kernels of the matrix multiplication: a tile of c stays in registers while a and b panels
 * stream by. */
#include <string.h>

#include "backend/cpu/kernels/features.h"
#include "backend/cpu/kernels/gemm.h"
#if KERNEL_X86
#include <immintrin.h>
#endif

typedef float vec4 __attribute__((vector_size(16)));
typedef double vec2 __attribute__((vector_size(16)));

enum { TILE_M = 4, TILE_N = 8, TILE_N_WIDE = 4 };

static void tile_f32(int64_t k, const void *ap, const void *bp, void *cp, int64_t ldc) {
  const float *a = ap, *b = bp;
  vec4 acc[TILE_M][2] = {{{0}}};
  for (int64_t kk = 0; kk < k; kk++, a += TILE_M, b += TILE_N) {
    vec4 b0, b1;
    memcpy(&b0, b, sizeof b0);
    memcpy(&b1, b + 4, sizeof b1);
    for (int i = 0; i < TILE_M; i++) {
      acc[i][0] += a[i] * b0;
      acc[i][1] += a[i] * b1;
    }
  }
  for (int i = 0; i < TILE_M; i++) {
    float *c = (float *)cp + i * ldc;
    for (int j = 0; j < 4; j++) c[j] += acc[i][0][j];
    for (int j = 0; j < 4; j++) c[j + 4] += acc[i][1][j];
  }
}

static void tile_f64(int64_t k, const void *ap, const void *bp, void *cp, int64_t ldc) {
  const double *a = ap, *b = bp;
  vec2 acc[TILE_M][2] = {{{0}}};
  for (int64_t kk = 0; kk < k; kk++, a += TILE_M, b += TILE_N_WIDE) {
    vec2 b0, b1;
    memcpy(&b0, b, sizeof b0);
    memcpy(&b1, b + 2, sizeof b1);
    for (int i = 0; i < TILE_M; i++) {
      acc[i][0] += a[i] * b0;
      acc[i][1] += a[i] * b1;
    }
  }
  for (int i = 0; i < TILE_M; i++) {
    double *c = (double *)cp + i * ldc;
    for (int j = 0; j < 4; j++) c[j] += acc[i][j / 2][j % 2];
  }
}

static void tile_i64(int64_t k, const void *ap, const void *bp, void *cp, int64_t ldc) {
  const uint64_t *a = ap, *b = bp;
  uint64_t acc[TILE_M][TILE_N_WIDE] = {{0}};
  for (int64_t kk = 0; kk < k; kk++, a += TILE_M, b += TILE_N_WIDE)
    for (int i = 0; i < TILE_M; i++)
      for (int j = 0; j < TILE_N_WIDE; j++) acc[i][j] += a[i] * b[j];
  for (int i = 0; i < TILE_M; i++)
    for (int j = 0; j < TILE_N_WIDE; j++) ((uint64_t *)cp)[i * ldc + j] += acc[i][j];
}

static void transpose_portable(const float *from, int64_t from_stride, float *to,
                               int64_t to_stride) {
  for (int i = 0; i < 8; i++)
    for (int j = 0; j < 8; j++) to[i * to_stride + j] = from[j * from_stride + i];
}

#if KERNEL_X86
enum { AVX2_M = 6, AVX512_M = 12 };

TARGET_AVX2 static void tile_f32_avx2(int64_t k, const void *ap, const void *bp, void *cp,
                                      int64_t ldc) {
  const float *a = ap, *b = bp;
  __m256 acc[AVX2_M][2];
#pragma GCC unroll 6
  for (int i = 0; i < AVX2_M; i++) acc[i][0] = acc[i][1] = _mm256_setzero_ps();
  for (int64_t kk = 0; kk < k; kk++, a += AVX2_M, b += 16) {
    __m256 b0 = _mm256_loadu_ps(b), b1 = _mm256_loadu_ps(b + 8);
#pragma GCC unroll 6
    for (int i = 0; i < AVX2_M; i++) {
      __m256 x = _mm256_broadcast_ss(a + i);
      acc[i][0] = _mm256_fmadd_ps(x, b0, acc[i][0]);
      acc[i][1] = _mm256_fmadd_ps(x, b1, acc[i][1]);
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < AVX2_M; i++) {
    float *c = (float *)cp + i * ldc;
    _mm256_storeu_ps(c, _mm256_add_ps(_mm256_loadu_ps(c), acc[i][0]));
    _mm256_storeu_ps(c + 8, _mm256_add_ps(_mm256_loadu_ps(c + 8), acc[i][1]));
  }
}

TARGET_AVX512 static void tile_f32_avx512(int64_t k, const void *ap, const void *bp, void *cp,
                                          int64_t ldc) {
  const float *a = ap, *b = bp;
  __m512 acc[AVX512_M][2];
#pragma GCC unroll 12
  for (int i = 0; i < AVX512_M; i++) acc[i][0] = acc[i][1] = _mm512_setzero_ps();
  for (int64_t kk = 0; kk < k; kk++, a += AVX512_M, b += 32) {
    __m512 b0 = _mm512_loadu_ps(b), b1 = _mm512_loadu_ps(b + 16);
#pragma GCC unroll 12
    for (int i = 0; i < AVX512_M; i++) {
      __m512 x = _mm512_set1_ps(a[i]);
      acc[i][0] = _mm512_fmadd_ps(x, b0, acc[i][0]);
      acc[i][1] = _mm512_fmadd_ps(x, b1, acc[i][1]);
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < AVX512_M; i++) {
    float *c = (float *)cp + i * ldc;
    _mm512_storeu_ps(c, _mm512_add_ps(_mm512_loadu_ps(c), acc[i][0]));
    _mm512_storeu_ps(c + 16, _mm512_add_ps(_mm512_loadu_ps(c + 16), acc[i][1]));
  }
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

gemm_kernel gemm_kernel_for(compute_class c) {
  if (c == COMPUTE_F64) return (gemm_kernel){TILE_M, TILE_N_WIDE, tile_f64};
  if (c == COMPUTE_I64) return (gemm_kernel){TILE_M, TILE_N_WIDE, tile_i64};
#if KERNEL_X86
  if (cpu_has_avx512()) return (gemm_kernel){AVX512_M, 32, tile_f32_avx512};
  if (cpu_has_avx2()) return (gemm_kernel){AVX2_M, 16, tile_f32_avx2};
#endif
  return (gemm_kernel){TILE_M, TILE_N, tile_f32};
}
