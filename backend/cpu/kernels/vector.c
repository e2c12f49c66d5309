/* Inner loops over contiguous floats: 16-byte vectors anywhere, 32-byte ones with AVX2 and FMA. */
#include "backend/cpu/kernels/vector.h"

#include <string.h>

#include "backend/cpu/kernels/features.h"
#if KERNEL_X86
#include <immintrin.h>
#endif

typedef float vec4 __attribute__((vector_size(16)));

static inline vec4 load4(const float *p) {
  vec4 v;
  memcpy(&v, p, sizeof v);
  return v;
}

static float dot_portable(int64_t n, const float *a, const float *b) {
  vec4 s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    s0 += load4(a + i) * load4(b + i);
    s1 += load4(a + i + 4) * load4(b + i + 4);
    s2 += load4(a + i + 8) * load4(b + i + 8);
    s3 += load4(a + i + 12) * load4(b + i + 12);
  }
  vec4 s = (s0 + s1) + (s2 + s3);
  float sum = (s[0] + s[1]) + (s[2] + s[3]);
  for (; i < n; i++) sum += a[i] * b[i];
  return sum;
}

static void axpy_portable(int64_t n, float s, const float *restrict x, float *restrict y) {
  for (int64_t i = 0; i < n; i++) y[i] += s * x[i];
}

#if KERNEL_X86
TARGET_AVX2 static float dot_avx2(int64_t n, const float *a, const float *b) {
  __m256 s0 = _mm256_setzero_ps(), s1 = s0, s2 = s0, s3 = s0;
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    s0 = _mm256_fmadd_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i), s0);
    s1 = _mm256_fmadd_ps(_mm256_loadu_ps(a + i + 8), _mm256_loadu_ps(b + i + 8), s1);
    s2 = _mm256_fmadd_ps(_mm256_loadu_ps(a + i + 16), _mm256_loadu_ps(b + i + 16), s2);
    s3 = _mm256_fmadd_ps(_mm256_loadu_ps(a + i + 24), _mm256_loadu_ps(b + i + 24), s3);
  }
  for (; i + 8 <= n; i += 8)
    s0 = _mm256_fmadd_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i), s0);
  float lane[8], sum = 0;
  _mm256_storeu_ps(lane, _mm256_add_ps(_mm256_add_ps(s0, s1), _mm256_add_ps(s2, s3)));
  for (; i < n; i++) sum += a[i] * b[i];
  for (int k = 0; k < 8; k++) sum += lane[k];
  return sum;
}

TARGET_AVX2 static void axpy_avx2(int64_t n, float s, const float *x, float *y) {
  __m256 v = _mm256_set1_ps(s);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(y + i, _mm256_fmadd_ps(v, _mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i)));
  for (; i < n; i++) y[i] = __builtin_fmaf(s, x[i], y[i]);
}
#endif

float dot_f32(int64_t n, const float *a, const float *b) {
#if KERNEL_X86
  if (cpu_has_avx2()) return dot_avx2(n, a, b);
#endif
  return dot_portable(n, a, b);
}

void axpy_f32(int64_t n, float s, const float *x, float *y) {
#if KERNEL_X86
  if (cpu_has_avx2()) {
    axpy_avx2(n, s, x, y);
    return;
  }
#endif
  axpy_portable(n, s, x, y);
}
