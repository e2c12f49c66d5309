/* Softmax and log-softmax. */
#include "ops/softmax.h"

#include "ops/rule_checks.h"

clave_status rule_softmax(const rule_context *c, const void *op) {
  const ir_softmax *o = op;
  const tensor *x = rule_tensor(c, o->x);
  int axis = 0;
  TRY(check_float(c, o->x, "x"));
  TRY(rule_axis(o->axis, x->rank, &axis));
  return rule_expect_like(c, o->out, "out", x);
}

void describe_softmax(const node *n, softmax_form *f) {
  const ir_softmax *op = n->instruction->op;
  *f = (softmax_form){.x = &n->tensors[op->x], .out = &n->tensors[op->out], .log = op->log};
  const tensor both[2] = {f->x->t, f->out->t};
  rows_along(both, 2, axis_of(op->axis, f->x->t.rank), f->rows);
  int last = f->rows[0].rank - 1;
  f->n_rows = count_dims(&f->rows[0], 0, last);
  f->row = f->rows[0].dims[last];
}
