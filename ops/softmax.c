/* Softmax and log-softmax. */
#include "ops/softmax.h"

#include "ops/rule_checks.h"

clave_status rule_softmax(const rule_context *context, const void *op) {
  const ir_softmax *softmax = op;
  const tensor *tensor = rule_tensor(context, softmax->x);
  int axis = 0;
  TRY(check_float(context, softmax->x, "x"));
  TRY(rule_axis(softmax->axis, tensor->rank, &axis));
  return rule_expect_like(context, softmax->out, "out", tensor);
}

void describe_softmax(const node *node, softmax_desc *desc) {
  const ir_softmax *op = node->instruction->op;
  *desc =
      (softmax_desc){.x = &node->tensors[op->x], .out = &node->tensors[op->out], .log = op->log};
  const tensor both[2] = {desc->x->tensor, desc->out->tensor};
  rows_along(both, 2, axis_of(op->axis, desc->x->tensor.rank), desc->rows);
  int last = desc->rows[0].rank - 1;
  desc->n_rows = count_dims(&desc->rows[0], 0, last);
  desc->row = desc->rows[0].dims[last];
}
