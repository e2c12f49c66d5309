/* Loops over blocks that the compiler vectorises, with elementary functions in f64 written out.
 * Their errors, a few units in the last place, are far below those of rounding to f32. */
#include "backend/cpu/kernels/random_kernels.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/support/features.h"
#include "base/philox.h"

enum { N = RANDOM_BLOCKS, FRACTION = 24 /* bits of u and v */ };

typedef struct random_words {
  uint32_t at[4][N];
} random_words;

KERNEL_INLINE void make_words(const random_blocks *blocks, random_words *to) {
  for (int i = 0; i < N; i++) {
    const uint64_t block = blocks->first + (uint64_t)i;
    uint32_t w[4] = {(uint32_t)block, (uint32_t)(block >> 32), blocks->stream, blocks->run};
    philox(blocks->seed, w);
    to->at[0][i] = w[0];
    to->at[1][i] = w[1];
    to->at[2][i] = w[2];
    to->at[3][i] = w[3];
  }
}

/* Returns the logarithm of m / 2^24, 0 < m <= 2^24. It adds, to the exponent times log(2), for the
 * mantissa x in (sqrt(1/2), sqrt(2)] the series of 2 artanh((x - 1) / (x + 1)). */
KERNEL_INLINE double log_of_fraction(int32_t m) {
  const double ln2 = 0.693147180559945309417, root2 = 1.41421356237309504880, value = (double)m;
  uint64_t bits, of_x;
  memcpy(&bits, &value, sizeof bits);
  of_x = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1023) << 52;
  double x, e = (double)((int32_t)(bits >> 52) - 1023 - FRACTION);
  memcpy(&x, &of_x, sizeof x);
  e = x > root2 ? e + 1 : e;
  x = x > root2 ? x * 0.5 : x;
  const double f = (x - 1) / (x + 1), z = f * f;
  double sum = 1.0 / 17;
  sum = sum * z + 1.0 / 15;
  sum = sum * z + 1.0 / 13;
  sum = sum * z + 1.0 / 11;
  sum = sum * z + 1.0 / 9;
  sum = sum * z + 1.0 / 7;
  sum = sum * z + 1.0 / 5;
  sum = sum * z + 1.0 / 3;
  sum = sum * z + 1;
  return e * ln2 + 2 * f * sum;
}

/* Computes sine and cosine of 2 pi k / 2^24 by series around the nearest quarter turn. */
KERNEL_INLINE void sine_cosine(int32_t k, double *sine, double *cosine) {
  const double unit = 6.28318530717958647693 / (1 << FRACTION);
  const int32_t quarter = (k + (1 << (FRACTION - 3))) >> (FRACTION - 2);
  const double x = (k - quarter * (1 << (FRACTION - 2))) * unit, z = x * x;
  double s = -1.0 / 1307674368000, c = 1.0 / 20922789888000;
  s = s * z + 1.0 / 6227020800;
  s = s * z - 1.0 / 39916800;
  s = s * z + 1.0 / 362880;
  s = s * z - 1.0 / 5040;
  s = s * z + 1.0 / 120;
  s = s * z - 1.0 / 6;
  s = s * z * x + x;
  c = c * z - 1.0 / 87178291200;
  c = c * z + 1.0 / 479001600;
  c = c * z - 1.0 / 3628800;
  c = c * z + 1.0 / 40320;
  c = c * z - 1.0 / 720;
  c = c * z + 1.0 / 24;
  c = c * z - 1.0 / 2;
  c = c * z + 1;
  const double first = quarter & 1 ? s : c, second = quarter & 1 ? c : s;
  *cosine = (quarter + 1) & 2 ? -first : first;
  *sine = quarter & 2 ? -second : second;
}

/* Box-Muller transform. */
KERNEL_INLINE void make_normals(const random_words *words, double *to) {
  double radius[2][N], sines[2][N], cosines[2][N];
  for (int p = 0; p < 2; p++) {
    for (int i = 0; i < N; i++)
      radius[p][i] = sqrt(-2 * log_of_fraction((int32_t)(words->at[2 * p][i] >> 8) + 1));
    for (int i = 0; i < N; i++)
      sine_cosine((int32_t)(words->at[2 * p + 1][i] >> 8), &sines[p][i], &cosines[p][i]);
  }
  for (int i = 0; i < N; i++) {
    to[4 * i] = radius[0][i] * cosines[0][i];
    to[4 * i + 1] = radius[0][i] * sines[0][i];
    to[4 * i + 2] = radius[1][i] * cosines[1][i];
    to[4 * i + 3] = radius[1][i] * sines[1][i];
  }
}

KERNEL_INLINE void make_uniform(const random_words *words, int bits, double *to) {
  const double unit = 1.0 / (1 << bits);
  const int shift = 32 - bits;
  for (int lane = 0; lane < 4; lane++)
    for (int i = 0; i < N; i++) to[4 * i + lane] = (int32_t)(words->at[lane][i] >> shift) * unit;
}

KERNEL_INLINE void make_numbers(random_blocks *blocks) {
  random_words words;
  make_words(blocks, &words);
  if (blocks->bits > 0)
    make_uniform(&words, blocks->bits, blocks->numbers);
  else
    make_normals(&words, blocks->numbers);
}

static void numbers_portable(random_blocks *blocks) { make_numbers(blocks); }
#if KERNEL_X86
TARGET_AVX2 static void numbers_avx2(random_blocks *blocks) { make_numbers(blocks); }
TARGET_AVX512 static void numbers_avx512(random_blocks *blocks) { make_numbers(blocks); }
#endif

void random_numbers(random_blocks *blocks) {
#if KERNEL_X86
  if (cpu_has_avx512()) {
    numbers_avx512(blocks);
    return;
  }
  if (cpu_has_avx2()) {
    numbers_avx2(blocks);
    return;
  }
#endif
  numbers_portable(blocks);
}
