/* Copy: the same tensor, contiguous. */
#include "ops/copy.h"

#include "ops/rule_checks.h"

clave_status rule_copy(const rule_context *c, const void *op) {
  const ir_copy *o = op;
  return rule_expect_like(c, o->out, "out", rule_tensor(c, o->x));
}

copy_form copy_between(const bound_tensor *x, const bound_tensor *out) {
  tensor both[2] = {x->t, out->t};
  tensors_collapse(both, 2);
  copy_form f = {.x = *x, .out = *out};
  f.x.t = both[0];
  f.out.t = both[1];
  return f;
}

void describe_copy(const node *n, copy_form *f) {
  const ir_copy *op = n->instruction->op;
  *f = copy_between(&n->tensors[op->x], &n->tensors[op->out]);
}
