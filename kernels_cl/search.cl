/* out[row, k] = the number of boundaries b[row, 0 .. n) that are below x[row, k], or with RIGHT not
 * above it. A NaN x is above all. SHARED: one row of boundaries serves all rows. SORTER: b[row,
 * sorter[row, i]] ascends; an index out of range is reported. */
#include "common.h"
#ifndef X_TYPE
#define X_TYPE F32
#endif
#ifndef OUT_TYPE
#define OUT_TYPE I64
#endif
#ifndef RIGHT
#define RIGHT 0
#endif
#ifndef SHARED
#define SHARED 0
#endif
#ifndef SORTER
#define SORTER 0
#endif

#if RIGHT
#define BELOW(b, x) (!((b) > (x)))
#else
#define BELOW(b, x) (!((b) >= (x)))
#endif

static inline index_t place_of(const __global long *sorter, index_t i, index_t n,
                               volatile __global fault_record *fault, uint fault_node) {
#if SORTER
  const long at = sorter[i];
  if (at >= 0 && at < n) return (index_t)at;
  set_fault(fault, fault_node, FAULT_INDEX, at, 0, n - 1);
  return 0;
#else
  return i;
#endif
}

__kernel void search_sorted(const __global STORAGE(X_TYPE) * boundaries,
                            const long boundaries_offset, const __global STORAGE(X_TYPE) * x,
                            const long x_offset, const __global long *sorter,
                            const long sorter_offset, __global STORAGE(OUT_TYPE) * out,
                            const long out_offset, const index_t items, const index_t n,
                            const index_t per_row, FAULT_PARAMS) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t row = SHARED ? 0 : item / per_row * n;
  const real v = LOAD(X_TYPE, x + x_offset, item);
  boundaries += boundaries_offset + row;
  sorter += sorter_offset + row;
  index_t low = 0, high = n;
  while (low < high) {
    const index_t mid = low + (high - low) / 2, at = place_of(sorter, mid, n, fault, fault_node);
    const real b = LOAD(X_TYPE, boundaries, at);
    if (BELOW(b, v))
      low = mid + 1;
    else
      high = mid;
  }
  out[out_offset + item] = (STORAGE(OUT_TYPE))low;
}
