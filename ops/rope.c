/* Rope: rotary position embedding. */
#include "ops/rope.h"

#include "ops/rule_checks.h"

clave_status rule_rope(const rule_context *c, const void *op) {
  const ir_rope *o = op;
  TRY(check_float(c, o->x, "x"));
  TRY(check_rank_at_least(c, o->x, "x", 3));
  const tensor *x = rule_tensor(c, o->x);
  int64_t head_dim = x->dims[x->rank - 1];
  if (head_dim != DIM_UNKNOWN && head_dim % 2 != 0)
    return INVALID("head_dim is %lld, expected an even number", (long long)head_dim);
  int64_t angles[2] = {x->dims[x->rank - 3], head_dim == DIM_UNKNOWN
                                                 ? DIM_UNKNOWN
                                                 : head_dim / 2}; /* (L, head_dim / 2) */
  TRY(rule_expect(c, o->cos, "cos", x->type, 2, angles));
  TRY(rule_expect(c, o->sin, "sin", x->type, 2, angles));
  return rule_expect_like(c, o->out, "out", x);
}

void describe_rope(const node *n, rope_form *f) {
  const ir_rope *op = n->instruction->op;
  const tensor *x = &n->tensors[op->x].t;
  *f = (rope_form){.x = &n->tensors[op->x],
                   .cos = &n->tensors[op->cos],
                   .sin = &n->tensors[op->sin],
                   .out = &n->tensors[op->out],
                   .rows = take_dims(x, 0, x->rank - 1),
                   .length = x->dims[x->rank - 3],
                   .n_heads = x->dims[x->rank - 2],
                   .n_pairs = x->dims[x->rank - 1] / 2,
                   .interleaved = op->interleaved};
  f->n_rows = tensor_numel(&f->rows);
}
