/* Cumulate: cumsum, cumprod, cummax, cummin, logcumsumexp. */
#include "ops/cumulate.h"

#include "ops/rule_checks.h"

clave_status rule_cumulate(const rule_context *context, const void *op) {
  const ir_cumulate *cumulate = op;
  const tensor *tensor = rule_tensor(context, cumulate->x);
  int axis = 0;
  if ((uint32_t)cumulate->kind >= IR_CUMULATE_KIND_COUNT)
    return INVALID("cumulate kind %u is unknown", (uint32_t)cumulate->kind);
  bool extreme = cumulate->kind == IR_CUMULATE_KIND_MAX || cumulate->kind == IR_CUMULATE_KIND_MIN;
  if (!extreme) TRY(check_not_bool(context, cumulate->x, "x"));
  if (cumulate->kind == IR_CUMULATE_KIND_LOGSUMEXP) TRY(check_float(context, cumulate->x, "x"));
  if (!extreme && cumulate->indices != IR_NONE)
    return INVALID("indices: expected none except for a maximum or minimum, got some");
  TRY(rule_axis(cumulate->axis, tensor->rank, &axis));
  TRY(rule_expect_like(context, cumulate->out, "out", tensor));
  return check_optional(context, cumulate->indices, "indices", DTYPE_I64, tensor->rank,
                        tensor->dims);
}

void describe_cumulate(const node *node, cumulate_desc *desc) {
  const ir_cumulate *op = node->instruction->op;
  *desc = (cumulate_desc){.kind = op->kind,
                          .x = &node->tensors[op->x],
                          .out = &node->tensors[op->out],
                          .indices = operand_of(node, op->indices)};
  const tensor both[2] = {desc->x->tensor, desc->out->tensor};
  rows_along(both, 2, axis_of(op->axis, desc->x->tensor.rank), desc->rows);
  int last = desc->rows[0].rank - 1;
  desc->n_rows = count_dims(&desc->rows[0], 0, last);
  desc->row = desc->rows[0].dims[last];
}
