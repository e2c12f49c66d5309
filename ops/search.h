#ifndef OPS_SEARCH_H
#define OPS_SEARCH_H
/* Binary search in ascending rows. */
#include "ops/node.h"

/* Searches for each of x's n_x elements. per_row consecutive elements of x share a row of n
 * boundaries; if `shared`, there is only one row. */
typedef struct search_desc {
  const bound_tensor *boundaries, *x, *sorter, *out; /* sorter: NULL if boundaries ascend */
  int64_t n_x, per_row, n;
  bool shared, right;
} search_desc;
void describe_search_sorted(const node *node, search_desc *desc);

#endif
