#ifndef OPS_TRIANGLE_H
#define OPS_TRIANGLE_H
/* Triangle: tril and triu. */
#include "ops/node.h"

/* `rows` are x's dimensions except the last, n_rows rows in all. Each row has `columns` elements,
 * `step` apart in x; those of the triangle are copied to out, which is contiguous. */
typedef struct triangle_desc {
  const bound_tensor *x, *out;
  tensor rows;
  int64_t n_rows, columns, step, diagonal;
  bool upper;
} triangle_desc;
void describe_triangle(const node *node, triangle_desc *desc);

#endif
