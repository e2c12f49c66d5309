/* Cumulate: cumsum, cumprod, cummax, cummin, logcumsumexp. */
#include "ops/rule_checks.h"

clave_status rule_cumulate(const rule_context *c, const void *op) {
  const ir_cumulate *o = op;
  const tensor *x = rule_tensor(c, o->x);
  int axis = 0;
  if ((uint32_t)o->kind >= IR_CUMULATE_KIND_COUNT)
    return INVALID("cumulate kind %u is unknown", (uint32_t)o->kind);
  bool extreme = o->kind == IR_CUMULATE_KIND_MAX || o->kind == IR_CUMULATE_KIND_MIN;
  if (!extreme) TRY(check_not_bool(c, o->x, "x"));
  if (o->kind == IR_CUMULATE_KIND_LOGSUMEXP) TRY(check_float(c, o->x, "x"));
  if (!extreme && o->indices != IR_NONE)
    return INVALID("indices are given, expected none but for a maximum or minimum");
  TRY(rule_axis(o->axis, x->rank, &axis));
  TRY(rule_expect_like(c, o->out, "out", x));
  return check_optional(c, o->indices, "indices", DTYPE_I64, x->rank, x->dims);
}
