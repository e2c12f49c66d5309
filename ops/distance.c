/* Distance between the rows of two matrices. */
#include "ops/distance.h"

#include <math.h>

#include "ops/rule_checks.h"

clave_status rule_distance(const rule_context *c, const void *op) {
  const ir_distance *o = op;
  const tensor *a = rule_tensor(c, o->a), *b = rule_tensor(c, o->b);
  TRY(check_float(c, o->a, "a"));
  TRY(check_rank_at_least(c, o->a, "a", 2));
  if (isnan(o->p) || o->p < 0) return INVALID("p: expected a number of at least 0, got %g", o->p);
  tensor want = *a;
  if (b->rank == a->rank) want.dims[a->rank - 2] = b->dims[a->rank - 2];
  TRY(rule_expect_like(c, o->b, "b", &want));
  want.dims[a->rank - 2] = a->dims[a->rank - 2];
  want.dims[a->rank - 1] = b->dims[a->rank - 2];
  return rule_expect_like(c, o->out, "out", &want);
}

void describe_distance(const node *n, distance_form *f) {
  const ir_distance *op = n->instruction->op;
  const tensor *a = &n->tensors[op->a].t, *b = &n->tensors[op->b].t;
  *f = (distance_form){.a = &n->tensors[op->a],
                       .b = &n->tensors[op->b],
                       .out = &n->tensors[op->out],
                       .n_out = tensor_numel(&n->tensors[op->out].t),
                       .n_a = a->dims[a->rank - 2],
                       .n_b = b->dims[b->rank - 2],
                       .m = a->dims[a->rank - 1],
                       .p = op->p};
}
