#ifndef BACKEND_CPU_KERNELS_SUPPORT_COUNTS_H
#define BACKEND_CPU_KERNELS_SUPPORT_COUNTS_H
/* Arithmetic of sizes. All arguments are non-negative; divisors and shares are at least 1. */
#include <stdint.h>

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t at_least(int64_t n, int64_t low) { return n < low ? low : n; }
static inline int64_t ceil_div(int64_t n, int64_t of) { return (n + of - 1) / of; }
static inline int64_t round_up(int64_t n, int64_t to) { return ceil_div(n, to) * to; }
/* Returns the begin of part i of n items in `shares` parts, which differ by at most 1 item. */
static inline int64_t share_begin(int64_t n, int64_t shares, int64_t i) {
  return n / shares * i + least(i, n % shares);
}

#endif
