/* Computes elementwise steps with reduced precision, for results in BF16. */
#include "backend/cpu/kernels/elementwise/bf16_steps.h"

#include "backend/cpu/kernels/support/avx512.h"

#if KERNEL_X86
/* Returns 2^x by a polynomial of its fraction, within 2^-13. */
TARGET_AVX512 KERNEL_INLINE __m512 power_of_2(__m512 x) {
  const __m512 whole = nearest_integers(x), f = x - whole;
  __m512 y = _mm512_set1_ps(0.05550411F);
  y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(0.24022651F));
  y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(0.69314718F));
  y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(1));
  return _mm512_scalef_ps(y, whole);
}

/* Returns x / (1 + exp(-x)). The exponent is bounded. Otherwise the divisor might be infinite, and
 * its reciprocal, 0, times an infinite x would be NaN. */
TARGET_AVX512 KERNEL_INLINE __m512 silu(__m512 x) {
  const __m512 least = _mm512_max_ps(_mm512_set1_ps(-126),
                                     _mm512_mul_ps(x, _mm512_set1_ps(1.44269504F))),
               power = power_of_2(_mm512_sub_ps(_mm512_setzero_ps(), least));
  return _mm512_mul_ps(x, _mm512_rcp14_ps(_mm512_add_ps(power, _mm512_set1_ps(1))));
}

/* Returns x P, where P is the probability that a normal variable is below x. log2(P / (1 - P)) is
 * odd; a polynomial approximates it from -6 to 6 with an error below 2^-11. */
TARGET_AVX512 KERNEL_INLINE __m512 gelu(__m512 x) {
  enum { TERMS = 7 };
  static const float terms[TERMS] = {4.5362660849868064e-10F, -5.645626544037441e-08F,
                                     2.5937824830180034e-06F, -4.2453204514458776e-05F,
                                     -0.000861616397742182F,  0.10702443867921829F,
                                     2.3004109859466553F};
  const __m512 most = _mm512_set1_ps(6), some = _mm512_max_ps(-most, _mm512_min_ps(most, x)),
               square = some * some;
  __m512 y = _mm512_set1_ps(terms[0]);
#pragma GCC unroll 6
  for (int i = 1; i < TERMS; i++) y = _mm512_fmadd_ps(y, square, _mm512_set1_ps(terms[i]));
  return _mm512_mul_ps(x, _mm512_rcp14_ps(power_of_2(-some * y) + _mm512_set1_ps(1)));
}

TARGET_AVX512 KERNEL_INLINE void bf16_steps_run_step(int kind, float *x, int64_t n) {
  enum { LANES = 16 };
  for (int64_t i = 0; i < n; i += LANES) {
    const __mmask16 valid = n - i < LANES ? (__mmask16)bits_between(0, n - i) : 0xffff;
    const __m512 some = _mm512_maskz_loadu_ps(valid, x + i);
    _mm512_mask_storeu_ps(x + i, valid, kind == FLOAT_STEP_GELU ? gelu(some) : silu(some));
  }
}

TARGET_AVX512 static void run_silu(float *x, int64_t n) {
  bf16_steps_run_step(FLOAT_STEP_SILU, x, n);
}
TARGET_AVX512 static void run_gelu(float *x, int64_t n) {
  bf16_steps_run_step(FLOAT_STEP_GELU, x, n);
}
#endif

void bf16_steps(const short_elementwise_args *args, float *values, int64_t n) {
#if KERNEL_X86
  const elementwise_head *head = &args->head;
  if (head->n_steps == 1 && head->n_constants == 0 && args->steps[0].role == KSTEP_MAP &&
      args->steps[0].operand_type == DTYPE_F32 && cpu_has_avx512_bf16()) {
    const int kind = args->steps[0].kind;
    if (kind == FLOAT_STEP_SILU) run_silu(values, n);
    if (kind == FLOAT_STEP_GELU) run_gelu(values, n);
    if (kind == FLOAT_STEP_SILU || kind == FLOAT_STEP_GELU) return;
  }
#endif
  steps_in_place(args, values, 0, n, 1, 0);
}
