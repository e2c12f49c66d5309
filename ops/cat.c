/* Cat: concatenation along one axis. */
#include "ops/cat.h"

#include "ops/rule_checks.h"

/* Adds input to `sum`, the dtype and shape of the concatenation so far. */
static clave_status op_cat_add_tensor(const tensor *input, int axis, tensor *sum) {
  char a[SHAPE_TEXT], b[SHAPE_TEXT];
  if (input->type != sum->type)
    return INVALID("expected %s, got %s", dtype_name(sum->type), dtype_name(input->type));
  if (input->rank != sum->rank) return INVALID("expected rank %d, got %d", sum->rank, input->rank);
  for (int i = 0; i < input->rank; i++) {
    if (i == axis) continue;
    if (!dim_matches(input->dims[i], sum->dims[i])) {
      return INVALID("expected the shape of %s except at axis %d, got %s",
                     tensor_shape_text(sum, b, SHAPE_TEXT), axis,
                     tensor_shape_text(input, a, SHAPE_TEXT));
    }
    sum->dims[i] = dim_known(sum->dims[i], input->dims[i]);
  }
  int64_t *size = &sum->dims[axis];
  if (*size == DIM_UNKNOWN || input->dims[axis] == DIM_UNKNOWN)
    *size = DIM_UNKNOWN;
  else if (!add_i64(*size, input->dims[axis], size))
    return INVALID("makes axis %d too large", axis);
  return NULL;
}

clave_status rule_cat(const rule_context *context, const void *op) {
  const ir_cat *cat = op;
  if (cat->xs.count == 0) return INVALID("xs is empty");
  tensor sum = *rule_tensor(context, cat->xs.items[0]);
  int axis = 0;
  TRY(rule_axis(cat->axis, sum.rank, &axis));
  for (uint32_t i = 1; i < cat->xs.count; i++) {
    TRY(status_while(op_cat_add_tensor(rule_tensor(context, cat->xs.items[i]), axis, &sum),
                     "xs[%u]", i));
  }
  return rule_expect_like(context, cat->out, "out", &sum);
}

/* ---------------------------------------------------------------- descriptions */

void describe_cat(const node *node, cat_desc *desc) {
  const ir_cat *op = node->instruction->op;
  *desc = (cat_desc){.node = node, .axis = axis_of(op->axis, node->tensors[op->out].tensor.rank)};
}

bool next_slice(cat_desc *desc) {
  const ir_cat *op = desc->node->instruction->op;
  while (desc->next < op->xs.count) {
    desc->x = &desc->node->tensors[op->xs.items[desc->next++]];
    if (tensor_numel(&desc->x->tensor) == 0) continue;
    desc->slice = desc->node->tensors[op->out];
    desc->slice.tensor.dims[desc->axis] = desc->x->tensor.dims[desc->axis];
    desc->slice.tensor.offset += desc->at * desc->slice.tensor.strides[desc->axis];
    desc->at += desc->x->tensor.dims[desc->axis];
    return true;
  }
  return false;
}
