#ifndef BASE_CHECKED_H
#define BASE_CHECKED_H
/* Overflow-checked arithmetic for numbers that come from files and callers. Each returns false on
 * overflow. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool add_i64(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_add_overflow(a, b, out);
}
static inline bool sub_i64(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_sub_overflow(a, b, out);
}
static inline bool mul_i64(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_mul_overflow(a, b, out);
}
static inline bool add_size(size_t a, size_t b, size_t *out) {
  return !__builtin_add_overflow(a, b, out);
}
/* b has 64 bits because it may be a number of elements that a 32-bit size_t cannot hold. */
static inline bool mul_size(size_t a, uint64_t b, size_t *out) {
  return !__builtin_mul_overflow(a, b, out);
}

#endif
