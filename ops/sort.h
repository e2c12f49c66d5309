#ifndef OPS_SORT_H
#define OPS_SORT_H
/* Stable sorting along any axis. */
#include "ops/node.h"

/* The first k of each of n_rows rows of `size` elements. rows[0] of x, rows[1] of out and indices:
 * see rows_along. */
typedef struct sort_form {
  const bound_tensor *x, *out, *indices; /* indices: NULL where not wanted */
  tensor rows[2];
  int64_t n_rows, size, k;
  bool descending;
} sort_form;
void describe_sort(const node *node, sort_form *desc);
/* Of another op: all of tensor, ascending along `axis`; out is tensor. */
void describe_order(const bound_tensor *tensor, int axis, sort_form *desc);

#endif
