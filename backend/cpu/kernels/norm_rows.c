/* Sums and scaling of floats in doubles, for each instruction set. */
#include "backend/cpu/kernels/norm_rows.h"

#include <string.h>

#include "backend/cpu/kernels/support/features.h"

enum { LANES = 8, SUMS = 4 };
typedef double doubles __attribute__((vector_size(LANES * sizeof(double))));
typedef float floats __attribute__((vector_size(LANES * sizeof(float))));

/* A macro, because vectors as arguments have no common ABI across instruction sets. */
#define LOAD(to, from)                           \
  do {                                           \
    floats some;                                 \
    memcpy(&some, from, sizeof some);            \
    to = __builtin_convertvector(some, doubles); \
  } while (0)

KERNEL_INLINE double norm_rows_sum_floats(int64_t n, const float *x, double shift, bool squares) {
  doubles sums[SUMS] = {{0}};
  double rest = 0;
  int64_t i = 0;
  for (; i + SUMS * LANES <= n; i += SUMS * LANES)
#pragma GCC unroll 4
    for (int k = 0; k < SUMS; k++) {
      doubles v;
      LOAD(v, x + i + k * LANES);
      v -= shift;
      sums[k] += squares ? v * v : v;
    }
  for (; i + LANES <= n; i += LANES) {
    doubles v;
    LOAD(v, x + i);
    v -= shift;
    sums[0] += squares ? v * v : v;
  }
  for (; i < n; i++) rest += squares ? (x[i] - shift) * (x[i] - shift) : x[i] - shift;
  const doubles all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  return ((all[0] + all[1]) + (all[2] + all[3])) + ((all[4] + all[5]) + (all[6] + all[7])) + rest;
}

KERNEL_INLINE void norm_rows_scale_floats(int64_t n, const float *x, double mean, double inverse,
                                          const float *weight, const float *bias, float *out) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    doubles v, w, b;
    LOAD(v, x + i);
    LOAD(w, weight + i);
    LOAD(b, bias + i);
    const floats y = __builtin_convertvector((v - mean) * inverse * w + b, floats);
    memcpy(out + i, &y, sizeof y);
  }
  for (; i < n; i++) out[i] = (float)((x[i] - mean) * inverse * weight[i] + bias[i]);
}

KERNEL_INLINE void shift_floats(int64_t n, const float *x, double scale, double shift, float *out) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    doubles v;
    LOAD(v, x + i);
    const floats y = __builtin_convertvector(v * scale + shift, floats);
    memcpy(out + i, &y, sizeof y);
  }
  for (; i < n; i++) out[i] = (float)(x[i] * scale + shift);
}

static double norm_rows_sum_portable(int64_t n, const float *x, double shift, bool squares) {
  return squares ? norm_rows_sum_floats(n, x, shift, true)
                 : norm_rows_sum_floats(n, x, shift, false);
}
static void scale_portable(int64_t n, const float *x, double mean, double inverse,
                           const float *weight, const float *bias, float *out) {
  norm_rows_scale_floats(n, x, mean, inverse, weight, bias, out);
}
static void shift_portable(int64_t n, const float *x, double scale, double shift, float *out) {
  shift_floats(n, x, scale, shift, out);
}

#if KERNEL_X86
TARGET_AVX2 static double norm_rows_sum_avx2(int64_t n, const float *x, double shift,
                                             bool squares) {
  return squares ? norm_rows_sum_floats(n, x, shift, true)
                 : norm_rows_sum_floats(n, x, shift, false);
}
TARGET_AVX2 static void norm_rows_scale_avx2(int64_t n, const float *x, double mean, double inverse,
                                             const float *weight, const float *bias, float *out) {
  norm_rows_scale_floats(n, x, mean, inverse, weight, bias, out);
}
TARGET_AVX2 static void shift_avx2(int64_t n, const float *x, double scale, double shift,
                                   float *out) {
  shift_floats(n, x, scale, shift, out);
}

TARGET_AVX512 static double norm_rows_sum_avx512(int64_t n, const float *x, double shift,
                                                 bool squares) {
  return squares ? norm_rows_sum_floats(n, x, shift, true)
                 : norm_rows_sum_floats(n, x, shift, false);
}
TARGET_AVX512 static void scale_avx512(int64_t n, const float *x, double mean, double inverse,
                                       const float *weight, const float *bias, float *out) {
  norm_rows_scale_floats(n, x, mean, inverse, weight, bias, out);
}
TARGET_AVX512 static void shift_avx512(int64_t n, const float *x, double scale, double shift,
                                       float *out) {
  shift_floats(n, x, scale, shift, out);
}
#endif

norm_rows choose_norm_rows(void) {
#if KERNEL_X86
  if (cpu_has_avx512()) return (norm_rows){norm_rows_sum_avx512, scale_avx512, shift_avx512};
  if (cpu_has_avx2()) return (norm_rows){norm_rows_sum_avx2, norm_rows_scale_avx2, shift_avx2};
#endif
  return (norm_rows){norm_rows_sum_portable, scale_portable, shift_portable};
}
