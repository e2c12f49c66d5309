#ifndef OPS_SOFTMAX_H
#define OPS_SOFTMAX_H
/* Softmax along any axis. */
#include "ops/node.h"

/* Layouts of x and out are rows[0] and [1]: n_rows rows of `row` elements, see rows_along. */
typedef struct softmax_desc {
  const bound_tensor *x, *out;
  tensor rows[2];
  int64_t n_rows, row;
  bool log;
} softmax_desc;
void describe_softmax(const node *node, softmax_desc *desc);

#endif
