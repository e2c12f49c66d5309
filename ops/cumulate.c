/* Cumulate: cumsum, cumprod, cummax, cummin, logcumsumexp. */
#include "ops/cumulate.h"

#include "ops/rule_checks.h"

clave_status rule_cumulate(const rule_context *c, const void *op) {
  const ir_cumulate *o = op;
  const tensor *x = rule_tensor(c, o->x);
  int axis = 0;
  if ((uint32_t)o->kind >= IR_CUMULATE_KIND_COUNT)
    return INVALID("cumulate kind %u is unknown", (uint32_t)o->kind);
  bool extreme = o->kind == IR_CUMULATE_KIND_MAX || o->kind == IR_CUMULATE_KIND_MIN;
  if (!extreme) TRY(check_not_bool(c, o->x, "x"));
  if (o->kind == IR_CUMULATE_KIND_LOGSUMEXP) TRY(check_float(c, o->x, "x"));
  if (!extreme && o->indices != IR_NONE)
    return INVALID("indices: expected none except for a maximum or minimum, got some");
  TRY(rule_axis(o->axis, x->rank, &axis));
  TRY(rule_expect_like(c, o->out, "out", x));
  return check_optional(c, o->indices, "indices", DTYPE_I64, x->rank, x->dims);
}

void describe_cumulate(const node *n, cumulate_form *f) {
  const ir_cumulate *op = n->instruction->op;
  *f = (cumulate_form){.kind = op->kind,
                       .x = &n->tensors[op->x],
                       .out = &n->tensors[op->out],
                       .indices = operand_of(n, op->indices)};
  const tensor both[2] = {f->x->t, f->out->t};
  rows_along(both, 2, axis_of(op->axis, f->x->t.rank), f->rows);
  int last = f->rows[0].rank - 1;
  f->n_rows = count_dims(&f->rows[0], 0, last);
  f->row = f->rows[0].dims[last];
}
