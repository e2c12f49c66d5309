/* Sort: all of a dimension, or its first elements. */
#include "ops/sort.h"

#include "ops/rule_checks.h"

clave_status rule_sort(const rule_context *c, const void *op) {
  const ir_sort *o = op;
  const tensor *x = rule_tensor(c, o->x), *out = rule_tensor(c, o->out);
  int axis = 0;
  TRY(check_rank_at_least(c, o->x, "x", 1));
  TRY(rule_axis(o->axis, x->rank, &axis));
  tensor want = *x;
  if (out->rank == x->rank) {
    int64_t n = x->dims[axis], k = out->dims[axis];
    if (n != DIM_UNKNOWN && k != DIM_UNKNOWN && k > n)
      return INVALID("out: expected at most x's %lld elements along axis %d, got %lld",
                     (long long)n, axis, (long long)k);
    want.dims[axis] = k;
  }
  TRY(rule_expect_like(c, o->out, "out", &want));
  return check_optional(c, o->indices, "indices", DTYPE_I64, want.rank, want.dims);
}

static void lay_out(int axis, sort_form *f) {
  const tensor both[2] = {f->x->t, f->out->t};
  rows_along(both, 2, axis, f->rows);
  int last = f->rows[0].rank - 1;
  f->n_rows = count_dims(&f->rows[0], 0, last);
  f->size = f->rows[0].dims[last];
  f->k = f->rows[1].dims[last];
}

void describe_sort(const node *n, sort_form *f) {
  const ir_sort *op = n->instruction->op;
  *f = (sort_form){.x = &n->tensors[op->x],
                   .out = &n->tensors[op->out],
                   .indices = operand_of(n, op->indices),
                   .descending = op->descending};
  lay_out(axis_of(op->axis, f->x->t.rank), f);
}

void describe_order(const bound_tensor *x, int axis, sort_form *f) {
  *f = (sort_form){.x = x, .out = x};
  lay_out(axis, f);
}
