#ifndef OPS_TRIANGLE_H
#define OPS_TRIANGLE_H
/* Triangle: tril and triu. */
#include "ops/node.h"

/* `rows` is the layout of x without its last dimension: n_rows rows. Each row has `columns`
 * elements, `stride` apart in x. Elements inside the triangle are copied to out, which is
 * contiguous; all other elements of out are 0. */
typedef struct triangle_desc {
  const bound_tensor *x, *out;
  tensor rows;
  int64_t n_rows, columns, stride, diagonal;
  bool upper;
} triangle_desc;
void describe_triangle(const node *node, triangle_desc *desc);

#endif
