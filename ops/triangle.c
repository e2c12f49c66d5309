/* Triangle: tril and triu. */
#include "ops/triangle.h"

#include "ops/rule_checks.h"

clave_status rule_triangle(const rule_context *c, const void *op) {
  const ir_triangle *o = op;
  TRY(check_rank_at_least(c, o->x, "x", 2));
  return rule_expect_like(c, o->out, "out", rule_tensor(c, o->x));
}

void describe_triangle(const node *n, triangle_form *f) {
  const ir_triangle *op = n->instruction->op;
  const tensor *x = &n->tensors[op->x].t;
  int last = x->rank - 1;
  *f = (triangle_form){.x = &n->tensors[op->x],
                       .out = &n->tensors[op->out],
                       .rows = take_dims(x, 0, last),
                       .columns = x->dims[last],
                       .step = x->strides[last],
                       .diagonal = op->diagonal,
                       .upper = op->upper};
  f->n_rows = tensor_numel(&f->rows);
}
