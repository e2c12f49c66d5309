/* Arange and Full: tensors made of numbers alone. */
#include "ops/arange.h"

#include "ops/rule_checks.h"

clave_status rule_arange(const rule_context *c, const void *op) {
  const ir_arange *o = op;
  const tensor *out = rule_tensor(c, o->out);
  if (out->rank != 1) return INVALID("out: expected rank 1, got %d", out->rank);
  TRY(check_not_bool(c, o->out, "out"));
  bool is_float = dtype_is_float(out->type);
  bool given = is_float ? o->start_float.present && o->step_float.present
                        : o->start.present && o->step.present;
  if (given) return NULL;
  return INVALID("out is %s, so %s are needed", dtype_name(out->type),
                 is_float ? "start_float and step_float" : "start and step");
}

clave_status rule_full(const rule_context *c, const void *op) {
  const ir_full *o = op;
  dtype t = rule_tensor(c, o->out)->type;
  int64_t v;
  if (dtype_is_float(t))
    return o->value.present ? NULL : INVALID("out is %s, so value is needed", dtype_name(t));
  if (!o->int_value.present) return INVALID("out is %s, so int_value is needed", dtype_name(t));
  if (rule_int(c, &o->int_value, &v) && !int_fits(t, v))
    return INVALID("int_value %lld does not fit %s", (long long)v, dtype_name(t));
  return NULL;
}

/* ---------------------------------------------------------------- descriptions */

static void describe_row(const node *n, uint32_t out, arange_form *f) {
  *f = (arange_form){.out = &n->tensors[out], .n = tensor_numel(&n->tensors[out].t)};
}

void describe_arange(const node *n, arange_form *f) {
  const ir_arange *op = n->instruction->op;
  describe_row(n, op->out, f);
  if (dtype_is_float(f->out->t.type)) {
    f->start = float_of(n, &op->start_float);
    f->step = float_of(n, &op->step_float);
  } else {
    f->int_start = int_of(n, &op->start);
    f->int_step = int_of(n, &op->step);
  }
}

void describe_full(const node *n, arange_form *f) {
  const ir_full *op = n->instruction->op;
  describe_row(n, op->out, f);
  dtype t = f->out->t.type;
  if (!dtype_is_float(t)) {
    f->int_start = int_of(n, &op->int_value);
    return;
  }
  double value = float_of(n, &op->value);
  f->start = t == DTYPE_F64 ? value : (double)(float)value; /* as torch: 16 bits by way of F32 */
}
