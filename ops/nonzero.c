/* Nonzero: the positions of nonzero elements. out has room for the positions of all elements. */
#include "ops/nonzero.h"

#include "ops/rule_checks.h"

clave_status rule_nonzero(const rule_context *context, const void *op) {
  const ir_nonzero *nonzero = op;
  const tensor *tensor = rule_tensor(context, nonzero->x);
  int64_t dims[2] = {1, tensor->rank};
  for (int i = 0; i < tensor->rank && dims[0] != DIM_UNKNOWN; i++) {
    if (tensor->dims[i] == DIM_UNKNOWN)
      dims[0] = DIM_UNKNOWN;
    else if (!mul_i64(dims[0], tensor->dims[i], &dims[0]))
      return INVALID("x has too many elements");
  }
  TRY(rule_expect(context, nonzero->out, "out", DTYPE_I64, 2, dims));
  return rule_expect(context, nonzero->count, "count", DTYPE_I64, 0, NULL);
}

void describe_nonzero(const node *node, nonzero_desc *desc) {
  const ir_nonzero *op = node->instruction->op;
  *desc = (nonzero_desc){.x = &node->tensors[op->x],
                         .out = &node->tensors[op->out],
                         .count = &node->tensors[op->count],
                         .n = tensor_numel(&node->tensors[op->x].tensor)};
}
