#ifndef OPS_LINALG_H
#define OPS_LINALG_H
/* Matrix factorizations, matrix functions and triangular solves. All operands are dense. */
#include "ops/node.h"

/* x: (batches, m, n). The shapes of the outputs depend on the kind; the schema lists them. */
typedef struct linalg_desc {
  ir_linalg_kind kind;
  bool upper;
  const bound_tensor *x, *out, *b, *c, *info; /* b, c, info: NULL if absent */
  int64_t batches, m, n;
} linalg_desc;
void describe_linalg(const node *node, linalg_desc *desc);

/* a: (batches, m, m), b and out: (batches, m, n). */
typedef struct triangular_solve_desc {
  const bound_tensor *a, *b, *out;
  int64_t batches, m, n;
  bool upper, unit; /* unit: the diagonal of a is taken to be ones */
} triangular_solve_desc;
void describe_triangular_solve(const node *node, triangular_solve_desc *desc);

/* pivots: (batches, k), out: (batches, m): out[i] is the row that the pivots move to position i. */
typedef struct pivot_order_desc {
  const bound_tensor *pivots, *out;
  int64_t batches, k, m;
} pivot_order_desc;
void describe_pivot_order(const node *node, pivot_order_desc *desc);

#endif
