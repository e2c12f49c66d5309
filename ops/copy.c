/* Copy: the same tensor, contiguous. */
#include "ops/rule_checks.h"

clave_status rule_copy(const rule_context *c, const void *op) {
  const ir_copy *o = op;
  return rule_expect_like(c, o->out, "out", rule_tensor(c, o->x));
}
