/* The step_* functions that the expressions of ops/elementwise.tsv use, for float, double and long,
 * with PyTorch's meaning. They are the counterparts of backend/cpu/kernels/elementwise/steps.h,
 * with the same names. The generator of fused kernels appends the suffix (_f32, _f64, _i64) of the
 * step's compute type. Integers wrap; an integer division by zero returns 0. */
#ifndef STEPS_H
#define STEPS_H

#define STEP_FLOAT_FUNCTIONS(S, T)                                                                \
  static inline T step_neg_##S(T a) { return -a; }                                                \
  static inline T step_abs_##S(T a) { return fabs(a); }                                           \
  static inline T step_sign_##S(T a) { return (T)((a > 0) - (a < 0)); }                           \
  static inline T step_add_##S(T a, T b) { return a + b; }                                        \
  static inline T step_sub_##S(T a, T b) { return a - b; }                                        \
  static inline T step_mul_##S(T a, T b) { return a * b; }                                        \
  static inline T step_max_##S(T a, T b) { return a > b || a != a ? a : b; }                      \
  static inline T step_min_##S(T a, T b) { return a < b || a != a ? a : b; }                      \
  static inline T step_exp_##S(T a) { return exp(a); }                                            \
  static inline T step_tanh_##S(T a) { return tanh(a); }                                          \
  static inline T step_trunc_divide_##S(T a, T b) { return trunc(a / b); }                        \
  static inline T step_fmod_##S(T a, T b) { return fmod(a, b); }                                  \
  static inline T step_pow_##S(T a, T b) { return pow(a, b); }                                    \
  static inline T step_softplus_##S(T a) { return a > 20 ? a : log1p(exp(a)); }                   \
  static inline T step_remainder_##S(T a, T b) {                                                  \
    T m = fmod(a, b);                                                                             \
    return m != 0 && (b < 0) != (m < 0) ? m + b : m;                                              \
  }                                                                                               \
  static inline T step_floor_divide_##S(T a, T b) {                                               \
    if (b == 0) return a / b;                                                                     \
    T m = fmod(a, b), q = (a - m) / b;                                                            \
    if (m != 0 && (b < 0) != (m < 0)) q -= 1;                                                     \
    if (q == 0) return copysign((T)0, a / b);                                                     \
    T f = floor(q);                                                                               \
    return q - f > (T)0.5 ? f + 1 : f;                                                            \
  }                                                                                               \
  /* Truncates toward zero. NaN and values out of range become LONG_MIN, as on x86, or INT_MIN    \
   * for types with fewer bits than long, which then wraps. */                                    \
  static inline long step_to_int_##S(T a) {                                                       \
    return a > (T)-2147483649.0 && a < (T)2147483648.0 ? (long)(int)a : INT_MIN;                  \
  }                                                                                               \
  static inline long step_to_long_##S(T a) {                                                      \
    return a >= (T)-9223372036854775808.0f && a < (T)9223372036854775808.0f ? (long)a : LONG_MIN; \
  }                                                                                               \
  /* Returns the bits of a ulong; 0 from 2^64 on. */                                              \
  static inline long step_to_ulong_##S(T a) {                                                     \
    if (a < (T)9223372036854775808.0f || a != a) return step_to_long_##S(a);                      \
    return a < (T)18446744073709551616.0f ? as_long((ulong)a) : 0;                                \
  }

/* Special functions. Each is described in backend/cpu/kernels/elementwise/steps.h. Mesa's lgamma
 * returns -inf for -inf, hence the test. */
#define STEP_SPECIAL_FUNCTIONS(S, T)                                                       \
  static inline T step_lgamma_##S(T a) { return isinf(a) ? (T)INFINITY : lgamma(a); }      \
  static inline T step_erfinv_##S(T a) {                                                   \
    const T m = fabs(a);                                                                   \
    if (!(m < 1)) return m == 1 ? copysign((T)INFINITY, a) : (T)NAN;                       \
    const T w = -log1p(-m * m), s = rsqrt(w), c = w - (T)2.5f, t = s - (T)0x1.38e861ep-2f; \
    T p = (T)-0x1.2e11ecp-27f, q = (T)0x1.83b3b2p+11f;                                     \
    p = p * c + (T)0x1.8f234cp-26f, q = q * t + (T)0x1.8aab00p+7f;                         \
    p = p * c + (T)0x1.f48d4ap-22f, q = q * t - (T)0x1.15cdf0p+8f;                         \
    p = p * c - (T)0x1.d0c1bap-19f, q = q * t - (T)0x1.04804ap+5f;                         \
    p = p * c - (T)0x1.4d1608p-18f, q = q * t + (T)0x1.73047cp+3f;                         \
    p = p * c + (T)0x1.c9e6c8p-13f, q = q * t + (T)0x1.401014p+1f;                         \
    p = p * c - (T)0x1.486614p-10f, q = q * t + (T)0x1.7bfdc6p-1f;                         \
    p = p * c - (T)0x1.11c4ecp-8f, q = q * t + (T)0x1.6fe7acp-3f;                          \
    p = p * c + (T)0x1.f91e8ap-3f, q = q * t - (T)0x1.78ca80p-3f;                          \
    p = p * c + (T)0x1.805c5ep+0f, q = (q * t + (T)0x1.e6079ap-1f) / s;                    \
    const T x = (w < 5 ? p : q) * m;                                                       \
    if (sizeof(T) == 4) return copysign(x, a);                                             \
    const T off = m < (T)0.5f ? erf(x) - m : (1 - m) - erfc(x);                            \
    const T step = off / ((T)1.12837916709551257390 * exp(-x * x));                        \
    return copysign(x - step / (1 + x * step), a);                                         \
  }                                                                                        \
  static inline T step_i0_##S(T a) {                                                       \
    const int is_f32 = sizeof(T) == 4;                                                     \
    const T m = fabs(a), y = (m / 2) * (m / 2), y_low = fma(m / 2, m / 2, -y);             \
    T sum = 1, low = 0;                                                                    \
    if (m <= (is_f32 ? 10 : 20)) {                                                         \
      for (int k = is_f32 ? 18 : 36; k > 0; k--) {                                         \
        const T square = k * k, product = sum * y, term = product / square;                \
        const T lost = fma(sum, y, -product) + sum * y_low + low * y;                      \
        const T next = 1 + term, one = next - term;                                        \
        low = (lost + fma(-term, square, product)) / square;                               \
        low += (1 - one) + (term - (next - one));                                          \
        sum = next;                                                                        \
      }                                                                                    \
      return sum + low;                                                                    \
    }                                                                                      \
    for (int k = is_f32 ? 12 : 30; k > 0; k--) {                                           \
      const T odd = 2 * k - 1;                                                             \
      sum = 1 + sum * (odd * odd) / (8 * k * m);                                           \
    }                                                                                      \
    return exp(m) * (sum / sqrt((T)6.28318530717958647692 * m));                           \
  }                                                                                        \
  static inline T step_frexp_mantissa_##S(T a) {                                           \
    int e;                                                                                 \
    return frexp(a, &e);                                                                   \
  }                                                                                        \
  static inline T step_frexp_exponent_##S(T a) {                                           \
    int e = 0;                                                                             \
    (void)frexp(a, &e);                                                                    \
    return isfinite(a) ? (T)e : (T)0;                                                      \
  }

/* The sums of digamma cancel near its zeros, so f32 is computed in f64 if the device has it. */
#define STEP_DIGAMMA(S, T)                                                             \
  static inline T step_digamma_##S(T a) {                                              \
    if (a == 0) return copysign((T)INFINITY, -a);                                      \
    if (a < 0 && a == floor(a)) return (T)NAN;                                         \
    T shift = 0;                                                                       \
    if (a < 0) {                                                                       \
      shift = (T)-3.14159265358979323846 / tanpi(a - rint(a));                         \
      a = 1 - a;                                                                       \
    }                                                                                  \
    for (; a < 10; a += 1) shift -= 1 / a;                                             \
    if (a > (T)1e17f) return shift + log(a);                                           \
    const T y = 1 / (a * a);                                                           \
    T series = (T)(691.0 / 32760) - y * (T)(1.0 / 12);                                 \
    series = (T)(1.0 / 240) - y * ((T)(1.0 / 132) - y * series);                       \
    series = (T)(1.0 / 12) - y * ((T)(1.0 / 120) - y * ((T)(1.0 / 252) - y * series)); \
    return shift + log(a) - (T)0.5 / a - y * series;                                   \
  }

/* The sums of zeta cancel likewise for q below 0. */
#define STEP_ZETA(S, T)                                                                            \
  static inline T step_zeta_sum_##S(T s, T q) {                                                    \
    const T c[12] = {(T)(1.0 / 12),                                                                \
                     (T)(-1.0 / 720),                                                              \
                     (T)(1.0 / 30240),                                                             \
                     (T)(-1.0 / 1209600),                                                          \
                     (T)(1.0 / 47900160),                                                          \
                     (T)-5.28419013868749322e-10,                                                  \
                     (T)1.33825365306846789e-11,                                                   \
                     (T)-3.38968029632258272e-13,                                                  \
                     (T)8.58606205627784517e-15,                                                   \
                     (T)-2.17486869855806192e-16,                                                  \
                     (T)5.50900282836022953e-18,                                                   \
                     (T)-1.39544646858125247e-19};                                                 \
    T term = pow(q, -s), sum = term;                                                               \
    for (int i = 0; i < 9 || q <= 9; i++) {                                                        \
      q += 1;                                                                                      \
      term = pow(q, -s);                                                                           \
      sum += term;                                                                                 \
      if (q > 1 && fabs(term) <= (T)0x1p-54f * fabs(sum)) return sum;                              \
    }                                                                                              \
    T series = c[11];                                                                              \
    for (int k = 10; k >= 0; k--)                                                                  \
      series = c[k] + series * ((s + (T)(2 * k + 1)) / q) * ((s + (T)(2 * k + 2)) / q);            \
    return sum + term * (q / (s - 1) - (T)0.5f + s / q * series);                                  \
  }                                                                                                \
  static inline T step_zeta_##S(T s, T q) {                                                        \
    if (s <= 1) return s == 1 ? (T)INFINITY : (T)NAN;                                              \
    if (q <= 0 && q == floor(q)) return (T)INFINITY;                                               \
    if (isnan(s) || isnan(q)) return (T)NAN;                                                       \
    if (q < 0 && s != floor(s)) return (T)NAN;                                                     \
    if (isinf(q) || isinf(s)) return q > 1 ? (T)NAN : q == 1 ? (T)1 : (T)INFINITY;                 \
    if (s > (T)2.5e13f && q > 1 && pow(q, -s) == 0) return (T)NAN;                                 \
    if (!(q <= -16)) return step_zeta_sum_##S(s, q);                                               \
    const T sign = fmod(s, (T)2) == 0 ? 1 : -1, low = step_zeta_sum_##S(s, ceil(q) - q);           \
    return (step_zeta_sum_##S(s, q - floor(q)) + sign * low) - sign * step_zeta_sum_##S(s, 1 - q); \
  }

STEP_FLOAT_FUNCTIONS(f32, float)
STEP_SPECIAL_FUNCTIONS(f32, float)
#ifdef cl_khr_fp64
STEP_FLOAT_FUNCTIONS(f64, double)
STEP_SPECIAL_FUNCTIONS(f64, double)
STEP_DIGAMMA(f64, double)
STEP_ZETA(f64, double)
static inline float step_digamma_f32(float a) { return (float)step_digamma_f64(a); }
static inline float step_zeta_f32(float s, float q) { return (float)step_zeta_f64(s, q); }
#else
STEP_DIGAMMA(f32, float)
STEP_ZETA(f32, float)
#endif

/* exp for sigmoids, whose arguments need no exact tails. On CPUs it is accurate to 1.3 ulp, without
 * branches and subnormal numbers; backend/cpu/kernels/elementwise/steps.h describes it. The result
 * for NaN is unspecified. */
#if ON_CPU
/* Returns e^r 2^n, where `shifted` is 0x1.8p23f + n. */
static inline float step_scaled_exp(float shifted, float r) {
  const int zero = 0x4b400000; /* the bits of 0x1.8p23f */
  float p = 0x1.6a245p-10f;
  p = FMA(p, r, 0x1.1239f6p-7f);
  p = FMA(p, r, 0x1.5558f2p-5f);
  p = FMA(p, r, 0x1.555492p-3f);
  p = FMA(p, r, 0x1.fffffcp-2f);
  p = FMA(p, r * r, r) + 1;
  return p * as_float((uint)(max(as_int(shifted), zero - 125) - zero + 126) << 23) * 2;
}
static inline float step_exp_near_f32(float a) {
  const uint sign = 0x80000000u;
  const float limited = as_float((as_uint(a) & sign) | min(as_uint(a) & ~sign, 0x42b20000u));
  const float shifted = FMA(limited, 0x1.715476p+0f, 0x1.8p23f), n = shifted - 0x1.8p23f;
  return step_scaled_exp(shifted, FMA(n, -0x1.7f7d1cp-20f, FMA(n, -0x1.62e4p-1f, limited)));
}
#else
static inline float step_exp_near_f32(float a) { return exp(a); }
#endif
static inline float step_silu_f32(float a) { return a / (1 + step_exp_near_f32(-a)); }
static inline float step_sigmoid_f32(float a) {
  const float y = 1 / (1 + step_exp_near_f32(-a));
  return a != a ? a : y;
}
#ifdef cl_khr_fp64
static inline double step_silu_f64(double a) { return a / (1 + exp(-a)); }
static inline double step_sigmoid_f64(double a) { return 1 / (1 + exp(-a)); }
#endif

/* erf: PoCL's is a scalar call (20 ns per element), so CPUs use a version without branches,
 * accurate to 1.2 ulp. Below 1 it is a + a P(a^2), else 1 - exp(Q(a)). Both polynomials are fitted
 * by weighted least squares at Chebyshev points of [0, 1] and [1, 4]. */
#if ON_CPU
static inline float step_erf_f32(float a) {
  const float x = fabs(a), y = x * x, z = x > 4 ? 4 : x;
  float p = 0x1.4a9dacp-14f;
  p = FMA(p, y, -0x1.a46b4p-11f);
  p = FMA(p, y, 0x1.541636p-8f);
  p = FMA(p, y, -0x1.b7fb38p-6f);
  p = FMA(p, y, 0x1.ce2d18p-4f);
  p = FMA(p, y, -0x1.81273ep-2f);
  p = FMA(p, y, 0x1.06eba8p-3f);
  float q = -0x1.6c073cp-16f;
  q = FMA(q, z, 0x1.ceeb6ep-12f);
  q = FMA(q, z, -0x1.139922p-8f);
  q = FMA(q, z, 0x1.9d0bfp-6f);
  q = FMA(q, z, -0x1.bc18dap-4f);
  q = FMA(q, z, -0x1.4434fp-1f);
  q = FMA(q, z, -0x1.212c2ep+0f);
  q = FMA(q, z, 0x1.8b4116p-13f);
  return copysign(x < 1 ? FMA(p, x, x) : 1 - exp(q), a);
}
#else
static inline float step_erf_f32(float a) { return erf(a); }
#endif
#ifdef cl_khr_fp64
static inline double step_erf_f64(double a) { return erf(a); }
#endif

/* GELU, a Phi(a), to 6 ulp with one exponential on CPUs. backend/cpu/kernels/elementwise/steps.h
 * describes it. Results in (-2^-125, 0) may be 0. */
#if ON_CPU
static inline float step_gelu_f32(float a) {
  const uint sign = 0x80000000u, far = 0x41520000u /* 13.125 */, bits = as_uint(a);
  const uint size = min(bits & ~sign, far);
  const float t = as_float(size), high = as_float(size & 0xfffff000u);
  const float square = high * high * -0.5f, rest = (t - high) * (t + high) * 0.5f;
  const float shifted = FMA(square, 0x1.715476p+0f, 0x1.8p23f), n = shifted - 0x1.8p23f;
  const float c = 0.26f * t, u = 1 / (1 + c), v = FMA(-c, u, 0.3f); /* u - 0.7 */
  float g = 0x1.fef394p-6f;
  g = FMA(g, v, 0x1.2fc216p-6f);
  g = FMA(g, v, -0x1.42f946p-4f);
  g = FMA(g, v, -0x1.4d961cp-4f);
  g = FMA(g, v, 0x1.45c2a4p-3f);
  g = FMA(g, v, 0x1.f5d70cp-2f);
  g = FMA(g, v, 0x1.43d082p-1f);
  g = FMA(g, v, 0x1.04fa34p-1f);
  g = FMA(g, v, 0x1.1a8362p-2f);
  const float r = FMA(n, -0x1.7f7d1cp-20f, FMA(n, -0x1.62e4p-1f, square)) - rest;
  const float q = size < far ? u * g * step_scaled_exp(shifted, r) : 0;
  return a * (bits & sign ? q : 1 - q);
}
#else
static inline float step_gelu_f32(float a) {
  return a * 0.5f * (1 + step_erf_f32(a * 0.70710678118654752f));
}
#endif
#ifdef cl_khr_fp64
static inline double step_gelu_f64(double a) {
  return a * 0.5 * (1 + step_erf_f64(a * 0.70710678118654752));
}
#endif

/* rint: PoCL implements it by a scalar instruction that its compiler does not vectorise. */
#if defined(POCL_DEVICE_ADDRESS_BITS) && defined(__SSE4_1__)
static inline float step_round_f32(float a) { return __builtin_rintf(a); }
#else
static inline float step_round_f32(float a) { return rint(a); }
#endif
#ifdef cl_khr_fp64
static inline double step_round_f64(double a) { return rint(a); }
#endif

/* step_limit_f32 is clamp(a, low, high) where neither limit is NaN: one instruction per limit.
 * step_to_int_of_limited_f32 is step_to_int_f32 for a NaN or limits that fit an int. */
static inline float step_limit_f32(float a, float low, float high) {
  const float y = low > a ? low : a;
  return high < y ? high : y;
}
static inline long step_to_int_of_limited_f32(float a) { return a == a ? (long)(int)a : INT_MIN; }

static inline long step_to_int_i64(long a) { return a; }
static inline long step_to_long_i64(long a) { return a; }
static inline long step_to_ulong_i64(long a) { return a; }
static inline long step_neg_i64(long a) { return (long)(0 - (ulong)a); }
static inline long step_abs_i64(long a) { return a < 0 ? step_neg_i64(a) : a; }
static inline long step_sign_i64(long a) { return (a > 0) - (a < 0); }
static inline long step_not_i64(long a) { return ~a; }
static inline long step_add_i64(long a, long b) { return (long)((ulong)a + (ulong)b); }
static inline long step_sub_i64(long a, long b) { return (long)((ulong)a - (ulong)b); }
static inline long step_mul_i64(long a, long b) { return (long)((ulong)a * (ulong)b); }
static inline long step_max_i64(long a, long b) { return a > b ? a : b; }
static inline long step_min_i64(long a, long b) { return a < b ? a : b; }
static inline long step_trunc_divide_i64(long a, long b) {
  if (b == 0) return 0;
  return b == -1 ? step_neg_i64(a) : a / b;
}
/* Uses the quotient and sign bits, because rusticl (Mesa 22.3) miscompiles % and comparisons of a
 * widened int with 0. */
static inline long step_fmod_i64(long a, long b) {
  return b == 0 ? 0 : step_sub_i64(a, step_mul_i64(step_trunc_divide_i64(a, b), b));
}
static inline long step_remainder_i64(long a, long b) {
  long m = step_fmod_i64(a, b);
  return m != 0 && (m ^ b) < 0 ? m + b : m;
}
static inline long step_floor_divide_i64(long a, long b) {
  return step_fmod_i64(a, b) != 0 && (a ^ b) < 0 ? step_trunc_divide_i64(a, b) - 1
                                                 : step_trunc_divide_i64(a, b);
}
/* A negative exponent returns 1 / a^-b truncated toward zero; 0 for a = 0. */
static inline long step_pow_i64(long a, long b) {
  if (b < 0) {
    if (a == 1) return 1;
    if (a == -1) return b % 2 != 0 ? -1 : 1;
    return 0;
  }
  ulong result = 1, base = (ulong)a;
  for (; b > 0; b /= 2, base *= base)
    if (b % 2 != 0) result *= base;
  return (long)result;
}
static inline long step_gcd_i64(long a, long b) {
  while (a != 0) {
    const long rest = a == -1 ? 0 : b % a;
    b = a;
    a = rest;
  }
  return b;
}
static inline long step_lcm_i64(long a, long b) {
  const long g = step_gcd_i64(a, b);
  return g == 0 ? 0 : step_abs_i64(step_mul_i64(step_trunc_divide_i64(a, g), b));
}
/* An amount outside of [0, bits) shifts all bits out. */
static inline long step_shift_left_i64(long a, long b) {
  return b < 0 || b > 63 ? 0 : (long)((ulong)a << b);
}
static inline long step_shift_right_i64(long a, long b) { return a >> (b < 0 || b > 63 ? 63 : b); }
#endif
