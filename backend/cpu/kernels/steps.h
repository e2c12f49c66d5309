#ifndef BACKEND_CPU_KERNELS_STEPS_H
#define BACKEND_CPU_KERNELS_STEPS_H
/* The step_* functions that the expressions of ops/elementwise.tsv use, for float, double and
 * int64_t operands, with PyTorch's meaning. Integers wrap; an integer division by zero gives 0 (the
 * kernel records the fault). */
#include <math.h>
#include <stdint.h>

static inline int64_t step_wrap(uint64_t a) { return (int64_t)a; }

/* ---- float */
static inline float step_neg_f32(float a) { return -a; }
static inline float step_abs_f32(float a) { return fabsf(a); }
static inline float step_sign_f32(float a) { return (float)((a > 0) - (a < 0)); }
static inline float step_add_f32(float a, float b) { return a + b; }
static inline float step_sub_f32(float a, float b) { return a - b; }
static inline float step_mul_f32(float a, float b) { return a * b; }
static inline float step_max_f32(float a, float b) { return a > b || a != a ? a : b; }
static inline float step_min_f32(float a, float b) { return a < b || a != a ? a : b; }
static inline float step_trunc_divide_f32(float a, float b) { return truncf(a / b); }
static inline float step_fmod_f32(float a, float b) { return fmodf(a, b); }
static inline float step_pow_f32(float a, float b) { return powf(a, b); }
static inline float step_softplus_f32(float a) { return a > 20 ? a : log1pf(expf(a)); }
static inline float step_remainder_f32(float a, float b) {
  float m = fmodf(a, b);
  return m != 0 && (b < 0) != (m < 0) ? m + b : m;
}
static inline float step_floor_divide_f32(float a, float b) {
  if (b == 0) return a / b;
  float m = fmodf(a, b), q = (a - m) / b;
  if (m != 0 && (b < 0) != (m < 0)) q -= 1;
  if (q == 0) return copysignf(0, a / b);
  float f = floorf(q);
  return q - f > 0.5F ? f + 1 : f;
}

/* ---- double */
static inline double step_neg_f64(double a) { return -a; }
static inline double step_abs_f64(double a) { return fabs(a); }
static inline double step_sign_f64(double a) { return (double)((a > 0) - (a < 0)); }
static inline double step_add_f64(double a, double b) { return a + b; }
static inline double step_sub_f64(double a, double b) { return a - b; }
static inline double step_mul_f64(double a, double b) { return a * b; }
static inline double step_max_f64(double a, double b) { return a > b || a != a ? a : b; }
static inline double step_min_f64(double a, double b) { return a < b || a != a ? a : b; }
static inline double step_trunc_divide_f64(double a, double b) { return trunc(a / b); }
static inline double step_fmod_f64(double a, double b) { return fmod(a, b); }
static inline double step_pow_f64(double a, double b) { return pow(a, b); }
static inline double step_softplus_f64(double a) { return a > 20 ? a : log1p(exp(a)); }
static inline double step_remainder_f64(double a, double b) {
  double m = fmod(a, b);
  return m != 0 && (b < 0) != (m < 0) ? m + b : m;
}
static inline double step_floor_divide_f64(double a, double b) {
  if (b == 0) return a / b;
  double m = fmod(a, b), q = (a - m) / b;
  if (m != 0 && (b < 0) != (m < 0)) q -= 1;
  if (q == 0) return copysign(0, a / b);
  double f = floor(q);
  return q - f > 0.5 ? f + 1 : f;
}

/* ---- int64_t */
static inline int64_t step_neg_i64(int64_t a) { return step_wrap(0 - (uint64_t)a); }
static inline int64_t step_abs_i64(int64_t a) { return a < 0 ? step_neg_i64(a) : a; }
static inline int64_t step_sign_i64(int64_t a) { return (a > 0) - (a < 0); }
static inline int64_t step_not(int64_t a) { return ~a; }
static inline int64_t step_add_i64(int64_t a, int64_t b) {
  return step_wrap((uint64_t)a + (uint64_t)b);
}
static inline int64_t step_sub_i64(int64_t a, int64_t b) {
  return step_wrap((uint64_t)a - (uint64_t)b);
}
static inline int64_t step_mul_i64(int64_t a, int64_t b) {
  return step_wrap((uint64_t)a * (uint64_t)b);
}
static inline int64_t step_max_i64(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t step_min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t step_trunc_divide_i64(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? step_neg_i64(a) : a / b;
}
static inline int64_t step_fmod_i64(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
static inline int64_t step_remainder_i64(int64_t a, int64_t b) {
  int64_t m = step_fmod_i64(a, b);
  return m != 0 && (m < 0) != (b < 0) ? m + b : m;
}
static inline int64_t step_floor_divide_i64(int64_t a, int64_t b) {
  int64_t q = step_trunc_divide_i64(a, b);
  return step_fmod_i64(a, b) != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
/* Negative exponents truncate 1 / a^-b toward zero (0 for a = 0 too). */
static inline int64_t step_pow_i64(int64_t a, int64_t b) {
  if (b < 0) {
    if (a == 1) return 1;
    if (a == -1) return b % 2 != 0 ? -1 : 1;
    return 0;
  }
  uint64_t result = 1, base = (uint64_t)a;
  for (; b > 0; b /= 2, base *= base)
    if (b % 2 != 0) result *= base;
  return step_wrap(result);
}
/* Amounts outside of [0, bits) shift everything out. */
static inline int64_t step_shift_left(int64_t a, int64_t b) {
  return b < 0 || b > 63 ? 0 : step_wrap((uint64_t)a << b);
}
static inline int64_t step_shift_right(int64_t a, int64_t b) {
  return a >> (b < 0 || b > 63 ? 63 : b);
}

#define step_neg(a) \
  _Generic((a), float : step_neg_f32, double : step_neg_f64, default : step_neg_i64)(a)
#define step_abs(a) \
  _Generic((a), float : step_abs_f32, double : step_abs_f64, default : step_abs_i64)(a)
#define step_sign(a) \
  _Generic((a), float : step_sign_f32, double : step_sign_f64, default : step_sign_i64)(a)
#define step_softplus(a) _Generic((a), float : step_softplus_f32, default : step_softplus_f64)(a)
#define step_add(a, b) \
  _Generic((a), float : step_add_f32, double : step_add_f64, default : step_add_i64)(a, b)
#define step_sub(a, b) \
  _Generic((a), float : step_sub_f32, double : step_sub_f64, default : step_sub_i64)(a, b)
#define step_mul(a, b) \
  _Generic((a), float : step_mul_f32, double : step_mul_f64, default : step_mul_i64)(a, b)
#define step_max(a, b) \
  _Generic((a), float : step_max_f32, double : step_max_f64, default : step_max_i64)(a, b)
#define step_min(a, b) \
  _Generic((a), float : step_min_f32, double : step_min_f64, default : step_min_i64)(a, b)
#define step_fmod(a, b) \
  _Generic((a), float : step_fmod_f32, double : step_fmod_f64, default : step_fmod_i64)(a, b)
#define step_pow(a, b) \
  _Generic((a), float : step_pow_f32, double : step_pow_f64, default : step_pow_i64)(a, b)
#define step_remainder(a, b)             \
  _Generic((a), float                    \
           : step_remainder_f32, double  \
           : step_remainder_f64, default \
           : step_remainder_i64)(a, b)
#define step_trunc_divide(a, b)             \
  _Generic((a), float                       \
           : step_trunc_divide_f32, double  \
           : step_trunc_divide_f64, default \
           : step_trunc_divide_i64)(a, b)
#define step_floor_divide(a, b)             \
  _Generic((a), float                       \
           : step_floor_divide_f32, double  \
           : step_floor_divide_f64, default \
           : step_floor_divide_i64)(a, b)

#endif
