#ifndef OPS_TRIANGLE_H
#define OPS_TRIANGLE_H
/* tril and triu. */
#include "ops/node.h"

/* x's dimensions but the last are `rows`, n_rows in all; of each row of `columns` elements, `step`
 * apart in x, a part goes to out, which is contiguous. */
typedef struct triangle_form {
  const bound_tensor *x, *out;
  tensor rows;
  int64_t n_rows, columns, step, diagonal;
  bool upper;
} triangle_form;
void describe_triangle(const node *node, triangle_form *desc);

#endif
