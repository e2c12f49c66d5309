#ifndef BASE_COUNTS_H
#define BASE_COUNTS_H
/* Arithmetic of sizes. Divisors and shares are at least 1; what is divided is not negative. */
#include <stdint.h>

static inline int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t max_i64(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t ceil_div(int64_t n, int64_t by) { return (n + by - 1) / by; }
static inline int64_t round_up(int64_t n, int64_t to) { return ceil_div(n, to) * to; }
/* Returns the begin of part i of n items in `shares` parts, which differ by at most 1 item. */
static inline int64_t share_begin(int64_t n, int64_t shares, int64_t i) {
  return n / shares * i + min_i64(i, n % shares);
}

#endif
