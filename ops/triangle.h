#ifndef OPS_TRIANGLE_H
#define OPS_TRIANGLE_H
/* Triangle: tril and triu. */
#include "ops/node.h"

/* `rows` is x's layout without its last dimension, n_rows rows in all. Each row has `columns`
 * elements, `step` apart in x. Elements of the triangle are copied to out, which is contiguous; the
 * others of out are 0. */
typedef struct triangle_desc {
  const bound_tensor *x, *out;
  tensor rows;
  int64_t n_rows, columns, step, diagonal;
  bool upper;
} triangle_desc;
void describe_triangle(const node *node, triangle_desc *desc);

#endif
