/* Bias, addition and limits of rows of outputs: to = min(max(from + bias + added, low), high). */
#include "backend/cpu/kernels/conv/conv_tail.h"

#include "backend/cpu/kernels/support/avx512.h"
#include "backend/cpu/kernels/support/bf16.h"
#include "backend/cpu/kernels/support/vec4.h"

/* Finishes outputs [i, n). */
KERNEL_INLINE void finish(const conv_tail *tail, float bias, const float *added, int64_t i,
                          int64_t n, const float *from, float *to) {
  for (; i < n; i++) {
    float y = from[i] + bias;
    if (added) y += added[i];
    y = tail->low > y ? tail->low : y;
    to[i] = tail->high < y ? tail->high : y;
  }
}

static void finish_portable(const conv_tail *tail, float bias, const float *added, int64_t n,
                            const float *from, float *to) {
  const vec4 b = vec4_fill(bias), low = vec4_fill(tail->low), high = vec4_fill(tail->high);
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    vec4 y = vec4_load(from + i) + b;
    if (added) y += vec4_load(added + i);
    y = vec4_smaller(high, vec4_larger(low, y));
    memcpy(to + i, &y, sizeof y);
  }
  finish(tail, bias, added, i, n, from, to);
}

#if KERNEL_X86
TARGET_AVX2 static void finish_avx2(const conv_tail *tail, float bias, const float *added,
                                    int64_t n, const float *from, float *to) {
  const __m256 b = _mm256_set1_ps(bias), low = _mm256_set1_ps(tail->low),
               high = _mm256_set1_ps(tail->high);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m256 y = _mm256_loadu_ps(from + i) + b;
    if (added) y += _mm256_loadu_ps(added + i);
    _mm256_storeu_ps(to + i, _mm256_min_ps(high, _mm256_max_ps(low, y)));
  }
  finish(tail, bias, added, i, n, from, to);
}

TARGET_AVX512 static void finish_avx512(const conv_tail *tail, float bias, const float *added,
                                        int64_t n, const float *from, float *to) {
  const float low = tail->low, high = tail->high; /* copies that no store can change */
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 there = n - i < 16 ? (__mmask16)bits_between(0, n - i) : 0xffff;
    const __m512 sum = _mm512_maskz_loadu_ps(there, from + i) + _mm512_set1_ps(bias);
    store_limited_avx512(sum, added ? added + i : NULL, low, high, there, to + i);
  }
}

/* Transposes and stores cells [k, k + 16) of outputs [i, i + 16). */
TARGET_AVX512 KERNEL_INLINE void turn_block(const turned_outputs *turned_outputs,
                                            const conv_tail *tail, int64_t i, int64_t k) {
  enum { LANES = 16 };
  const int64_t left = turned_outputs->outputs - i,
                at = turned_outputs->at + i * turned_outputs->step + k;
  const __mmask16 cells = turned_outputs->n - k < LANES
                              ? (__mmask16)bits_between(0, turned_outputs->n - k)
                              : 0xffff,
                  outputs = left < LANES ? (__mmask16)bits_between(0, left) : 0xffff;
  const __m512 none = _mm512_set1_ps(-0.0F);
  const __m512 bias =
      turned_outputs->bias ? _mm512_mask_loadu_ps(none, outputs, turned_outputs->bias + i) : none;
  const float *added = tail->added ? (const float *)tail->added + at : NULL;
  float *out = turned_outputs->out + at;
  __m512 v[LANES];
#pragma GCC unroll 16
  for (int c = 0; c < LANES; c++)
    v[c] = _mm512_loadu_ps(turned_outputs->sums + (k + c) * turned_outputs->lanes + i) + bias;
  turn_avx512(v);
#pragma GCC unroll 16
  for (int o = 0; o < LANES; o++)
    if (o < left)
      store_limited_avx512(v[o], added ? added + o * turned_outputs->step : NULL, tail->low,
                           tail->high, cells, out + o * turned_outputs->step);
}

TARGET_AVX512 static void turn_avx512_rows(const turned_outputs *given) {
  const turned_outputs own = *given, *outputs = &own; /* a copy that no store can change */
  const conv_tail tail = *outputs->tail;
  for (int64_t i = 0; i < outputs->outputs; i += 16)
    for (int64_t k = 0; k < outputs->n; k += 16) turn_block(outputs, &tail, i, k);
}
#endif

/* Adds BF16 values, widened ROW_BLOCK at a time. */
static void add_narrow(const conv_tail *tail, float bias, int64_t at, int64_t n, const float *from,
                       float *to) {
  conv_tail wide = *tail;
  wide.added_type = DTYPE_F32;
  for (int64_t i = 0, some; i < n; i += some) {
    float added[ROW_BLOCK];
    some = n - i < ROW_BLOCK ? n - i : ROW_BLOCK;
    widen_row((const uint16_t *)tail->added + at + i, some, added);
    wide.added = added;
    conv_tail_row(&wide, bias, 0, some, from + i, to + i);
  }
}

bool conv_tail_turned(const turned_outputs *outputs) {
#if KERNEL_X86
  if (cpu_has_avx512() && !(outputs->tail->added && is_bf16(outputs->tail->added_type))) {
    turn_avx512_rows(outputs);
    return true;
  }
#endif
  (void)outputs;
  return false;
}

void conv_tail_row(const conv_tail *tail, float bias, int64_t at, int64_t n, const float *from,
                   float *to) {
  const float *added = tail->added ? (const float *)tail->added + at : NULL;
  if (tail->added && is_bf16(tail->added_type)) {
    add_narrow(tail, bias, at, n, from, to);
    return;
  }
#if KERNEL_X86
  if (cpu_has_avx512()) {
    finish_avx512(tail, bias, added, n, from, to);
    return;
  }
  if (cpu_has_avx2()) {
    finish_avx2(tail, bias, added, n, from, to);
    return;
  }
#endif
  finish_portable(tail, bias, added, n, from, to);
}
