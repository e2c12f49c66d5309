#ifndef OPS_SORT_H
#define OPS_SORT_H
/* Stable sorting along any axis. */
#include "ops/node.h"

/* Sorts each of n_rows rows of `size` elements and keeps the first k. rows[0] is the layout of x,
 * rows[1] that of out and indices (see rows_along). */
typedef struct sort_desc {
  const bound_tensor *x, *out, *indices; /* indices: NULL if not wanted */
  tensor rows[2];
  int64_t n_rows, size, k;
  bool descending;
} sort_desc;
void describe_sort(const node *node, sort_desc *desc);
/* Describes a full ascending sort along `axis` for another op. desc->out is `tensor` itself. */
void describe_order(const bound_tensor *tensor, int axis, sort_desc *desc);

#endif
