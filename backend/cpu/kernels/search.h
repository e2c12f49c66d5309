#ifndef BACKEND_CPU_KERNELS_SEARCH_H
#define BACKEND_CPU_KERNELS_SEARCH_H
/* Binary search in ascending rows. */
#include "base/kernel.h"

/* All contiguous. A sorter's index out of range is a fault. */
typedef struct search_args {
  ktensor boundaries; /* (n), or (rows, n) */
  ktensor x;          /* (rows, per_row) of n_x elements; its dtype is the boundaries' */
  ktensor sorter;     /* I64, as boundaries; absent: they ascend */
  ktensor out;        /* as x, I32 or I64 */
  int64_t n_x, per_row, n;
  bool shared; /* one row of boundaries for all */
  bool right;
} search_args;
KERNEL(search_sorted, search_args);

#endif
