#ifndef BACKEND_CPU_KERNELS_SEARCH_H
#define BACKEND_CPU_KERNELS_SEARCH_H
/* Binary search in ascending rows. */
#include "base/kernel.h"

typedef struct ksearch {
  const ktensor *boundaries; /* (n) or (rows, n) */
  const ktensor *x;          /* (rows, per_row); its dtype is the boundaries' */
  const int64_t *sorter;     /* as boundaries; NULL: they ascend */
  const ktensor *out;        /* as x, I32 or I64 */
  int64_t n, per_row;
  bool shared; /* one row of boundaries for all */
  bool right;
} ksearch;

/* All contiguous. A sorter's index out of range is a fault. */
void kernel_search(const kernel_context *ctx, const ksearch *s);

#endif
