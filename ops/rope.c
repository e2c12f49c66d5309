/* Rope: rotary position embedding. */
#include "ops/rope.h"

#include "ops/rule_checks.h"

/* Computes the shape that cos and sin must have, and returns its rank: (L, head_dim / 2), preceded
 * by as many of the input's dimensions before L as the rank of cos has room for. */
static int table_dims(const tensor *input, const tensor *cos, int64_t dims[MAX_RANK]) {
  int64_t head_dim = input->dims[input->rank - 1];
  int rank = cos->rank < 2 ? 2 : cos->rank > input->rank - 1 ? input->rank - 1 : cos->rank;
  for (int i = 0; i < rank - 1; i++) dims[i] = input->dims[input->rank - 1 - rank + i];
  dims[rank - 1] = head_dim == DIM_UNKNOWN ? DIM_UNKNOWN : head_dim / 2;
  return rank;
}

clave_status rule_rope(const rule_context *context, const void *op) {
  const ir_rope *rope = op;
  TRY(check_float(context, rope->x, "x"));
  TRY(check_rank_at_least(context, rope->x, "x", 3));
  const tensor *tensor = rule_tensor(context, rope->x);
  int64_t head_dim = tensor->dims[tensor->rank - 1];
  if (head_dim != DIM_UNKNOWN && head_dim % 2 != 0)
    return INVALID("head_dim: expected an even number, got %lld", (long long)head_dim);
  int64_t angles[MAX_RANK];
  int rank = table_dims(tensor, rule_tensor(context, rope->cos), angles);
  TRY(rule_expect(context, rope->cos, "cos", tensor->type, rank, angles));
  TRY(rule_expect(context, rope->sin, "sin", tensor->type, rank, angles));
  return rule_expect_like(context, rope->out, "out", tensor);
}

void describe_rope(const node *node, rope_desc *desc) {
  const ir_rope *op = node->instruction->op;
  const tensor *tensor = &node->tensors[op->x].tensor, *cos = &node->tensors[op->cos].tensor;
  *desc = (rope_desc){.x = &node->tensors[op->x],
                      .cos = &node->tensors[op->cos],
                      .sin = &node->tensors[op->sin],
                      .out = &node->tensors[op->out],
                      .rows = take_dims(tensor, 0, tensor->rank - 1),
                      .n_angles = count_dims(cos, 0, cos->rank - 1),
                      .n_heads = tensor->dims[tensor->rank - 2],
                      .n_pairs = tensor->dims[tensor->rank - 1] / 2,
                      .interleaved = op->interleaved};
  desc->n_rows = tensor_numel(&desc->rows);
}
