/* Bias, addition, slope and limits of rows of outputs. */
#include "backend/cpu/kernels/conv/conv_epilogue.h"

#include "backend/cpu/kernels/support/avx512.h"
#include "backend/cpu/kernels/support/bf16.h"
#include "backend/cpu/kernels/support/vec4.h"

/* Finishes outputs [i, n). */
KERNEL_INLINE void conv_epilogue_finish(const conv_epilogue *epilogue, float bias,
                                        const float *added, const float *slope, int64_t i,
                                        int64_t n, const float *from, float *to) {
  for (; i < n; i++) {
    float y = from[i] + bias;
    if (added) y += added[i];
    if (slope && !(y > 0)) y *= *slope;
    y = epilogue->low > y ? epilogue->low : y;
    to[i] = epilogue->high < y ? epilogue->high : y;
  }
}

static void finish_portable(const conv_epilogue *epilogue, float bias, const float *added,
                            const float *slope, int64_t n, const float *from, float *to) {
  const vec4 b = vec4_fill(bias), low = vec4_fill(epilogue->low), high = vec4_fill(epilogue->high);
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    vec4 y = vec4_load(from + i) + b;
    if (added) y += vec4_load(added + i);
    if (slope) y = vec4_leaky(y, vec4_fill(*slope));
    y = vec4_smaller(high, vec4_larger(low, y));
    memcpy(to + i, &y, sizeof y);
  }
  conv_epilogue_finish(epilogue, bias, added, slope, i, n, from, to);
}

#if KERNEL_X86
TARGET_AVX2 static void finish_avx2(const conv_epilogue *epilogue, float bias, const float *added,
                                    const float *slope, int64_t n, const float *from, float *to) {
  const __m256 b = _mm256_set1_ps(bias), low = _mm256_set1_ps(epilogue->low),
               high = _mm256_set1_ps(epilogue->high);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m256 y = _mm256_loadu_ps(from + i) + b;
    if (added) y += _mm256_loadu_ps(added + i);
    if (slope) y = leaky_avx2(y, _mm256_set1_ps(*slope));
    _mm256_storeu_ps(to + i, _mm256_min_ps(high, _mm256_max_ps(low, y)));
  }
  conv_epilogue_finish(epilogue, bias, added, slope, i, n, from, to);
}

TARGET_AVX512 static void finish_avx512(const conv_epilogue *epilogue, float bias,
                                        const float *added, const float *slope, int64_t n,
                                        const float *from, float *to) {
  const float low = epilogue->low, high = epilogue->high; /* copies that no store can change */
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 valid = n - i < 16 ? (__mmask16)bits_between(0, n - i) : 0xffff;
    const __m512 sum = _mm512_maskz_loadu_ps(valid, from + i) + _mm512_set1_ps(bias);
    store_limited_avx512(sum, added ? added + i : NULL, slope, low, high, valid, to + i);
  }
}

/* Transposes and stores cells [k, k + 16) of outputs [i, i + 16). */
TARGET_AVX512 KERNEL_INLINE void transpose_block(const transposed_outputs *transposed_outputs,
                                                 const conv_epilogue *epilogue, int64_t i,
                                                 int64_t k) {
  enum { LANES = 16 };
  const int64_t left = transposed_outputs->outputs - i,
                at = transposed_outputs->at + i * transposed_outputs->step + k;
  const __mmask16 cells = transposed_outputs->n - k < LANES
                              ? (__mmask16)bits_between(0, transposed_outputs->n - k)
                              : 0xffff,
                  outputs = left < LANES ? (__mmask16)bits_between(0, left) : 0xffff;
  const __m512 none = _mm512_set1_ps(-0.0F);
  const __m512 bias = transposed_outputs->bias
                          ? _mm512_mask_loadu_ps(none, outputs, transposed_outputs->bias + i)
                          : none;
  const float *added = epilogue->added ? (const float *)epilogue->added + at : NULL;
  const float *slope = transposed_outputs->slope ? transposed_outputs->slope + i : NULL;
  float *out = transposed_outputs->out + at;
  __m512 v[LANES];
#pragma GCC unroll 16
  for (int c = 0; c < LANES; c++)
    v[c] =
        _mm512_loadu_ps(transposed_outputs->sums + (k + c) * transposed_outputs->lanes + i) + bias;
  transpose_avx512(v);
#pragma GCC unroll 16
  for (int o = 0; o < LANES; o++)
    if (o < left)
      store_limited_avx512(v[o], added ? added + o * transposed_outputs->step : NULL,
                           slope ? slope + o : NULL, epilogue->low, epilogue->high, cells,
                           out + o * transposed_outputs->step);
}

TARGET_AVX512 static void transpose_avx512_rows(const transposed_outputs *given) {
  const transposed_outputs own = *given, *outputs = &own; /* a copy that no store can change */
  const conv_epilogue epilogue = *outputs->epilogue;
  for (int64_t i = 0; i < outputs->outputs; i += 16)
    for (int64_t k = 0; k < outputs->n; k += 16) transpose_block(outputs, &epilogue, i, k);
}
#endif

/* Adds BF16 values, widened ROW_BLOCK at a time. */
static void conv_epilogue_add_bf16(const conv_epilogue *epilogue, float bias, int64_t output,
                                   int64_t at, int64_t n, const float *from, float *to) {
  conv_epilogue wide = *epilogue;
  wide.added_type = DTYPE_F32;
  for (int64_t i = 0, some; i < n; i += some) {
    float added[ROW_BLOCK];
    some = n - i < ROW_BLOCK ? n - i : ROW_BLOCK;
    widen_row((const uint16_t *)epilogue->added + at + i, some, added);
    wide.added = added;
    conv_epilogue_row(&wide, bias, output, 0, some, from + i, to + i);
  }
}

bool conv_epilogue_transposed(const transposed_outputs *outputs) {
#if KERNEL_X86
  if (cpu_has_avx512() && !(outputs->epilogue->added && is_bf16(outputs->epilogue->added_type))) {
    transpose_avx512_rows(outputs);
    return true;
  }
#endif
  (void)outputs;
  return false;
}

void conv_epilogue_row(const conv_epilogue *epilogue, float bias, int64_t output, int64_t at,
                       int64_t n, const float *from, float *to) {
  const float *added = epilogue->added ? (const float *)epilogue->added + at : NULL,
              *slope = epilogue->slope ? epilogue->slope + output : NULL;
  if (epilogue->added && is_bf16(epilogue->added_type)) {
    conv_epilogue_add_bf16(epilogue, bias, output, at, n, from, to);
    return;
  }
#if KERNEL_X86
  if (cpu_has_avx512()) {
    finish_avx512(epilogue, bias, added, slope, n, from, to);
    return;
  }
  if (cpu_has_avx2()) {
    finish_avx2(epilogue, bias, added, slope, n, from, to);
    return;
  }
#endif
  finish_portable(epilogue, bias, added, slope, n, from, to);
}
