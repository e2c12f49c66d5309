#ifndef BASE_COUNTS_H
#define BASE_COUNTS_H
/* Arithmetic of sizes. Dividends are not negative; divisors and shares are at least 1. */
#include <stdint.h>

static inline int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t max_i64(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t ceil_div(int64_t n, int64_t by) { return (n + by - 1) / by; }
static inline int64_t round_up(int64_t n, int64_t to) { return ceil_div(n, to) * to; }
/* Returns the first item of share i. n items are divided into `shares` shares, whose sizes differ
 * by at most 1. */
static inline int64_t share_begin(int64_t n, int64_t shares, int64_t i) {
  return n / shares * i + min_i64(i, n % shares);
}

#endif
