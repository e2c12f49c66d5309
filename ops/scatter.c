/* Scatter: values combined into a tensor at the positions that an index tensor holds. */
#include "ops/scatter.h"

#include "ops/rule_checks.h"

clave_status rule_scatter(const rule_context *context, const void *op) {
  const ir_scatter *scatter = op;
  const tensor *tensor = rule_tensor(context, scatter->x),
               *index = rule_tensor(context, scatter->index);
  int axis = 0;
  if ((uint32_t)scatter->kind >= IR_SCATTER_KIND_COUNT)
    return INVALID("scatter kind %u is unknown", (uint32_t)scatter->kind);
  if (scatter->kind != IR_SCATTER_KIND_ASSIGN) TRY(check_computed(context, scatter->x, "x"));
  TRY(check_index_dtype(context, scatter->index, "index"));
  TRY(rule_axis(scatter->axis, tensor->rank, &axis));
  TRY(check_index_fits(tensor, index, axis));
  TRY(rule_expect(context, scatter->source, "source", tensor->type, index->rank, index->dims));
  return rule_expect_like(context, scatter->out, "out", tensor);
}

/* ---------------------------------------------------------------- descriptions */

/* Returns the first of the trailing dimensions, after the axis, along which the index does not
 * change; the rank if there are none. */
static int first_constant_dim(const tensor *index, int axis) {
  int first = index->rank;
  while (first > axis + 1 && (index->strides[first - 1] == 0 || index->dims[first - 1] == 1))
    first--;
  return first;
}

scatter_desc scatter_along(ir_scatter_kind kind, const bound_tensor *index,
                           const tensor *index_layout, const bound_tensor *source,
                           const bound_tensor *out, int axis) {
  const tensor *all[SCATTER_OPERANDS] = {index_layout, &source->tensor, &out->tensor};
  int rank = index_layout->rank, first = first_constant_dim(index_layout, axis);
  scatter_desc desc = {.kind = kind,
                       .axis = axis,
                       .index = *index,
                       .source = source,
                       .out = out,
                       .n = index_layout->dims[axis],
                       .size = out->tensor.dims[axis]};
  for (int k = 0; k < SCATTER_OPERANDS; k++) {
    tensor view = *all[k];
    for (int d = 0; d < rank; d++) view.dims[d] = index_layout->dims[d];
    desc.stride[k] = view.strides[axis];
    desc.back[k] = take_dims(&view, first, rank);
    view.dims[axis] = 1;
    desc.front[k] = take_dims(&view, 0, first);
  }
  tensors_collapse(desc.front, SCATTER_OPERANDS);
  tensors_collapse(desc.back, SCATTER_OPERANDS);
  desc.index.tensor = take_dims(index_layout, 0, first);
  desc.index.tensor.type = index->tensor.type;
  desc.index.tensor.offset = index->tensor.offset;
  return desc;
}

void describe_scatter(const node *node, scatter_desc *desc) {
  const ir_scatter *op = node->instruction->op;
  const bound_tensor *index = &node->tensors[op->index], *out = &node->tensors[op->out];
  *desc = scatter_along(op->kind, index, &index->tensor, &node->tensors[op->source], out,
                        axis_of(op->axis, out->tensor.rank));
  desc->wrap = op->wrap;
}
