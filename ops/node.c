/* Helpers for the descriptions of several families. */
#include "ops/node.h"

int64_t int_of(const node *node, const ir_int_or_vid *literal) {
  if (literal->vid == IR_NONE) return literal->literal;
  const scalar_value *scalar = &node->values[literal->vid];
  return scalar->type == IR_VALUE_TYPE_FLOAT ? (int64_t)scalar->f : scalar->i;
}

double float_of(const node *node, const ir_float_or_vid *literal) {
  if (literal->vid == IR_NONE) return literal->literal;
  const scalar_value *scalar = &node->values[literal->vid];
  return scalar->type == IR_VALUE_TYPE_FLOAT ? scalar->f : (double)scalar->i;
}

static void node_append_dim(tensor *to, const tensor *from, int axis) {
  to->dims[to->rank] = from->dims[axis];
  to->strides[to->rank++] = from->strides[axis];
}

tensor take_dims(const tensor *value, int from, int to) {
  tensor part = {.type = value->type};
  for (int d = from; d < to; d++) node_append_dim(&part, value, d);
  return part;
}

int64_t count_dims(const tensor *value, int from, int to) {
  tensor part = take_dims(value, from, to);
  return tensor_numel(&part);
}

void split_dims(const tensor *ts, int n, unsigned axes, tensor *kept, tensor *over) {
  for (int i = 0; i < n; i++) {
    kept[i] = (tensor){.type = ts[i].type};
    over[i] = kept[i];
    for (int d = 0; d < ts[i].rank; d++)
      node_append_dim(axes >> d & 1 ? &over[i] : &kept[i], &ts[i], d);
  }
  tensors_collapse(kept, n);
  tensors_collapse(over, n);
}

void rows_along(const tensor *ts, int n, int axis, tensor *rows) {
  for (int i = 0; i < n; i++) {
    rows[i] = (tensor){.type = ts[i].type};
    for (int d = 0; d < ts[i].rank; d++)
      if (d != axis) node_append_dim(&rows[i], &ts[i], d);
  }
  tensors_collapse(rows, n);
  for (int i = 0; i < n; i++) {
    int64_t size = ts[i].rank > 0 ? ts[i].dims[axis] : 1;
    rows[i].dims[rows[i].rank] = size;
    rows[i].strides[rows[i].rank++] = size > 1 ? ts[i].strides[axis] : 1;
  }
}

bound_tensor broadcast_operand(const bound_tensor *operand, const tensor *shape) {
  bound_tensor wide = *operand;
  tensor_broadcast(&operand->tensor, shape->rank, shape->dims, &wide.tensor);
  return wide;
}

void align_right(const ir_i32s *from, int n, int64_t absent, int64_t out[SPATIAL_DIMS]) {
  for (int k = 0; k < SPATIAL_DIMS; k++) {
    int i = k - (SPATIAL_DIMS - n);
    out[k] = i >= 0 && (uint32_t)i < from->count ? from->items[i] : absent;
  }
}

void align_dims(const tensor *tensor, int n, int64_t out[SPATIAL_DIMS]) {
  for (int k = 0; k < SPATIAL_DIMS; k++)
    out[k] = k < SPATIAL_DIMS - n ? 1 : tensor->dims[tensor->rank - SPATIAL_DIMS + k];
}
