/* SliceUpdate and IndexCopy: a tensor in which some elements are replaced. */
#include "ops/update.h"

#include "ops/rule_checks.h"

/* Fails unless `slice` has the dtype and shape of `value`, with `size` elements along `axis`. */
static clave_status op_update_check_slice(const rule_context *context, uint32_t slice,
                                          const char *what, const tensor *value, int axis,
                                          int64_t size) {
  tensor want = *value;
  want.dims[axis] = size;
  return rule_expect_like(context, slice, what, &want);
}

clave_status rule_slice_update(const rule_context *context, const void *op) {
  const ir_slice_update *slice_update = op;
  const tensor *tensor = rule_tensor(context, slice_update->x);
  int axis = 0;
  TRY(rule_axis(slice_update->axis, tensor->rank, &axis));
  TRY(op_update_check_slice(context, slice_update->update, "update", tensor, axis, DIM_UNKNOWN));
  int64_t size = tensor->dims[axis], n = rule_tensor(context, slice_update->update)->dims[axis],
          start = 0;
  bool start_known =
      !slice_update->start.present || rule_int(context, &slice_update->start, &start);
  if (start_known && start < 0)
    return INVALID("start: expected 0 or more, got %lld", (long long)start);
  int64_t least = n == DIM_UNKNOWN ? 0 : n;
  if (size != DIM_UNKNOWN && (least > size || start > size - least)) {
    return INVALID("update of %lld at %lld does not fit axis %d of size %lld", (long long)least,
                   (long long)start, axis, (long long)size);
  }
  return rule_expect_like(context, slice_update->out, "out", tensor);
}

clave_status rule_index_copy(const rule_context *context, const void *op) {
  const ir_index_copy *index_copy = op;
  const tensor *x = rule_tensor(context, index_copy->x),
               *index = rule_tensor(context, index_copy->index);
  int axis = 0;
  TRY(rule_axis(index_copy->axis, x->rank, &axis));
  TRY(check_index_dtype(context, index_copy->index, "index"));
  if (index->rank != 1) return INVALID("index: expected rank 1, got %d", index->rank);
  TRY(op_update_check_slice(context, index_copy->source, "source", x, axis, index->dims[0]));
  return rule_expect_like(context, index_copy->out, "out", x);
}

/* ---------------------------------------------------------------- descriptions */

void describe_slice_update(const node *node, copy_desc *desc) {
  const ir_slice_update *op = node->instruction->op;
  const bound_tensor *update = &node->tensors[op->update];
  bound_tensor slice = node->tensors[op->out];
  int axis = axis_of(op->axis, slice.tensor.rank);
  int64_t start = op->start.present ? int_of(node, &op->start) : 0;
  slice.tensor.dims[axis] = update->tensor.dims[axis];
  slice.tensor.offset += start * slice.tensor.strides[axis];
  *desc = copy_between(update, &slice);
}

/* The index is a vector along `axis`, broadcast with stride 0 over source's other dimensions. */
void describe_index_copy(const node *node, scatter_desc *desc) {
  const ir_index_copy *op = node->instruction->op;
  const bound_tensor *index = &node->tensors[op->index], *source = &node->tensors[op->source];
  int axis = axis_of(op->axis, source->tensor.rank);
  tensor wide = source->tensor;
  for (int d = 0; d < wide.rank; d++) wide.strides[d] = d == axis ? index->tensor.strides[0] : 0;
  *desc =
      scatter_along(IR_SCATTER_KIND_ASSIGN, index, &wide, source, &node->tensors[op->out], axis);
}
