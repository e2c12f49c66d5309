/* Cumulate: cumsum and cumprod. */
#include "ops/rule_checks.h"

clave_status rule_cumulate(const rule_context *c, const void *op) {
  const ir_cumulate *o = op;
  const tensor *x = rule_tensor(c, o->x);
  int axis = 0;
  if ((uint32_t)o->kind >= IR_CUMULATE_KIND_COUNT)
    return INVALID("cumulate kind %u is unknown", (uint32_t)o->kind);
  TRY(check_not_bool(c, o->x, "x"));
  TRY(rule_axis(o->axis, x->rank, &axis));
  return rule_expect_like(c, o->out, "out", x);
}
