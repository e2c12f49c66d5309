/* Inner kernels of attention for many queries: products whose tiles stay in registers while
 * elements of a are broadcast to the lanes, and exponentials of scores. */
#include "backend/cpu/kernels/attention/attend_kernels.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/elementwise/steps.h"
#include "backend/cpu/kernels/support/features.h"
#include "backend/cpu/kernels/support/vec4.h"
#if KERNEL_X86
#include <immintrin.h>
#endif

/* ---------------------------------------------------------------- products */

#define VEC4_ROWS (KERNEL_ARM ? 4 : 2)

#define TILE_SET TILE_PORTABLE
#define TILE(name) name##_portable
#define TILE_ROWS VEC4_ROWS
#define TILE_LANES PANEL_HALF
#include "backend/cpu/kernels/attention/attend_tiles.h"

#if KERNEL_X86
#define TILE_SET TILE_AVX2
#define TILE(name) name##_avx2
#define TILE_ROWS 4
#define TILE_LANES PANEL_HALF
#include "backend/cpu/kernels/attention/attend_tiles.h"

#define TILE_SET TILE_AVX512
#define TILE(name) name##_avx512
#define TILE_ROWS PANEL_TILE
#define TILE_LANES PANEL_LANES
#include "backend/cpu/kernels/attention/attend_tiles.h"

#define TILE_SET TILE_AVX512_PAIRS
#define TILE(name) name##_pairs
#define TILE_ROWS PANEL_TILE
#define TILE_LANES PANEL_LANES
#include "backend/cpu/kernels/attention/attend_tiles.h"
#endif

/* ---------------------------------------------------------------- exponentials */

/* Returns a b + c, rounded once if `fuses`. */
KERNEL_INLINE float attend_kernels_add_product(float a, float b, float c, const bool fuses) {
  return fuses ? __builtin_fmaf(a, b, c) : a * b + c;
}

/* Returns exp of x <= 0 or NaN, within 1 ulp (1.02 if it fuses); below e^-86 it is 0. Computed as
 * 2^n e^r, |r| < 0.35, by a polynomial that was fitted by weighted least squares at Chebyshev
 * points, to 4e-9. */
KERNEL_INLINE float exp_of_negative(float x, const bool fuses) {
  const float shifted = attend_kernels_add_product(x, 0x1.715476p+0F, 0x1.8p23F, fuses),
              n = shifted - 0x1.8p23F;
  const float r = attend_kernels_add_product(
      n, 0x1.bd0106p-13F, attend_kernels_add_product(n, -0x1.63p-1F, x, fuses), fuses);
  float p = 0x1.687b46p-10F, scale;
  p = attend_kernels_add_product(p, r, 0x1.123bdcp-7F, fuses);
  p = attend_kernels_add_product(p, r, 0x1.555b5cp-5F, fuses);
  p = attend_kernels_add_product(p, r, 0x1.55548ep-3F, fuses);
  p = attend_kernels_add_product(p, r, 0x1.fffff8p-2F, fuses);
  p = attend_kernels_add_product(p * r, r, r, fuses) + 1;
  uint32_t bits;
  memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + 127) << 23;
  memcpy(&scale, &bits, sizeof scale);
  return x < -86 ? 0 : p * scale;
}

/* Implements exponentiate by loops over lanes in memory, which the compiler vectorises. The maximum
 * ignores NaN, but the exponential of NaN is NaN. */
KERNEL_INLINE void exponentiate_of(int lanes, int64_t n, float *restrict scores,
                                   panel_sums *restrict sums, const bool fuses) {
  float *restrict largest = sums->largest, *restrict fade = sums->fade,
                  *restrict total = sums->total;
  float base[PANEL_LANES];
  for (int l = 0; l < lanes; l++) fade[l] = largest[l];
  for (int64_t j = 0; j < n; j++)
    for (int l = 0; l < lanes; l++) {
      const float score = scores[j * lanes + l];
      largest[l] = score > largest[l] ? score : largest[l];
    }
  for (int l = 0; l < lanes; l++) {
    base[l] = largest[l] == -INFINITY ? 0 : largest[l];
    fade[l] = exp_of_negative(fade[l] - base[l], fuses);
    total[l] *= fade[l];
  }
  for (int64_t j = 0; j < n; j++)
    for (int l = 0; l < lanes; l++) {
      const float p = exp_of_negative(scores[j * lanes + l] - base[l], fuses);
      scores[j * lanes + l] = p;
      total[l] += p;
    }
}

KERNEL_INLINE void cap_of(int64_t n, float softcap, float *scores) {
  for (int64_t i = 0; i < n; i++) scores[i] = softcap * step_tanh_f32(scores[i] / softcap);
}

KERNEL_INLINE int32_t largest_of(int64_t n, const float *x) {
  int32_t largest = 0;
  for (int64_t i = 0; i < n; i++) {
    int32_t bits;
    memcpy(&bits, &x[i], sizeof bits);
    bits &= 0x7fffffff;
    largest = bits > largest ? bits : largest;
  }
  return largest;
}

static void exponentiate_portable(int lanes, int64_t n, float *scores, panel_sums *sums) {
  if (lanes == PANEL_HALF)
    exponentiate_of(PANEL_HALF, n, scores, sums, false);
  else
    exponentiate_of(PANEL_LANES, n, scores, sums, false);
}
static void cap_portable(int64_t n, float softcap, float *scores) { cap_of(n, softcap, scores); }
static int32_t attend_kernels_largest_portable(int64_t n, const float *x) {
  return largest_of(n, x);
}

#if KERNEL_X86
TARGET_AVX2 static void exponentiate_avx2(int lanes, int64_t n, float *scores, panel_sums *sums) {
  if (lanes == PANEL_HALF)
    exponentiate_of(PANEL_HALF, n, scores, sums, false);
  else
    exponentiate_of(PANEL_LANES, n, scores, sums, false);
}
TARGET_AVX2 static void cap_avx2(int64_t n, float softcap, float *scores) {
  cap_of(n, softcap, scores);
}
TARGET_AVX2 static int32_t attend_kernels_largest_avx2(int64_t n, const float *x) {
  return largest_of(n, x);
}
TARGET_AVX512 static void exponentiate_avx512(int lanes, int64_t n, float *scores,
                                              panel_sums *sums) {
  if (lanes == PANEL_HALF)
    exponentiate_of(PANEL_HALF, n, scores, sums, true);
  else
    exponentiate_of(PANEL_LANES, n, scores, sums, true);
}
TARGET_AVX512 static void cap_avx512(int64_t n, float softcap, float *scores) {
  cap_of(n, softcap, scores);
}
TARGET_AVX512 static int32_t largest_avx512(int64_t n, const float *x) { return largest_of(n, x); }
#endif

panel_kernels choose_panel_kernels(void) {
#if KERNEL_X86
  panel_kernels kernels = {.multiply = multiply_avx512,
                           .exponentiate = exponentiate_avx512,
                           .cap = cap_avx512,
                           .largest_bits = largest_avx512};
  if (cpu_has_avx512_bf16()) kernels.multiply_pairs = multiply_pairs;
  if (cpu_has_avx512()) return kernels;
  if (cpu_has_avx2())
    return (panel_kernels){.multiply = multiply_avx2,
                           .exponentiate = exponentiate_avx2,
                           .cap = cap_avx2,
                           .largest_bits = attend_kernels_largest_avx2};
#endif
  return (panel_kernels){.multiply = multiply_portable,
                         .exponentiate = exponentiate_portable,
                         .cap = cap_portable,
                         .largest_bits = attend_kernels_largest_portable};
}
