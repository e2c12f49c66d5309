/* Bias, sum and limits of a row of outputs. */
#include "backend/cpu/kernels/conv_tail.h"

#include "backend/cpu/kernels/features.h"

KERNEL_INLINE float between(float y, float low, float high) {
  y = low > y ? low : y;
  return high < y ? high : y;
}

KERNEL_INLINE void finish(const conv_tail *t, float bias, int64_t at, int64_t n, float *y) {
  const float *added = t->added, low = t->low, high = t->high;
  if (added) {
    for (int64_t i = 0; i < n; i++) y[i] = between(y[i] + bias + added[at + i], low, high);
  } else {
    for (int64_t i = 0; i < n; i++) y[i] = between(y[i] + bias, low, high);
  }
}

#if KERNEL_X86
TARGET_AVX2 static void finish_avx2(const conv_tail *t, float bias, int64_t at, int64_t n,
                                    float *y) {
  finish(t, bias, at, n, y);
}
#endif

void conv_tail_row(const conv_tail *t, float bias, int64_t at, int64_t n, float *y) {
#if KERNEL_X86
  if (cpu_has_avx2()) {
    finish_avx2(t, bias, at, n, y);
    return;
  }
#endif
  finish(t, bias, at, n, y);
}
