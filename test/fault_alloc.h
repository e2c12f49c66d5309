#ifndef TEST_FAULT_ALLOC_H_
#define TEST_FAULT_ALLOC_H_
/* Replaces malloc and related functions in one test program: counts live blocks, and fails the Nth
 * allocation of any linked code, libc included. glibc only; under a sanitizer, which has its own
 * malloc, fault_alloc_works() is false. Include it once. The counters are volatile: compilers
 * assume that malloc does not change any variable. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FAULT_ALLOC 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FAULT_ALLOC 0
#endif
#endif
#if !defined(FAULT_ALLOC) && defined(__GLIBC__)
#define FAULT_ALLOC 1
#endif

static volatile long fault_countdown = -1; /* allocations until one fails; negative: none does */
static volatile long fault_live;           /* blocks allocated and not freed */

static inline void fault_arm(long n) { fault_countdown = n; }
/* True if the failure came. */
static inline bool fault_disarm(void) {
  bool came = fault_countdown < 0;
  fault_countdown = -1;
  return came;
}

#if FAULT_ALLOC
/* Exported, so that libc calls these functions too. */
#pragma GCC visibility push(default)
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *memory, size_t n);
void __libc_free(void *memory);

static void *fault_count(void *memory) {
  fault_live += memory != NULL;
  return memory;
}

static bool fault_now(void) {
  if (fault_countdown < 0 || fault_countdown-- > 0) return false;
  errno = ENOMEM;
  return true;
}

void *malloc(size_t n) { return fault_now() ? NULL : fault_count(__libc_malloc(n)); }
void *calloc(size_t n, size_t size) {
  return fault_now() ? NULL : fault_count(__libc_calloc(n, size));
}

void *realloc(void *memory, size_t n) {
  if (fault_now()) return NULL;
  return memory ? __libc_realloc(memory, n) : fault_count(__libc_realloc(memory, n));
}

void free(void *memory) {
  fault_live -= memory != NULL;
  __libc_free(memory);
}
#pragma GCC visibility pop

static inline bool fault_alloc_works(void) { return true; }
#else
static inline bool fault_alloc_works(void) { return false; }
#endif

#endif
