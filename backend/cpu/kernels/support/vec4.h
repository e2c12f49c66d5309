#ifndef BACKEND_CPU_KERNELS_SUPPORT_VEC4_H
#define BACKEND_CPU_KERNELS_SUPPORT_VEC4_H
/* Vectors of four floats for any processor, as vector types of the compiler. */
#include <stdint.h>
#include <string.h>

#include "backend/cpu/kernels/support/features.h"
#if defined(__aarch64__)
#include <arm_neon.h>
#endif

typedef float vec4 __attribute__((vector_size(16)));
typedef int32_t int4 __attribute__((vector_size(16)));
typedef uint16_t short4 __attribute__((vector_size(8)));

static inline vec4 vec4_load(const float *p) {
  vec4 v;
  memcpy(&v, p, sizeof v);
  return v;
}

static inline vec4 vec4_fill(float x) { return (vec4){x, x, x, x}; }

/* Returns sum + a * b, rounded once where every processor of the architecture has FMA. Sums of
 * products therefore differ between architectures. */
static inline vec4 vec4_add_product(vec4 sum, vec4 a, vec4 b) {
#if defined(__aarch64__)
  return (vec4)vfmaq_f32((float32x4_t)sum, (float32x4_t)a, (float32x4_t)b);
#else
  return sum + a * b;
#endif
}
/* Functions of words that hold two BF16, the even one in the low bits, the odd one in the high
 * bits. pair_even and pair_odd return one as float. vec4_add_pairs adds the odd product to sum
 * first, then the even one. */
static inline vec4 vec4_pair_even(vec4 w) { return (vec4)((int4)w << 16); }
static inline vec4 vec4_pair_odd(vec4 w) { return (vec4)((int4)w & ((int4){0} - 0x10000)); }
static inline vec4 vec4_add_pairs(vec4 sum, vec4 a, vec4 b) {
  sum = vec4_add_product(sum, vec4_pair_odd(a), vec4_pair_odd(b));
  return vec4_add_product(sum, vec4_pair_even(a), vec4_pair_even(b));
}
#if KERNEL_ARM
/* Works like vec4_add_pairs, by the instruction that first adds the two products to each other. */
TARGET_ARM_BF16 static inline vec4 vec4_add_bfdot(vec4 sum, vec4 a, vec4 b) {
  return (vec4)vbfdotq_f32((float32x4_t)sum, vreinterpretq_bf16_f32((float32x4_t)a),
                           vreinterpretq_bf16_f32((float32x4_t)b));
}
#endif
/* Converts F16 to floats. Infinity and NaN get the exponent that they have in floats. */
static inline vec4 vec4_of_f16(short4 half) {
#if defined(__aarch64__)
  return (vec4)vcvt_f32_f16((float16x4_t)half);
#else
  const int4 h = __builtin_convertvector(half, int4), all = {-1, -1, -1, -1};
  const int4 size = h & (all & 0x7fff), special = size >= (all & 0x7c00);
  const vec4 up = {0x1p112F, 0x1p112F, 0x1p112F, 0x1p112F};
  vec4 f;
  int4 bits = size << 13, to;
  memcpy(&f, &bits, sizeof f);
  f *= up;
  memcpy(&to, &f, sizeof to);
  to = (to & ~special) | ((bits | (all & 0x7f800000)) & special) | (h >> 15 << 31);
  memcpy(&f, &to, sizeof f);
  return f;
#endif
}

/* Return the larger or the smaller of each pair of elements, or b if either is NaN. */
static inline vec4 vec4_pick(int4 mask, vec4 a, vec4 b) {
  return (vec4)((mask & (int4)a) | (~mask & (int4)b));
}
static inline vec4 vec4_larger(vec4 a, vec4 b) { return vec4_pick(a > b, a, b); }
static inline vec4 vec4_smaller(vec4 a, vec4 b) { return vec4_pick(a < b, a, b); }

/* Returns y > 0 ? y : y * slope. */
static inline vec4 vec4_leaky(vec4 y, vec4 slope) { return vec4_pick(y > 0, y, y * slope); }

static inline vec4 vec4_add_scaled(vec4 sum, float a, vec4 b) {
  return vec4_add_product(sum, vec4_fill(a), b);
}

#endif
