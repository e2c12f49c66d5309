#ifndef BASE_RANGES_H
#define BASE_RANGES_H
/* Work is split into one range per thread. A thread takes items from the start of its own range,
 * then from the ends of the others. If consecutive loops split their work equally, a thread thus
 * finds in its cache what it wrote before, and no thread waits for a slow one. */
#include <stdbool.h>
#include <stdint.h>

#include "base/alone.h"

/* The state of one range, in a cache line of its own. */
typedef struct work_range {
  _Alignas(64) uint64_t taken; /* items taken from its end (upper half) and from its start */
} work_range;

enum { RANGE_ITEMS = INT32_MAX }; /* maximum items of all ranges */

static inline int64_t range_begin(int64_t n, int64_t n_ranges, int64_t i) {
  return n / n_ranges * i + (i < n % n_ranges ? i : n % n_ranges);
}

/* Returns false if another thread has changed the range; *expected is then its current value. */
static inline bool range_set(work_range *range, uint64_t *expected, uint64_t taken) {
  if (KERNEL_ALONE) {
    range->taken = taken;
    return true;
  }
  return __atomic_compare_exchange_n(&range->taken, expected, taken, true, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED);
}

/* Takes an item of range i, from its start or its end. Returns false if none is left. */
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

/* Takes the next item for the owner of range `own`. *at is the range to take from next; the caller
 * initialises it to `own`. Returns false if all ranges are empty. */
static inline bool ranges_take(work_range *range, int64_t n, int64_t n_ranges, int64_t own,
                               int64_t *at, int64_t *item) {
  for (int64_t tried = 0; tried < n_ranges; tried++, *at = *at + 1 == n_ranges ? 0 : *at + 1)
    if (range_take(range, n, n_ranges, *at, *at != own, item)) return true;
  return false;
}

#endif
