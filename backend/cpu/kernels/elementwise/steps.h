#ifndef BACKEND_CPU_KERNELS_ELEMENTWISE_STEPS_H
#define BACKEND_CPU_KERNELS_ELEMENTWISE_STEPS_H
/* The step_* functions that the expressions of ops/elementwise.tsv use, for float, double and
 * int64_t operands, with PyTorch's meaning. Integers wrap; an integer division by zero returns 0
 * (the kernel records the fault). */
#include <math.h>
#include <stdint.h>
#include <string.h>

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

/* Returns exp(x) for |x| < 700, with a relative error of 2e-10, as 2^n e^r with |r| < 0.35. It has
 * no branches, so that loops over it vectorise. Rounded to float, the error is at most 0.51 ulp. */
static inline double step_exp_short(double x) {
  double shifted = x * 0x1.71547652b82fep+0 + 0x1.8p52, n = shifted - 0x1.8p52;
  double r = x - n * 0x1.62e42fefa39efp-1, p = 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1;
  p = p * r + 1;
  uint64_t bits;
  double scale;
  memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + 1023) << 52;
  memcpy(&scale, &bits, sizeof scale);
  return p * scale;
}
static inline float step_exp_f32(float a) {
  double x = a;
  x = x < -110 ? -110 : x;
  x = x > 90 ? 90 : x;
  return (float)step_exp_short(x);
}
/* Returns 2^n exp(r), |r| < 0.35, where `shifted` is 0x1.8p23 + n and n is in [-125, 128]; a
 * smaller n counts as -125. exp(r) is 1 + r + r^2 P(r), P fitted by weighted least squares. */
static inline float step_scaled_exp(float shifted, float r) {
  const int32_t zero = 0x4b400000; /* the bits of 0x1.8p23 */
  float p = 0x1.6a245p-10F, scale;
  p = p * r + 0x1.1239f6p-7F;
  p = p * r + 0x1.5558f2p-5F;
  p = p * r + 0x1.555492p-3F;
  p = p * r + 0x1.fffffcp-2F;
  p = p * (r * r) + r + 1;
  int32_t e;
  memcpy(&e, &shifted, sizeof e);
  e = e > zero - 125 ? e : zero - 125;
  e = (int32_t)((uint32_t)(e - zero + 126) << 23);
  memcpy(&scale, &e, sizeof e);
  return p * scale * 2;
}
/* Returns exp(a), accurate to 1.3 ulp, computed in float alone. Results below 2^-125 are inexact,
 * and the result for NaN is unspecified. The argument is clamped as an integer, because compilers
 * turn float clamps into branches and then divide once per branch. */
static inline float step_exp_near(float a) {
  const uint32_t sign = 0x80000000, most = 0x42b20000 /* 89 */;
  uint32_t bits, size;
  memcpy(&bits, &a, sizeof bits);
  size = bits & ~sign;
  size = size < most ? size : most;
  bits = (bits & sign) | size;
  memcpy(&a, &bits, sizeof bits);
  float shifted = a * 0x1.715476p+0F + 0x1.8p23F, n = shifted - 0x1.8p23F;
  return step_scaled_exp(shifted, a - n * 0x1.62e4p-1F - n * 0x1.7f7d1cp-20F);
}
static inline float step_sigmoid_f32(float a) {
  float y = 1 / (1 + step_exp_near(-a));
  return a != a ? a : y;
}
static inline float step_silu_f32(float a) { return a / (1 + step_exp_near(-a)); }

/* Returns a Phi(a), where Phi(-t) = exp(-t^2 / 2) G(t), and G(t) = u P(u - 0.7), u = 1 / (1 + 0.26
 * t), P fitted by weighted least squares at Chebyshev points of [0, 13.2] to 3e-8. t^2 is the sum
 * of an exact part and the rest. The error is at most 6 ulp; results in (-2^-125, 0) may be 0. */
static inline float step_gelu_f32(float a) {
  const uint32_t sign = 0x80000000, far = 0x41520000 /* 13.125 */;
  uint32_t bits, size, high_bits, y;
  float t, high;
  memcpy(&bits, &a, sizeof bits);
  size = bits & ~sign;
  size = size < far ? size : far;
  high_bits = size & 0xfffff000;
  memcpy(&t, &size, sizeof t);
  memcpy(&high, &high_bits, sizeof high);
  const float square = high * high * -0.5F, rest = (t - high) * (t + high) * 0.5F;
  const float shifted = square * 0x1.715476p+0F + 0x1.8p23F, n = shifted - 0x1.8p23F;
  const float c = 0.26F * t, u = 1 / (1 + c), v = 0.3F - c * u; /* u - 0.7, with a smaller error */
  float g = 0x1.fef394p-6F;
  g = g * v + 0x1.2fc216p-6F;
  g = g * v - 0x1.42f946p-4F;
  g = g * v - 0x1.4d961cp-4F;
  g = g * v + 0x1.45c2a4p-3F;
  g = g * v + 0x1.f5d70cp-2F;
  g = g * v + 0x1.43d082p-1F;
  g = g * v + 0x1.04fa34p-1F;
  g = g * v + 0x1.1a8362p-2F;
  float q =
      u * g * step_scaled_exp(shifted, square - n * 0x1.62e4p-1F - n * 0x1.7f7d1cp-20F - rest);
  memcpy(&y, &q, sizeof y);
  y = size < far ? y : 0;
  memcpy(&q, &y, sizeof q);
  return a * (bits & sign ? q : 1 - q);
}

/* Returns erf(a): a P(a^2) below 1, else 1 - exp(Q(a)), both fitted by weighted least squares at
 * Chebyshev points of [0, 1] and [1, 4], to 4e-11. The error is at most 0.51 ulp. */
static inline float step_erf_f32(float a) {
  double x = fabs((double)a), y = x * x, z = x > 4 ? 4 : x;
  double p = -0x1.44978056f5c4fp-17;
  p = p * y + 0x1.d89ff32a8ad9ap-14;
  p = p * y - 0x1.bcd3a45572bffp-11;
  p = p * y + 0x1.562abda2bb5bap-8;
  p = p * y - 0x1.b829d0bb5fa33p-6;
  p = p * y + 0x1.ce2f0955e18e6p-4;
  p = p * y - 0x1.81274666d358ep-2;
  p = p * y + 0x1.20dd750405436p+0;
  double q = 0x1.a05d86697b371p-22;
  q = q * z - 0x1.c8b0cfa1e2e82p-16;
  q = q * z + 0x1.f24874c83b722p-12;
  q = q * z - 0x1.1b28586683eb8p-8;
  q = q * z + 0x1.a102154687b2ep-6;
  q = q * z - 0x1.bd668d57bfa2ep-4;
  q = q * z - 0x1.441340c8793ffp-1;
  q = q * z - 0x1.2133cf0720114p+0;
  q = q * z + 0x1.bad8a2327p-13;
  q = 1 - step_exp_short(q);
  return copysignf((float)(x < 1 ? x * p : q), a);
}

/* Returns tanh(a), computed by exp(2 |a|); below 0.625 it is |a| (1 + a^2 P(a^2)), where P is
 * fitted by weighted least squares at Chebyshev points to 1e-8. The error is at most 2 ulp. */
static inline float step_tanh_f32(float a) {
  const uint32_t sign = 0x80000000, near = 0x3f200000 /* 0.625 */;
  uint32_t bits, size, p_bits, q_bits;
  float t;
  memcpy(&bits, &a, sizeof bits);
  size = bits & ~sign;
  memcpy(&t, &size, sizeof t);
  const float y = t * t;
  float p = -0x1.76cc46p-8F;
  p = p * y + 0x1.52617cp-6F;
  p = p * y - 0x1.b846b8p-5F;
  p = p * y + 0x1.110786p-3F;
  p = p * y - 0x1.555536p-2F;
  p = t + t * y * p;
  const float q = 1 - 2 / (step_exp_near(2 * t) + 1);
  memcpy(&p_bits, &p, sizeof p_bits);
  memcpy(&q_bits, &q, sizeof q_bits);
  bits = (bits & sign) | (size < near ? p_bits : q_bits);
  memcpy(&t, &bits, sizeof t);
  return a != a ? a : t;
}

/* ---- double */
static inline double step_sigmoid_f64(double a) { return 1 / (1 + exp(-a)); }
static inline double step_silu_f64(double a) { return a / (1 + exp(-a)); }
static inline double step_gelu_f64(double a) {
  return a * 0.5 * (1 + erf(a * 0.70710678118654752));
}
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

/* ---- special functions: computed in double for float, too */

static inline double step_lgamma_f64(double a) {
  int sign;
  return lgamma_r(a, &sign);
}
static inline float step_lgamma_f32(float a) {
  int sign;
  return lgammaf_r(a, &sign);
}
/* Returns tan(pi * a), |a| <= 1/2, corrected for the rounding of pi * a. */
static inline double step_tanpi(double a) {
  const double pi = 0x1.921fb54442d18p+1, pi_low = 0x1.1a62633145c07p-53;
  const double angle = pi * a, low = fma(pi, a, -angle) + pi_low * a, t = tan(angle);
  return t + (1 + t * t) * low;
}
/* Digamma: by reflection below 0, by recurrence up to 10, then by the asymptotic series in
 * Bernoulli numbers. -0 and 0 are poles with a sign, negative integers yield NaN. */
static inline double step_digamma_f64(double a) {
  if (a == 0) return copysign(INFINITY, -a);
  double shift = 0;
  if (a < 0) {
    if (a == floor(a)) return NAN;
    shift = -3.14159265358979323846 / step_tanpi(a - rint(a));
    a = 1 - a;
  }
  for (; a < 10; a += 1) shift -= 1 / a;
  if (a > 1e17) return shift + log(a);
  double y = 1 / (a * a);
  double series =
      y * (1.0 / 12 - y * (1.0 / 120 -
                           y * (1.0 / 252 -
                                y * (1.0 / 240 - y * (1.0 / 132 - y * (691.0 / 32760 - y / 12))))));
  return shift + log(a) - 0.5 / a - series;
}
static inline float step_digamma_f32(float a) { return (float)step_digamma_f64(a); }
/* Inverse erf: a first value from a polynomial in 1 / sqrt(-log(1 - a^2)), or around 0 in -log(1 -
 * a^2), both fitted by weighted least squares at Chebyshev points; then Halley's method on erf, or
 * on erfc where 1 - |a| is exact. */
static inline double step_erfinv_f64(double a) {
  double m = fabs(a);
  if (!(m < 1)) return m == 1 ? copysign(INFINITY, a) : NAN;
  double w = -log1p(-m * m), x;
  if (w < 5) {
    static const double p[] = {-0x1.2e11ecp-27, 0x1.8f234cp-26, 0x1.f48d4ap-22,  -0x1.d0c1bap-19,
                               -0x1.4d1608p-18, 0x1.c9e6c8p-13, -0x1.486614p-10, -0x1.11c4ecp-8,
                               0x1.f91e8ap-3,   0x1.805c5ep+0};
    x = p[0];
    for (int i = 1; i < 10; i++) x = x * (w - 2.5) + p[i];
  } else {
    static const double p[] = {0x1.83b3b2p+11, 0x1.8aab00p+7, -0x1.15cdf0p+8, -0x1.04804ap+5,
                               0x1.73047cp+3,  0x1.401014p+1, 0x1.7bfdc6p-1,  0x1.6fe7acp-3,
                               -0x1.78ca80p-3, 0x1.e6079ap-1};
    double s = 1 / sqrt(w);
    x = p[0];
    for (int i = 1; i < 10; i++) x = x * (s - 0x1.38e861ep-2) + p[i];
    x /= s;
  }
  x *= m;
  double off = m < 0.5 ? erf(x) - m : (1 - m) - erfc(x);
  double step = off / (1.12837916709551257390 * exp(-x * x));
  return copysign(x - step / (1 + x * step), a);
}
static inline float step_erfinv_f32(float a) { return (float)step_erfinv_f64(a); }
static inline double step_frexp_mantissa_f64(double a) {
  int e;
  return frexp(a, &e);
}
static inline double step_frexp_exponent_f64(double a) {
  int e = 0;
  if (isfinite(a)) (void)frexp(a, &e);
  return e;
}
static inline float step_frexp_mantissa_f32(float a) { return (float)step_frexp_mantissa_f64(a); }
static inline float step_frexp_exponent_f32(float a) { return (float)step_frexp_exponent_f64(a); }

/* The modified Bessel function of order 0. Up to 20 it is computed by the power series in y = a^2 /
 * 4, innermost term first, with compensation in every step; above 20, by the asymptotic series. */
static inline double step_i0_near(double m) {
  const double half = m / 2, y = half * half, y_low = fma(half, half, -y);
  double sum = 1, low = 0;
  for (int k = 36; k > 0; k--) {
    const double product = sum * y, term = product / (k * k), next = 1 + term;
    const double lost = fma(sum, y, -product) + sum * y_low + low * y;
    const double one = next - term;
    low =
        (lost + fma(-term, (double)(k * k), product)) / (k * k) + (1 - one) + (term - (next - one));
    sum = next;
  }
  return sum + low;
}
/* The asymptotic series without its factor exp(m). */
static inline double step_i0_far(double m) {
  double sum = 1;
  for (int k = 30; k > 0; k--) sum = 1 + sum * ((2 * k - 1) * (2 * k - 1)) / (8 * k * m);
  return sum / sqrt(6.28318530717958647692 * m);
}
static inline double step_i0_f64(double a) {
  const double m = fabs(a);
  return m <= 20 ? step_i0_near(m) : exp(m) * step_i0_far(m);
}
static inline float step_i0_f32(float a) {
  const float m = fabsf(a);
  return m <= 20 ? (float)step_i0_near(m) : expf(m) * (float)step_i0_far(m);
}

/* Hurwitz's zeta function, the sum of (q + k)^-s over k >= 0: terms up to 9, then by
 * Euler-Maclaurin, whose coefficients are B_2k / (2k)!. */
static inline double step_zeta_sum(double s, double q) {
  static const double c[] = {1.0 / 12,
                             -1.0 / 720,
                             1.0 / 30240,
                             -1.0 / 1209600,
                             1.0 / 47900160,
                             -5.28419013868749322e-10,
                             1.33825365306846789e-11,
                             -3.38968029632258272e-13,
                             8.58606205627784517e-15,
                             -2.17486869855806192e-16,
                             5.50900282836022953e-18,
                             -1.39544646858125247e-19};
  double term = pow(q, -s), sum = term;
  for (int i = 0; i < 9 || q <= 9; i++) {
    term = pow(q += 1, -s);
    sum += term;
    if (q > 1 && fabs(term) <= 0x1p-54 * fabs(sum)) return sum;
  }
  double series = c[11];
  for (int k = 10; k >= 0; k--)
    series = c[k] + series * ((s + 2 * k + 1) / q) * ((s + 2 * k + 2) / q);
  return sum + term * (q / (s - 1) - 0.5 + s / q * series);
}
/* For a q far below 0: the sum over all k, on both sides of 0, minus the terms of k < 0. Where all
 * terms are 0, torch's formula has infinity times 0 from s = 2.5e13 on. */
static inline double step_zeta_f64(double s, double q) {
  if (s <= 1) return s == 1 ? INFINITY : NAN;
  if (q <= 0 && q == floor(q)) return INFINITY;
  if (isnan(s) || isnan(q)) return NAN;
  if (q < 0 && s != floor(s)) return NAN;
  if (isinf(q) || isinf(s)) return q > 1 ? NAN : q == 1 ? 1 : INFINITY;
  if (s > 2.5e13 && q > 1 && pow(q, -s) == 0) return NAN;
  if (!(q <= -16)) return step_zeta_sum(s, q);
  double sign = fmod(s, 2) == 0 ? 1 : -1;
  double all = step_zeta_sum(s, q - floor(q)) + sign * step_zeta_sum(s, ceil(q) - q);
  return all - sign * step_zeta_sum(s, 1 - q);
}
static inline float step_zeta_f32(float s, float q) { return (float)step_zeta_f64(s, q); }

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
/* A negative exponent returns 1 / a^-b truncated toward zero; 0 for a = 0. */
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
/* An amount outside of [0, bits) shifts all bits out. */
static inline int64_t step_shift_left(int64_t a, int64_t b) {
  return b < 0 || b > 63 ? 0 : step_wrap((uint64_t)a << b);
}
static inline int64_t step_shift_right(int64_t a, int64_t b) {
  return a >> (b < 0 || b > 63 ? 63 : b);
}
/* The result has the sign of the last remainder. */
static inline int64_t step_gcd(int64_t a, int64_t b) {
  while (a != 0) {
    int64_t rest = a == -1 ? 0 : b % a;
    b = a;
    a = rest;
  }
  return b;
}
static inline int64_t step_lcm(int64_t a, int64_t b) {
  int64_t g = step_gcd(a, b);
  return g == 0 ? 0 : step_abs_i64(step_mul_i64(step_trunc_divide_i64(a, g), b));
}

#define step_neg(a) \
  _Generic((a), float : step_neg_f32, double : step_neg_f64, default : step_neg_i64)(a)
#define step_abs(a) \
  _Generic((a), float : step_abs_f32, double : step_abs_f64, default : step_abs_i64)(a)
#define step_sign(a) \
  _Generic((a), float : step_sign_f32, double : step_sign_f64, default : step_sign_i64)(a)
#define step_exp(a) _Generic((a), float : step_exp_f32, default : exp)(a)
#define step_sigmoid(a) _Generic((a), float : step_sigmoid_f32, default : step_sigmoid_f64)(a)
#define step_silu(a) _Generic((a), float : step_silu_f32, default : step_silu_f64)(a)
#define step_gelu(a) _Generic((a), float : step_gelu_f32, default : step_gelu_f64)(a)
#define step_erf(a) _Generic((a), float : step_erf_f32, default : erf)(a)
#define step_tanh(a) _Generic((a), float : step_tanh_f32, default : tanh)(a)
#define step_softplus(a) _Generic((a), float : step_softplus_f32, default : step_softplus_f64)(a)
#define step_lgamma(a) _Generic((a), float : step_lgamma_f32, default : step_lgamma_f64)(a)
#define step_digamma(a) _Generic((a), float : step_digamma_f32, default : step_digamma_f64)(a)
#define step_erfinv(a) _Generic((a), float : step_erfinv_f32, default : step_erfinv_f64)(a)
#define step_i0(a) _Generic((a), float : step_i0_f32, default : step_i0_f64)(a)
#define step_zeta(s, q) _Generic((s), float : step_zeta_f32, default : step_zeta_f64)(s, q)
#define step_frexp_mantissa(a) \
  _Generic((a), float : step_frexp_mantissa_f32, default : step_frexp_mantissa_f64)(a)
#define step_frexp_exponent(a) \
  _Generic((a), float : step_frexp_exponent_f32, default : step_frexp_exponent_f64)(a)
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
