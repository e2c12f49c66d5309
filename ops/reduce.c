/* Reduce and ArgReduce. */
#include "ops/reduce.h"

#include <math.h>

#include "ops/rule_checks.h"

static bool is_float_kind(ir_reduce_kind k) {
  return k == IR_REDUCE_KIND_MEAN || k == IR_REDUCE_KIND_VAR || k == IR_REDUCE_KIND_STD ||
         k == IR_REDUCE_KIND_NORM1 || k == IR_REDUCE_KIND_NORM2;
}

static clave_status check_kind(const rule_context *c, const ir_reduce *o) {
  if ((uint32_t)o->kind >= IR_REDUCE_KIND_COUNT)
    return INVALID("reduce kind %u is unknown", (uint32_t)o->kind);
  if (is_float_kind(o->kind)) TRY(check_float(c, o->x, "x"));
  if (o->kind == IR_REDUCE_KIND_SUM || o->kind == IR_REDUCE_KIND_PROD)
    TRY(check_not_bool(c, o->x, "x"));
  bool corrects = o->kind == IR_REDUCE_KIND_VAR || o->kind == IR_REDUCE_KIND_STD;
  return !corrects || isfinite(o->correction)
             ? NULL
             : INVALID("correction: expected a finite number, got %g", o->correction);
}

/* x without the marked axes, or with size 1 there. */
static void reduce_shape(tensor *t, const bool *marked, bool keepdim) {
  int rank = 0;
  for (int i = 0; i < t->rank; i++) {
    if (marked[i] && !keepdim) continue;
    t->dims[rank++] = marked[i] ? 1 : t->dims[i];
  }
  t->rank = rank;
}

/* max, min and their arguments have no value over nothing. */
static clave_status check_not_empty(const tensor *x, const bool *marked) {
  bool reads_nothing = false, writes = true;
  for (int i = 0; i < x->rank; i++) {
    if (x->dims[i] == 0 && marked[i]) reads_nothing = true;
    if (x->dims[i] == 0 && !marked[i]) writes = false;
  }
  char shape[SHAPE_TEXT];
  if (!reads_nothing || !writes) return NULL;
  return INVALID("x: expected no reduced dimension of size 0, got shape %s",
                 tensor_shape_text(x, shape, SHAPE_TEXT));
}

clave_status rule_reduce(const rule_context *c, const void *op) {
  const ir_reduce *o = op;
  const tensor *x = rule_tensor(c, o->x);
  bool marked[MAX_RANK];
  TRY(check_kind(c, o));
  TRY(check_axes(&o->axes, x->rank, marked, NULL));
  for (int i = 0; i < x->rank; i++) marked[i] = marked[i] || o->axes.count == 0;
  if (o->kind == IR_REDUCE_KIND_MAX || o->kind == IR_REDUCE_KIND_MIN)
    TRY(check_not_empty(x, marked));
  tensor want = *x;
  reduce_shape(&want, marked, o->keepdim);
  if (o->kind == IR_REDUCE_KIND_ANY || o->kind == IR_REDUCE_KIND_ALL) want.type = DTYPE_BOOL;
  return rule_expect_like(c, o->out, "out", &want);
}

clave_status rule_arg_reduce(const rule_context *c, const void *op) {
  const ir_arg_reduce *o = op;
  const tensor *x = rule_tensor(c, o->x);
  bool marked[MAX_RANK];
  int axis = -1;
  if ((uint32_t)o->kind >= IR_ARG_REDUCE_KIND_COUNT)
    return INVALID("arg reduce kind %u is unknown", (uint32_t)o->kind);
  TRY(check_not_bool(c, o->x, "x"));
  if (o->axis.present) TRY(rule_axis(o->axis.value, x->rank, &axis));
  for (int i = 0; i < x->rank; i++) marked[i] = axis < 0 || i == axis;
  TRY(check_not_empty(x, marked));
  tensor want = *x;
  reduce_shape(&want, marked, o->keepdim);
  want.type = DTYPE_I64;
  return rule_expect_like(c, o->out, "out", &want);
}

/* ---------------------------------------------------------------- descriptions */

static reduce_form reduce_axes(const node *n, uint32_t x, unsigned axes, uint32_t out) {
  reduce_form f = {.x = &n->tensors[x], .out = &n->tensors[out]};
  split_dims(&f.x->t, 1, axes, &f.kept, &f.over);
  f.n_kept = tensor_numel(&f.kept);
  f.n_over = tensor_numel(&f.over);
  return f;
}

static unsigned all_axes(const tensor *t) { return (1u << t->rank) - 1; }

void describe_reduce(const node *n, reduce_form *f) {
  const ir_reduce *op = n->instruction->op;
  const tensor *x = &n->tensors[op->x].t;
  unsigned axes = op->axes.count == 0 ? all_axes(x) : 0;
  for (uint32_t i = 0; i < op->axes.count; i++) axes |= 1u << axis_of(op->axes.items[i], x->rank);
  *f = reduce_axes(n, op->x, axes, op->out);
  bool corrects = op->kind == IR_REDUCE_KIND_VAR || op->kind == IR_REDUCE_KIND_STD;
  f->divisor = fmax((double)f->n_over - (corrects ? op->correction : 0), 0);
}

void describe_arg_reduce(const node *n, reduce_form *f) {
  const ir_arg_reduce *op = n->instruction->op;
  const tensor *x = &n->tensors[op->x].t;
  bool is_one = op->axis.present && x->rank > 0;
  unsigned axes = is_one ? 1u << axis_of(op->axis.value, x->rank) : all_axes(x);
  *f = reduce_axes(n, op->x, axes, op->out);
}

bool reduce_may_narrow(const node *n, const reduce_form *f) {
  const ir_reduce *op = n->instruction->op;
  return op->kind == IR_REDUCE_KIND_MEAN && f->over.rank == 1 && f->over.strides[0] == 1;
}
