#ifndef BASE_RANGES_H
#define BASE_RANGES_H
/* Work cut in one range a thread, neighbours in the same one: a thread takes from the begin of its
 * own, then from the ends of the others', so that the same cut of the next loop finds in a thread's
 * caches what it wrote, and none waits for a slow one. */
#include <stdbool.h>
#include <stdint.h>

#include "base/alone.h"

/* In a line of the cache of its own. */
typedef struct work_range {
  _Alignas(64) uint64_t taken; /* from its end, in the upper half, and from its begin */
} work_range;

enum { RANGE_ITEMS = INT32_MAX }; /* of all ranges, at most */

static inline int64_t range_begin(int64_t n, int64_t n_ranges, int64_t i) {
  return n / n_ranges * i + (i < n % n_ranges ? i : n % n_ranges);
}

/* Returns false if another thread has changed it; *expected is then its present value. */
static inline bool range_set(work_range *range, uint64_t *expected, uint64_t taken) {
  if (KERNEL_ALONE) {
    range->taken = taken;
    return true;
  }
  return __atomic_compare_exchange_n(&range->taken, expected, taken, true, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED);
}

/* An item of range i of n, from its begin or its end; false: all are taken. */
static inline bool range_take(work_range *range, int64_t n, int64_t n_ranges, int64_t i,
                              bool from_end, int64_t *item) {
  const int64_t begin = range_begin(n, n_ranges, i), end = range_begin(n, n_ranges, i + 1);
  uint64_t taken =
               KERNEL_ALONE ? range[i].taken : __atomic_load_n(&range[i].taken, __ATOMIC_RELAXED),
           more;
  int64_t front, back;
  do {
    front = (int64_t)(taken & UINT32_MAX);
    back = (int64_t)(taken >> 32);
    if (front + back >= end - begin) return false;
    more = taken + (from_end ? (uint64_t)1 << 32 : 1);
  } while (!range_set(&range[i], &taken, more));
  *item = from_end ? end - 1 - back : begin + front;
  return true;
}

/* The next item for who owns range `own`; *at is where it looks: `own` at first. */
static inline bool ranges_take(work_range *range, int64_t n, int64_t n_ranges, int64_t own,
                               int64_t *at, int64_t *item) {
  for (int64_t tried = 0; tried < n_ranges; tried++, *at = *at + 1 == n_ranges ? 0 : *at + 1)
    if (range_take(range, n, n_ranges, *at, *at != own, item)) return true;
  return false;
}

#endif
