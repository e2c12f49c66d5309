#ifndef BACKEND_CPU_KERNELS_SUPPORT_COUNTS_H
#define BACKEND_CPU_KERNELS_SUPPORT_COUNTS_H
/* Arithmetic of sizes: none is negative, and `of` is at least 1. */
#include <stdint.h>

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t at_least(int64_t n, int64_t low) { return n < low ? low : n; }
static inline int64_t ceil_div(int64_t n, int64_t of) { return (n + of - 1) / of; }
static inline int64_t round_up(int64_t n, int64_t to) { return ceil_div(n, to) * to; }
/* Where share i of n begins, of `shares` whose sizes differ by 1 at most. */
static inline int64_t share_begin(int64_t n, int64_t shares, int64_t i) {
  return n / shares * i + least(i, n % shares);
}

#endif
