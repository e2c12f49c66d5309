#ifndef OPS_SEARCH_H
#define OPS_SEARCH_H
/* Binary search in ascending rows. */
#include "ops/node.h"

/* Each of x's n_x elements in rows of per_row, in the row of n boundaries that belongs to its own,
 * or (shared) in the only one. */
typedef struct search_form {
  const bound_tensor *boundaries, *x, *sorter, *out; /* sorter: NULL where they ascend */
  int64_t n_x, per_row, n;
  bool shared, right;
} search_form;
void describe_search_sorted(const node *node, search_form *desc);

#endif
