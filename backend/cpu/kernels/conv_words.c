/* Two rows of an image as one of words. */
#include "backend/cpu/kernels/conv_words.h"

#include "backend/cpu/kernels/counts.h"
#include "backend/cpu/kernels/narrow.h"
#include "backend/cpu/kernels/pairs.h"

enum { SOME = 64 /* words of a row that are gathered at once */ };

static void join_narrow(const uint16_t *even, const uint16_t *odd, int64_t step, int64_t n,
                        uint32_t *to) {
  if (step == 1) narrow_join(even, odd, n, to);
  if (step == 2) narrow_join_halves(even, odd, n, to);
  for (int64_t i = 0; step > 2 && i < n; i++)
    to[i] = even[i * step] | (odd ? (uint32_t)odd[i * step] << 16 : 0);
}

static void join_wide(const float *even, const float *odd, int64_t step, int64_t n, uint32_t *to) {
  float x[SOME], y[SOME];
  if (step == 1) {
    pairs_join(even, odd, n, to);
    return;
  }
  for (int64_t at = 0; at < n; at += SOME) {
    const int64_t m = least(SOME, n - at);
    for (int64_t i = 0; i < m; i++) x[i] = even[(at + i) * step];
    for (int64_t i = 0; odd && i < m; i++) y[i] = odd[(at + i) * step];
    pairs_join(x, odd ? y : NULL, m, to + at);
  }
}

void conv_join_row(bool is_narrow, const void *even, const void *odd, int64_t step, int64_t n,
                   uint32_t *to) {
  if (is_narrow)
    join_narrow(even, odd, step, n, to);
  else
    join_wide(even, odd, step, n, to);
}
