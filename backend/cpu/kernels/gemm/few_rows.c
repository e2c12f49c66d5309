/* Tiles of a few rows and columns, whose sums stay in registers. Loop order: columns, rows, k. */
#include "backend/cpu/kernels/gemm/few_rows.h"

#include "backend/cpu/kernels/support/avx512.h"
#include "backend/cpu/kernels/support/rows.h"
#include "backend/cpu/kernels/support/vector.h"

bool rows_accept_type(dtype t) {
  return t == DTYPE_F32 || ((t == DTYPE_F16 || t == DTYPE_BF16) && cpu_has_avx512());
}

/* ---------------------------------------------------------------- dot products */

enum { DOTS_COLUMNS = 4, DOTS_ROWS_AVX2 = 2, DOTS_ROWS_AVX512 = 4 };

#if KERNEL_X86
/* Returns the dot product over [from, k), which the tiles do not cover. */
static float dot_rest(int64_t from, int64_t k, const float *a, const float *b) {
  float sum = 0;
  for (int64_t i = from; i < k; i++) sum += a[i] * b[i];
  return sum;
}

/* Computes a tile of up to DOTS_ROWS_AVX2 rows and DOTS_COLUMNS columns. */
TARGET_AVX2 KERNEL_INLINE void tile_avx2(int rows, int columns, int64_t k, const float *a,
                                         int64_t lda, const float *b, int64_t ldb, float *c,
                                         int64_t ldc) {
  __m256 acc[DOTS_ROWS_AVX2][DOTS_COLUMNS];
#pragma GCC unroll 2
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int j = 0; j < DOTS_COLUMNS; j++) acc[i][j] = _mm256_setzero_ps();
  int64_t at = 0;
  for (; at + 8 <= k; at += 8) {
    __m256 x[DOTS_ROWS_AVX2];
#pragma GCC unroll 2
    for (int i = 0; i < rows; i++) x[i] = _mm256_loadu_ps(a + i * lda + at);
#pragma GCC unroll 4
    for (int j = 0; j < columns; j++) {
      __m256 y = _mm256_loadu_ps(b + j * ldb + at);
#pragma GCC unroll 2
      for (int i = 0; i < rows; i++) acc[i][j] = _mm256_fmadd_ps(x[i], y, acc[i][j]);
    }
  }
#pragma GCC unroll 2
  for (int i = 0; i < rows; i++) {
    /* sums each of four vectors; the results are one vector of four */
    __m256 s =
        _mm256_hadd_ps(_mm256_hadd_ps(acc[i][0], acc[i][1]), _mm256_hadd_ps(acc[i][2], acc[i][3]));
    float sums[DOTS_COLUMNS];
    _mm_storeu_ps(sums, _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1)));
    for (int j = 0; j < columns; j++)
      c[i * ldc + j] += sums[j] + dot_rest(at, k, a + i * lda, b + j * ldb);
  }
}

/* Computes some columns by all rows. */
TARGET_AVX2 KERNEL_INLINE void strip_avx2(int64_t rows, int columns, int64_t k, const float *a,
                                          int64_t lda, const float *b, int64_t ldb, float *c,
                                          int64_t ldc) {
  int64_t i = 0;
  for (; i + DOTS_ROWS_AVX2 <= rows; i += DOTS_ROWS_AVX2)
    tile_avx2(DOTS_ROWS_AVX2, columns, k, a + i * lda, lda, b, ldb, c + i * ldc, ldc);
  if (i < rows) tile_avx2(1, columns, k, a + i * lda, lda, b, ldb, c + i * ldc, ldc);
}

TARGET_AVX2 static void dots_avx2(int64_t rows, int64_t columns, int64_t k, const float *a,
                                  int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc) {
  int64_t j = 0;
  for (; j + DOTS_COLUMNS <= columns; j += DOTS_COLUMNS)
    strip_avx2(rows, DOTS_COLUMNS, k, a, lda, b + j * ldb, ldb, c + j, ldc);
  for (; j < columns; j++) strip_avx2(rows, 1, k, a, lda, b + j * ldb, ldb, c + j, ldc);
}

/* Returns the sums of vectors 0 .. 3, each added in the same order. */
TARGET_AVX512 KERNEL_INLINE __m128 sums_of_lanes(const __m512 *vectors) {
  __m256 half[DOTS_COLUMNS];
#pragma GCC unroll 4
  for (int j = 0; j < DOTS_COLUMNS; j++)
    half[j] =
        _mm256_add_ps(_mm512_castps512_ps256(vectors[j]),
                      _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(vectors[j]), 1)));
  const __m256 s =
      _mm256_hadd_ps(_mm256_hadd_ps(half[0], half[1]), _mm256_hadd_ps(half[2], half[3]));
  return _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
}

/* Computes a tile of up to DOTS_ROWS_AVX512 rows and DOTS_COLUMNS columns. */
TARGET_AVX512 KERNEL_INLINE void dots_tile(dtype t, int rows, int columns, int64_t k,
                                           const float *a, int64_t lda, const void *b, int64_t ldb,
                                           float *c, int64_t ldc) {
  __m512 acc[DOTS_ROWS_AVX512][DOTS_COLUMNS];
#pragma GCC unroll 4
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int j = 0; j < DOTS_COLUMNS; j++) acc[i][j] = _mm512_setzero_ps();
  for (int64_t at = 0; at < k; at += 16) {
    const int n = k - at < 16 ? (int)(k - at) : 16;
    __m512 x[DOTS_ROWS_AVX512];
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++) x[i] = load_some_avx512(DTYPE_F32, a + i * lda, at, n);
#pragma GCC unroll 4
    for (int j = 0; j < columns; j++) {
      const __m512 y = load_some_avx512(t, b, j * ldb + at, n);
#pragma GCC unroll 4
      for (int i = 0; i < rows; i++) acc[i][j] = _mm512_fmadd_ps(x[i], y, acc[i][j]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < rows; i++) {
    float sums[DOTS_COLUMNS];
    _mm_storeu_ps(sums, sums_of_lanes(acc[i]));
    for (int j = 0; j < columns; j++) c[i * ldc + j] += sums[j];
  }
}

/* Computes some columns by all rows. */
TARGET_AVX512 KERNEL_INLINE void dots_strip(dtype t, int64_t rows, int columns, int64_t k,
                                            const float *a, int64_t lda, const void *b, int64_t ldb,
                                            float *c, int64_t ldc) {
  int64_t i = 0;
  for (; i + DOTS_ROWS_AVX512 <= rows; i += DOTS_ROWS_AVX512)
    dots_tile(t, DOTS_ROWS_AVX512, columns, k, a + i * lda, lda, b, ldb, c + i * ldc, ldc);
  for (; i < rows; i++) dots_tile(t, 1, columns, k, a + i * lda, lda, b, ldb, c + i * ldc, ldc);
}

TARGET_AVX512 KERNEL_INLINE void dots_of_type(dtype t, int64_t rows, int64_t columns, int64_t k,
                                              const float *a, int64_t lda, const void *b,
                                              int64_t ldb, float *c, int64_t ldc) {
  int64_t j = 0;
  for (; j + DOTS_COLUMNS <= columns; j += DOTS_COLUMNS)
    dots_strip(t, rows, DOTS_COLUMNS, k, a, lda, element_at(b, t, j * ldb), ldb, c + j, ldc);
  for (; j < columns; j++)
    dots_strip(t, rows, 1, k, a, lda, element_at(b, t, j * ldb), ldb, c + j, ldc);
}

TARGET_AVX512 static void dots_avx512(int64_t rows, int64_t columns, int64_t k, const float *a,
                                      int64_t lda, const rows_in_place *b, float *c, int64_t ldc) {
  if (b->type == DTYPE_F32)
    dots_of_type(DTYPE_F32, rows, columns, k, a, lda, b->x, b->ld, c, ldc);
  else if (b->type == DTYPE_F16)
    dots_of_type(DTYPE_F16, rows, columns, k, a, lda, b->x, b->ld, c, ldc);
  else
    dots_of_type(DTYPE_BF16, rows, columns, k, a, lda, b->x, b->ld, c, ldc);
}
#endif

void dots_of_rows(int64_t rows, int64_t columns, int64_t k, const float *a, int64_t lda,
                  const rows_in_place *b, float *c, int64_t ldc) {
#if KERNEL_X86
  if (cpu_has_avx512()) {
    dots_avx512(rows, columns, k, a, lda, b, c, ldc);
    return;
  }
  if (cpu_has_avx2()) {
    dots_avx2(rows, columns, k, a, lda, b->x, b->ld, c, ldc);
    return;
  }
#endif
  const float *x = b->x;
  for (int64_t j = 0; j < columns; j++)
    for (int64_t i = 0; i < rows; i++) c[i * ldc + j] += dot_f32(k, a + i * lda, x + j * b->ld);
}

/* ---------------------------------------------------------------- sums */

#if KERNEL_X86
enum { SUMS_ROWS = 4, SUMS_VECTORS = 4, SUMS_COLUMNS = 16 * SUMS_VECTORS };

/* Returns how many of n columns vector v has. */
KERNEL_INLINE int few_rows_lanes_of(int n, int v) {
  const int left = n - 16 * v;
  return left < 0 ? 0 : left < 16 ? left : 16;
}

/* Computes some rows of n <= SUMS_COLUMNS columns. */
TARGET_AVX512 KERNEL_INLINE void sums_tile(dtype t, int rows, int n, int64_t k, const float *a,
                                           int64_t lda, const void *b, int64_t ldb, float *c,
                                           int64_t ldc) {
  __m512 acc[SUMS_ROWS][SUMS_VECTORS];
#pragma GCC unroll 4
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int v = 0; v < SUMS_VECTORS; v++)
      acc[i][v] = load_some_avx512(DTYPE_F32, c + i * ldc, 16 * v, few_rows_lanes_of(n, v));
  for (int64_t j = 0; j < k; j++) {
    __m512 x[SUMS_VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < SUMS_VECTORS; v++)
      x[v] = load_some_avx512(t, b, j * ldb + 16 * v, few_rows_lanes_of(n, v));
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
      for (int v = 0; v < SUMS_VECTORS; v++)
        acc[i][v] = _mm512_fmadd_ps(_mm512_set1_ps(a[i * lda + j]), x[v], acc[i][v]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int v = 0; v < SUMS_VECTORS; v++)
      _mm512_mask_storeu_ps(c + i * ldc + 16 * v,
                            (__mmask16)bits_between(0, few_rows_lanes_of(n, v)), acc[i][v]);
}

TARGET_AVX512 KERNEL_INLINE void sums_strip(dtype t, int64_t rows, int n, int64_t k, const float *a,
                                            int64_t lda, const void *b, int64_t ldb, float *c,
                                            int64_t ldc) {
  int64_t i = 0;
  for (; i + SUMS_ROWS <= rows; i += SUMS_ROWS)
    sums_tile(t, SUMS_ROWS, n, k, a + i * lda, lda, b, ldb, c + i * ldc, ldc);
  for (; i < rows; i++) sums_tile(t, 1, n, k, a + i * lda, lda, b, ldb, c + i * ldc, ldc);
}

/* Computes all columns. For whole strips n is a constant, so that their vectors need no masks. */
TARGET_AVX512 KERNEL_INLINE void sums_of_type(dtype t, int64_t rows, int64_t columns, int64_t k,
                                              const float *a, int64_t lda, const void *b,
                                              int64_t ldb, float *c, int64_t ldc) {
  int64_t at = 0;
  for (; at + SUMS_COLUMNS <= columns; at += SUMS_COLUMNS)
    sums_strip(t, rows, SUMS_COLUMNS, k, a, lda, element_at(b, t, at), ldb, c + at, ldc);
  if (at < columns)
    sums_strip(t, rows, (int)(columns - at), k, a, lda, element_at(b, t, at), ldb, c + at, ldc);
}

TARGET_AVX512 static void few_rows_sums_avx512(int64_t rows, int64_t columns, int64_t k,
                                               const float *a, int64_t lda, const rows_in_place *b,
                                               float *c, int64_t ldc) {
  if (b->type == DTYPE_F32)
    sums_of_type(DTYPE_F32, rows, columns, k, a, lda, b->x, b->ld, c, ldc);
  else if (b->type == DTYPE_F16)
    sums_of_type(DTYPE_F16, rows, columns, k, a, lda, b->x, b->ld, c, ldc);
  else
    sums_of_type(DTYPE_BF16, rows, columns, k, a, lda, b->x, b->ld, c, ldc);
}
#endif

void sums_of_rows(int64_t rows, int64_t columns, int64_t k, const float *a, int64_t lda,
                  const rows_in_place *b, float *c, int64_t ldc) {
#if KERNEL_X86
  if (cpu_has_avx512()) {
    few_rows_sums_avx512(rows, columns, k, a, lda, b, c, ldc);
    return;
  }
#endif
  const float *x = b->x;
  for (int64_t j = 0; j < k; j++)
    for (int64_t i = 0; i < rows; i++)
      axpy_f32(columns, a[i * lda + j], x + j * b->ld, c + i * ldc);
}
