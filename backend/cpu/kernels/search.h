#ifndef BACKEND_CPU_KERNELS_SEARCH_H
#define BACKEND_CPU_KERNELS_SEARCH_H
/* Binary search in ascending rows. */
#include "base/kernel.h"

/* All operands are contiguous. A sorter's index out of range is a fault. */
typedef struct search_args {
  ktensor boundaries; /* (n), or (rows, n) */
  ktensor x;          /* (rows, per_row) of n_x elements, of the boundaries' dtype */
  ktensor sorter;     /* I64, shape of boundaries; absent: they ascend */
  ktensor out;        /* shape of x, I32 or I64 */
  int64_t n_x, per_row, n;
  bool shared; /* one row of boundaries serves all rows */
  bool right;
} search_args;
KERNEL(search_sorted, search_args);

#endif
