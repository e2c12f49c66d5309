#ifndef OPS_SCATTER_H
#define OPS_SCATTER_H
/* Values combined into a tensor at the positions that an index tensor holds. */
#include "ops/node.h"

enum { SCATTER_INDEX, SCATTER_SOURCE, SCATTER_OUT, SCATTER_OPERANDS };

/* For every position p of the index, in order along the axis: out[q] = kind(out[q], source[p]),
 * where q is p with its coordinate on the axis replaced by index[p]. The index's dimensions are
 * split into the trailing dimensions along which the index does not change (`back`), the axis, and
 * all others (`front`). Each operand has its own strides for them. */
typedef struct scatter_desc {
  ir_scatter_kind kind;
  bool wrap;          /* negative indices count from the end */
  int axis;           /* axis in index.tensor */
  bound_tensor index; /* only the dimensions of `front`, and the axis */
  const bound_tensor *source, *out;
  tensor front[SCATTER_OPERANDS], back[SCATTER_OPERANDS];
  int64_t stride[SCATTER_OPERANDS]; /* stride along the axis */
  int64_t n, size;                  /* n: entries along the axis; size: elements of out along it */
} scatter_desc;
void describe_scatter(const node *node, scatter_desc *desc);
/* Returns the description of a scatter for another op. index_layout: the strides of the index over
 * source's dims. */
scatter_desc scatter_along(ir_scatter_kind kind, const bound_tensor *index,
                           const tensor *index_layout, const bound_tensor *source,
                           const bound_tensor *out, int axis);

#endif
