/* Triangle: tril and triu. */
#include "ops/rule_checks.h"

clave_status rule_triangle(const rule_context *c, const void *op) {
  const ir_triangle *o = op;
  TRY(check_rank_at_least(c, o->x, "x", 2));
  return rule_expect_like(c, o->out, "out", rule_tensor(c, o->x));
}
