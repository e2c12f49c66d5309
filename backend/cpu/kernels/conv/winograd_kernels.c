/* Winograd's method on tiles. The interpolation points are 0, 1, -1 and infinity for 2 x 2 outputs,
 * and 0, +-5/8, +-3/2 and infinity for 4 x 4. Points whose products and quotients are near 1 lose
 * the least precision, and the powers of these are exact. */
#include "backend/cpu/kernels/conv/winograd_kernels.h"

#include <string.h>

#include "backend/cpu/kernels/support/avx512.h"
#include "backend/cpu/kernels/support/vec4.h"

enum { LANES = WINOGRAD_LANES, MAX_N = 6, AHEAD = 8192 /* bytes of the weight */ };

/* The points +-A and +-B, for tiles of 4 x 4. */
#define A 0.625f
#define B 1.5f

/* ---------------------------------------------------------------- factors of inputs */

/* A vector of 16 floats. The compiler splits it into as many registers as the target needs. */
typedef float lanes __attribute__((vector_size(64)));

/* Loads n vectors, `stride` elements apart. */
KERNEL_INLINE void winograd_kernels_load(int n, const float *from, int64_t stride, lanes *to) {
#pragma GCC unroll 6
  for (int i = 0; i < n; i++) memcpy(&to[i], from + i * stride, sizeof *to);
}
KERNEL_INLINE void winograd_kernels_store(int n, const lanes *from, float *to, int64_t stride) {
#pragma GCC unroll 6
  for (int i = 0; i < n; i++) memcpy(to + i * stride, &from[i], sizeof *from);
}

/* Transforms a row or column of a tile, from elements `stride` apart to `to_stride` apart. */
KERNEL_INLINE void factors_of_4(const float *from, int64_t stride, float *to, int64_t to_stride) {
  lanes d[4];
  winograd_kernels_load(4, from, stride, d);
  const lanes f[4] = {d[0] - d[2], d[1] + d[2], d[2] - d[1], d[3] - d[1]};
  winograd_kernels_store(4, f, to, to_stride);
}

KERNEL_INLINE void factors_of_6(const float *from, int64_t stride, float *to, int64_t to_stride) {
  const float a2 = A * A, b2 = B * B;
  lanes d[6];
  winograd_kernels_load(6, from, stride, d);
  const lanes even_a = d[4] - b2 * d[2], odd_a = A * d[3] - A * b2 * d[1];
  const lanes even_b = d[4] - a2 * d[2], odd_b = B * d[3] - B * a2 * d[1];
  const lanes f[6] = {a2 * b2 * d[0] - (a2 + b2) * d[2] + d[4],
                      even_a + odd_a,
                      even_a - odd_a,
                      even_b + odd_b,
                      even_b - odd_b,
                      a2 * b2 * d[1] - (a2 + b2) * d[3] + d[5]};
  winograd_kernels_store(6, f, to, to_stride);
}

/* Transforms columns, then rows. */
KERNEL_INLINE void factors_of_tile(int m, const float *from, int64_t row, float *to,
                                   int64_t stride) {
  const int n = m + 2;
  float half[MAX_N * MAX_N * LANES];
#pragma GCC unroll 6
  for (int x = 0; x < n; x++) {
    if (m == 2)
      factors_of_4(from + x * LANES, row * LANES, half + x * LANES, n * LANES);
    else
      factors_of_6(from + x * LANES, row * LANES, half + x * LANES, n * LANES);
  }
#pragma GCC unroll 6
  for (int y = 0; y < n; y++) {
    if (m == 2)
      factors_of_4(half + y * n * LANES, LANES, to + y * n * stride, stride);
    else
      factors_of_6(half + y * n * LANES, LANES, to + y * n * stride, stride);
  }
}

/* ---------------------------------------------------------------- outputs of sums */

KERNEL_INLINE void outputs_of_4(const float *from, int64_t stride, float *to, int64_t to_stride) {
  lanes s[4];
  winograd_kernels_load(4, from, stride, s);
  const lanes y[2] = {s[0] + s[1] + s[2], s[1] - s[2] + s[3]};
  winograd_kernels_store(2, y, to, to_stride);
}

KERNEL_INLINE void outputs_of_6(const float *from, int64_t stride, float *to, int64_t to_stride) {
  lanes s[6];
  winograd_kernels_load(6, from, stride, s);
  const lanes even_a = s[1] + s[2], odd_a = s[1] - s[2], even_b = s[3] + s[4], odd_b = s[3] - s[4];
  const lanes y[4] = {s[0] + even_a + even_b, A * odd_a + B * odd_b,
                      A * A * even_a + B * B * even_b,
                      A * A * A * odd_a + B * B * B * odd_b + s[5]};
  winograd_kernels_store(4, y, to, to_stride);
}

KERNEL_INLINE void outputs_of_tile(int m, const float *from, int64_t stride, const float *bias,
                                   float *to, float *check) {
  const int n = m + 2;
  float half[WINOGRAD_LANES * 4 * MAX_N];
  lanes seen, add;
  winograd_kernels_load(1, check, LANES, &seen);
  winograd_kernels_load(1, bias, LANES, &add);
#pragma GCC unroll 6
  for (int x = 0; x < n; x++) {
    if (m == 2)
      outputs_of_4(from + x * stride, n * stride, half + x * LANES, n * LANES);
    else
      outputs_of_6(from + x * stride, n * stride, half + x * LANES, n * LANES);
  }
#pragma GCC unroll 4
  for (int y = 0; y < m; y++) {
    lanes made[4];
    if (m == 2)
      outputs_of_4(half + y * n * LANES, LANES, to + y * m * LANES, LANES);
    else
      outputs_of_6(half + y * n * LANES, LANES, to + y * m * LANES, LANES);
    winograd_kernels_load(m, to + y * m * LANES, LANES, made);
#pragma GCC unroll 4
    for (int x = 0; x < m; x++) seen += made[x] += add;
    winograd_kernels_store(m, made, to + y * m * LANES, LANES);
  }
  winograd_kernels_store(1, &seen, check, LANES);
}

/* ---------------------------------------------------------------- any processor */

#define TILE_SET TILE_PORTABLE
#define TILE_ONE product_portable
#define TILE_RUN multiply_portable
#if defined(__aarch64__)
#define TILE_ROWS 4
#else
#define TILE_ROWS 2
#endif
#define TILE_VECTORS 4
#define TILE_AHEAD(p) (void)(p)
enum { PORTABLE_M = TILE_ROWS };
#include "backend/cpu/kernels/conv/winograd_tiles.h"

static void factors_2(const float *from, int64_t row, float *to, int64_t stride) {
  factors_of_tile(2, from, row, to, stride);
}
static void factors_4(const float *from, int64_t row, float *to, int64_t stride) {
  factors_of_tile(4, from, row, to, stride);
}
static void outputs_2(const float *from, int64_t stride, const float *bias, float *to,
                      float *check) {
  outputs_of_tile(2, from, stride, bias, to, check);
}
static void outputs_4(const float *from, int64_t stride, const float *bias, float *to,
                      float *check) {
  outputs_of_tile(4, from, stride, bias, to, check);
}

#if KERNEL_X86
/* ---------------------------------------------------------------- AVX2 */

#define TILE_SET TILE_AVX2
#define TILE_ONE product_avx2
#define TILE_RUN multiply_avx2
#define TILE_ROWS 6
#define TILE_VECTORS 2
#define TILE_AHEAD(p) prefetch_line(p, AHEAD)
enum { AVX2_M = TILE_ROWS };
#include "backend/cpu/kernels/conv/winograd_tiles.h"

TARGET_AVX2 static void factors_2_avx2(const float *from, int64_t row, float *to, int64_t stride) {
  factors_of_tile(2, from, row, to, stride);
}
TARGET_AVX2 static void factors_4_avx2(const float *from, int64_t row, float *to, int64_t stride) {
  factors_of_tile(4, from, row, to, stride);
}
TARGET_AVX2 static void outputs_2_avx2(const float *from, int64_t stride, const float *bias,
                                       float *to, float *check) {
  outputs_of_tile(2, from, stride, bias, to, check);
}
TARGET_AVX2 static void outputs_4_avx2(const float *from, int64_t stride, const float *bias,
                                       float *to, float *check) {
  outputs_of_tile(4, from, stride, bias, to, check);
}

/* ---------------------------------------------------------------- AVX-512 */

#define TILE_SET TILE_AVX512
#define TILE_ONE product_avx512
#define TILE_RUN multiply_avx512
#define TILE_ROWS 12
#define TILE_VECTORS 2
#define TILE_AHEAD(p) prefetch_line(p, AHEAD)
enum { AVX512_M = TILE_ROWS };
#include "backend/cpu/kernels/conv/winograd_tiles.h"

TARGET_AVX512 static void factors_2_avx512(const float *from, int64_t row, float *to,
                                           int64_t stride) {
  factors_of_tile(2, from, row, to, stride);
}
TARGET_AVX512 static void factors_4_avx512(const float *from, int64_t row, float *to,
                                           int64_t stride) {
  factors_of_tile(4, from, row, to, stride);
}
TARGET_AVX512 static void outputs_2_avx512(const float *from, int64_t stride, const float *bias,
                                           float *to, float *check) {
  outputs_of_tile(2, from, stride, bias, to, check);
}
TARGET_AVX512 static void outputs_4_avx512(const float *from, int64_t stride, const float *bias,
                                           float *to, float *check) {
  outputs_of_tile(4, from, stride, bias, to, check);
}
#endif

winograd_kernel winograd_kernel_for(int m) {
#if KERNEL_X86
  if (cpu_has_avx512())
    return (winograd_kernel){AVX512_M, 2 * LANES, multiply_avx512,
                             m == 2 ? factors_2_avx512 : factors_4_avx512,
                             m == 2 ? outputs_2_avx512 : outputs_4_avx512};
  if (cpu_has_avx2())
    return (winograd_kernel){AVX2_M, LANES, multiply_avx2, m == 2 ? factors_2_avx2 : factors_4_avx2,
                             m == 2 ? outputs_2_avx2 : outputs_4_avx2};
#endif
  return (winograd_kernel){PORTABLE_M, LANES, multiply_portable, m == 2 ? factors_2 : factors_4,
                           m == 2 ? outputs_2 : outputs_4};
}

/* ---------------------------------------------------------------- factors of kernels */

/* Transforms three elements `stride` apart. The factor of a point x is (the sum of k_j x^j) / (the
 * product of x's differences from the other points); the factor of infinity is the last element. */
static void factors_of_3(int m, const double *k, int64_t stride, double *to, int64_t to_stride) {
  const double a = A, b = B, at_0 = 1 / (a * a * b * b);
  const double of_a = 1 / (2 * a * a * (a * a - b * b)), of_b = 1 / (2 * b * b * (b * b - a * a));
  for (int i = 0; i < LANES; i++) {
    const double k0 = k[i], k1 = k[stride + i], k2 = k[2 * stride + i];
    to[i] = m == 2 ? k0 : k0 * at_0;
    to[to_stride + i] = m == 2 ? (k0 + k2 + k1) / 2 : (k0 + a * a * k2 + a * k1) * of_a;
    to[2 * to_stride + i] = m == 2 ? (k0 + k2 - k1) / 2 : (k0 + a * a * k2 - a * k1) * of_a;
    to[3 * to_stride + i] = m == 2 ? k2 : (k0 + b * b * k2 + b * k1) * of_b;
    if (m == 2) continue;
    to[4 * to_stride + i] = (k0 + b * b * k2 - b * k1) * of_b;
    to[5 * to_stride + i] = k2;
  }
}

void winograd_weight(int m, const double *kernels, float *factors) {
  enum { SIDE = 3 };
  const int n = m + 2;
  double rows[SIDE * MAX_N * LANES], made[MAX_N * LANES];
  for (int y = 0; y < SIDE; y++)
    factors_of_3(m, kernels + y * SIDE * LANES, LANES, rows + y * n * LANES, LANES);
  for (int x = 0; x < n; x++) {
    factors_of_3(m, rows + x * LANES, n * LANES, made, LANES);
    for (int y = 0; y < n; y++)
      for (int i = 0; i < LANES; i++) factors[(y * n + x) * LANES + i] = (float)made[y * LANES + i];
  }
}
