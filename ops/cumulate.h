#ifndef OPS_CUMULATE_H
#define OPS_CUMULATE_H
/* Running sums, products and extremes along any axis. */
#include "ops/node.h"

/* rows[0]: layout of x, rows[1]: of out, indices; n_rows rows of `row` elements, see rows_along. */
typedef struct cumulate_desc {
  ir_cumulate_kind kind;
  const bound_tensor *x, *out, *indices; /* indices: NULL if not wanted */
  tensor rows[2];
  int64_t n_rows, row;
} cumulate_desc;
void describe_cumulate(const node *node, cumulate_desc *desc);

#endif
