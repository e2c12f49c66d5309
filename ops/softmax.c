/* Softmax and log-softmax. */
#include "ops/rule_checks.h"

clave_status rule_softmax(const rule_context *c, const void *op) {
  const ir_softmax *o = op;
  const tensor *x = rule_tensor(c, o->x);
  int axis = 0;
  TRY(check_float(c, o->x, "x"));
  TRY(rule_axis(o->axis, x->rank, &axis));
  return rule_expect_like(c, o->out, "out", x);
}
