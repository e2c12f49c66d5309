/* Arange and Full: tensors filled from numbers alone. */
#include "ops/arange.h"

#include "ops/rule_checks.h"

clave_status rule_arange(const rule_context *context, const void *op) {
  const ir_arange *arange = op;
  const tensor *out = rule_tensor(context, arange->out);
  if (out->rank != 1) return INVALID("out: expected rank 1, got %d", out->rank);
  TRY(check_not_bool(context, arange->out, "out"));
  bool is_float = dtype_is_float(out->type);
  bool given = is_float ? arange->start_float.present && arange->step_float.present
                        : arange->start.present && arange->step.present;
  if (given) return NULL;
  return INVALID("out is %s, so %s are needed", dtype_name(out->type),
                 is_float ? "start_float and step_float" : "start and step");
}

clave_status rule_full(const rule_context *context, const void *op) {
  const ir_full *full = op;
  dtype t = rule_tensor(context, full->out)->type;
  int64_t v;
  if (dtype_is_float(t))
    return full->value.present ? NULL : INVALID("out is %s, so value is needed", dtype_name(t));
  if (!full->int_value.present) return INVALID("out is %s, so int_value is needed", dtype_name(t));
  if (rule_int(context, &full->int_value, &v) && !int_fits(t, v))
    return INVALID("int_value %lld does not fit %s", (long long)v, dtype_name(t));
  return NULL;
}

/* ---------------------------------------------------------------- descriptions */

static void describe_row(const node *node, uint32_t out, arange_desc *desc) {
  *desc = (arange_desc){.out = &node->tensors[out], .n = tensor_numel(&node->tensors[out].tensor)};
}

void describe_arange(const node *node, arange_desc *desc) {
  const ir_arange *op = node->instruction->op;
  describe_row(node, op->out, desc);
  if (dtype_is_float(desc->out->tensor.type)) {
    desc->start = float_of(node, &op->start_float);
    desc->step = float_of(node, &op->step_float);
  } else {
    desc->int_start = int_of(node, &op->start);
    desc->int_step = int_of(node, &op->step);
  }
}

void describe_full(const node *node, arange_desc *desc) {
  const ir_full *op = node->instruction->op;
  describe_row(node, op->out, desc);
  dtype t = desc->out->tensor.type;
  if (!dtype_is_float(t)) {
    desc->int_start = int_of(node, &op->int_value);
    return;
  }
  double value = float_of(node, &op->value);
  desc->start = t == DTYPE_F64 ? value : (double)(float)value; /* as torch: by way of F32 */
}
