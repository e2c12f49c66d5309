/* Copy: the same tensor, contiguous. Bitcast: its bytes with another dtype. */
#include "ops/copy.h"

#include "ops/rule_checks.h"

clave_status rule_copy(const rule_context *context, const void *op) {
  const ir_copy *copy = op;
  return rule_expect_like(context, copy->out, "out", rule_tensor(context, copy->x));
}

/* Stores the number of elements of `to` bytes that a row of n elements of `from` bytes has. */
static clave_status resize_last(int64_t n, int64_t from, int64_t to, int64_t *out) {
  if (n == DIM_UNKNOWN) return NULL;
  if (!mul_i64(n, from, out)) return INVALID("x has too many elements");
  if (*out % to != 0)
    return INVALID("x's last dimension: expected a multiple of %lld bytes, got %lld of %lld bytes",
                   (long long)to, (long long)n, (long long)from);
  *out /= to;
  return NULL;
}

clave_status rule_bitcast(const rule_context *context, const void *op) {
  const ir_bitcast *bitcast = op;
  tensor want = *rule_tensor(context, bitcast->x);
  dtype type = rule_tensor(context, bitcast->out)->type;
  int64_t from = (int64_t)dtype_size(want.type), to = (int64_t)dtype_size(type);
  want.type = type;
  if (from == to) return rule_expect_like(context, bitcast->out, "out", &want);
  TRY(check_rank_at_least(context, bitcast->x, "x", 1));
  TRY(resize_last(want.dims[want.rank - 1], from, to, &want.dims[want.rank - 1]));
  return rule_expect_like(context, bitcast->out, "out", &want);
}

copy_desc copy_between(const bound_tensor *input, const bound_tensor *out) {
  tensor both[2] = {input->tensor, out->tensor};
  tensors_collapse(both, 2);
  copy_desc desc = {.x = *input, .out = *out};
  desc.x.tensor = both[0];
  desc.out.tensor = both[1];
  return desc;
}

void describe_copy(const node *node, copy_desc *desc) {
  const ir_copy *op = node->instruction->op;
  *desc = copy_between(&node->tensors[op->x], &node->tensors[op->out]);
}

/* Returns a dense operand as a vector of `type`, whose size divides that of the operand's dtype. */
static bound_tensor as_list(const bound_tensor *operand, dtype type) {
  int64_t parts = (int64_t)(dtype_size(operand->tensor.type) / dtype_size(type));
  bound_tensor list = *operand;
  list.tensor = (tensor){.type = type, .rank = 1, .offset = operand->tensor.offset * parts};
  list.tensor.dims[0] = tensor_numel(&operand->tensor) * parts;
  list.tensor.strides[0] = 1;
  return list;
}

void describe_bitcast(const node *node, copy_desc *desc) {
  static const dtype units[] = {[1] = DTYPE_U8, [2] = DTYPE_I16, [4] = DTYPE_I32, [8] = DTYPE_I64};
  const ir_bitcast *op = node->instruction->op;
  const bound_tensor *tensor = &node->tensors[op->x], *out = &node->tensors[op->out];
  size_t a = dtype_size(tensor->tensor.type), b = dtype_size(out->tensor.type);
  dtype unit = units[a < b ? a : b];
  *desc = (copy_desc){.x = as_list(tensor, unit), .out = as_list(out, unit)};
}
