/* Nonzero: the positions of what is not zero, with room for all of them. */
#include "ops/nonzero.h"

#include "ops/rule_checks.h"

clave_status rule_nonzero(const rule_context *c, const void *op) {
  const ir_nonzero *o = op;
  const tensor *x = rule_tensor(c, o->x);
  int64_t dims[2] = {1, x->rank};
  for (int i = 0; i < x->rank && dims[0] != DIM_UNKNOWN; i++) {
    if (x->dims[i] == DIM_UNKNOWN)
      dims[0] = DIM_UNKNOWN;
    else if (!mul_i64(dims[0], x->dims[i], &dims[0]))
      return INVALID("x has too many elements");
  }
  TRY(rule_expect(c, o->out, "out", DTYPE_I64, 2, dims));
  return rule_expect(c, o->count, "count", DTYPE_I64, 0, NULL);
}

void describe_nonzero(const node *n, nonzero_form *f) {
  const ir_nonzero *op = n->instruction->op;
  *f = (nonzero_form){.x = &n->tensors[op->x],
                      .out = &n->tensors[op->out],
                      .count = &n->tensors[op->count],
                      .n = tensor_numel(&n->tensors[op->x].t)};
}
