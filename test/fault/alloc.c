/* The wrapped allocators count calls, fail once when armed, and otherwise forward. Only calls in
 * the linked objects are wrapped: those of the library and the test, not of libc, a driver or the
 * JSON parser. */
#include "test/fault/alloc.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static long n_calls, fail_at = LONG_MAX;
static bool fired;

void alloc_arm(long n) {
  n_calls = 0;
  fired = false;
  fail_at = n;
}

bool alloc_disarm(void) {
  fail_at = LONG_MAX;
  return fired;
}

long alloc_calls(void) { return __atomic_load_n(&n_calls, __ATOMIC_RELAXED); }

static bool refuse(void) {
  if (__atomic_fetch_add(&n_calls, 1, __ATOMIC_RELAXED) != fail_at) return false;
  fired = true;
  return true;
}

#define WRAP(result, name, parameters, arguments) \
  result __real_##name parameters;                \
  result __wrap_##name parameters;                \
  result __wrap_##name parameters { return refuse() ? NULL : __real_##name arguments; }

WRAP(void *, malloc, (size_t n), (n))
WRAP(void *, calloc, (size_t n, size_t size), (n, size))
WRAP(void *, realloc, (void *block, size_t n), (block, n))
WRAP(void *, aligned_alloc, (size_t alignment, size_t n), (alignment, n))
WRAP(char *, strdup, (const char *text), (text))
WRAP(char *, strndup, (const char *text, size_t n), (text, n))

int __real_posix_memalign(void **out, size_t alignment, size_t n);
int __wrap_posix_memalign(void **out, size_t alignment, size_t n);
int __wrap_posix_memalign(void **out, size_t alignment, size_t n) {
  return refuse() ? 12 : __real_posix_memalign(out, alignment, n);
}
