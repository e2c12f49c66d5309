/* Rope: rotary position embedding. */
#include "ops/rope.h"

#include "ops/rule_checks.h"

/* (L, head_dim / 2), or with as many of x's dimensions ahead of L as cos has. */
static int table_dims(const tensor *x, const tensor *cos, int64_t dims[MAX_RANK]) {
  int64_t head_dim = x->dims[x->rank - 1];
  int rank = cos->rank < 2 ? 2 : cos->rank > x->rank - 1 ? x->rank - 1 : cos->rank;
  for (int i = 0; i < rank - 1; i++) dims[i] = x->dims[x->rank - 1 - rank + i];
  dims[rank - 1] = head_dim == DIM_UNKNOWN ? DIM_UNKNOWN : head_dim / 2;
  return rank;
}

clave_status rule_rope(const rule_context *c, const void *op) {
  const ir_rope *o = op;
  TRY(check_float(c, o->x, "x"));
  TRY(check_rank_at_least(c, o->x, "x", 3));
  const tensor *x = rule_tensor(c, o->x);
  int64_t head_dim = x->dims[x->rank - 1];
  if (head_dim != DIM_UNKNOWN && head_dim % 2 != 0)
    return INVALID("head_dim: expected an even number, got %lld", (long long)head_dim);
  int64_t angles[MAX_RANK];
  int rank = table_dims(x, rule_tensor(c, o->cos), angles);
  TRY(rule_expect(c, o->cos, "cos", x->type, rank, angles));
  TRY(rule_expect(c, o->sin, "sin", x->type, rank, angles));
  return rule_expect_like(c, o->out, "out", x);
}

void describe_rope(const node *n, rope_form *f) {
  const ir_rope *op = n->instruction->op;
  const tensor *x = &n->tensors[op->x].t, *cos = &n->tensors[op->cos].t;
  *f = (rope_form){.x = &n->tensors[op->x],
                   .cos = &n->tensors[op->cos],
                   .sin = &n->tensors[op->sin],
                   .out = &n->tensors[op->out],
                   .rows = take_dims(x, 0, x->rank - 1),
                   .n_angles = count_dims(cos, 0, cos->rank - 1),
                   .n_heads = x->dims[x->rank - 2],
                   .n_pairs = x->dims[x->rank - 1] / 2,
                   .interleaved = op->interleaved};
  f->n_rows = tensor_numel(&f->rows);
}
