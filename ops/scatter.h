#ifndef OPS_SCATTER_H
#define OPS_SCATTER_H
/* Values combined into a tensor at positions that an index tensor holds. */
#include "ops/node.h"

enum { SCATTER_INDEX, SCATTER_SOURCE, SCATTER_OUT, SCATTER_OPERANDS };

/* For every place p of the index, in its order along the axis: out[q] = kind(out[q], source[p]), q
 * being p with its place on the axis replaced by index[p]. The index's dimensions are lines across
 * the axis (`front`), the axis, and those behind it over which the index stays the same (`back`);
 * each operand has its own strides for them, merged together. */
typedef struct scatter_form {
  ir_scatter_kind kind;
  bool wrap;          /* negative indices count from the end */
  int axis;           /* of index.t */
  bound_tensor index; /* its dimensions in front and the axis */
  const bound_tensor *source, *out;
  tensor front[SCATTER_OPERANDS], back[SCATTER_OPERANDS];
  int64_t step[SCATTER_OPERANDS]; /* along the axis */
  int64_t n, size;                /* entries and destinations on the axis */
} scatter_form;
void describe_scatter(const node *node, scatter_form *desc);
/* index_layout: dims and strides of the index, of source's dims. */
scatter_form scatter_along(ir_scatter_kind kind, const bound_tensor *index,
                           const tensor *index_layout, const bound_tensor *source,
                           const bound_tensor *out, int axis);

#endif
