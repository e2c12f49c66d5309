/* peak ROUNDS: measures how fast one core multiplies and adds floats in registers with its widest
 * vectors, an upper bound for any product on one thread. Prints GFLOP/s of CPU time, two for each
 * multiply-add. */
#include <stdio.h>
#include <stdlib.h>

#include "bench/common.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { TURNS = 4000000, CHAINS = 12 }; /* CHAINS independent sums hide the latency of an addition */

/* Keeps x in a register and hides its value from the compiler. */
#define HOLD(constraint, x) __asm__ volatile("" : constraint(x))

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static double run_avx512(void) {
  __m512 sums[CHAINS], x = _mm512_set1_ps(0.5F);
#pragma GCC unroll 12
  for (int i = 0; i < CHAINS; i++) sums[i] = x;
  for (int t = 0; t < TURNS; t++)
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++) {
      sums[i] = _mm512_fmadd_ps(x, x, sums[i]);
      HOLD("+v", sums[i]);
    }
  return 16;
}

__attribute__((target("avx2,fma"))) static double run_avx2(void) {
  __m256 sums[CHAINS], x = _mm256_set1_ps(0.5F);
#pragma GCC unroll 12
  for (int i = 0; i < CHAINS; i++) sums[i] = x;
  for (int t = 0; t < TURNS; t++)
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++) {
      sums[i] = _mm256_fmadd_ps(x, x, sums[i]);
      HOLD("+x", sums[i]);
    }
  return 8;
}
#endif

typedef float vec4 __attribute__((vector_size(16)));

static double run_portable(void) {
  vec4 sums[CHAINS], x = {0.5F, 0.5F, 0.5F, 0.5F};
#pragma GCC unroll 12
  for (int i = 0; i < CHAINS; i++) sums[i] = x;
  for (int t = 0; t < TURNS; t++)
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++) {
      sums[i] += x * x;
#if defined(__x86_64__)
      HOLD("+x", sums[i]);
#elif defined(__aarch64__)
      HOLD("+w", sums[i]);
#else
      HOLD("+m", sums[i]);
#endif
    }
  return 4;
}

/* Runs the loop and returns the floats per vector. */
static double run(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return run_avx512();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return run_avx2();
#endif
  return run_portable();
}

int main(int argc, char **argv) {
  double seconds[MAX_ROUNDS], width = 0;
  int rounds = argc == 2 ? atoi(argv[1]) : 0;
  if (rounds < 1 || rounds > MAX_ROUNDS) {
    fprintf(stderr, "usage: peak ROUNDS\n");
    return 2;
  }
  for (int r = 0; r < rounds; r++) {
    double begin = processor_s();
    width = run();
    seconds[r] = processor_s() - begin;
  }
  printf("{\"gflops\": %.1f}\n", 2e-9 * TURNS * CHAINS * width / median(seconds, rounds));
  return 0;
}
