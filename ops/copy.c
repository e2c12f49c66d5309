/* Copy: the same tensor, contiguous. Bitcast: its bytes, as another dtype. */
#include "ops/copy.h"

#include "ops/rule_checks.h"

clave_status rule_copy(const rule_context *c, const void *op) {
  const ir_copy *o = op;
  return rule_expect_like(c, o->out, "out", rule_tensor(c, o->x));
}

/* The last dimension where elements of `from` bytes become such of `to`. */
static clave_status resize_last(int64_t n, int64_t from, int64_t to, int64_t *out) {
  if (n == DIM_UNKNOWN) return NULL;
  if (!mul_i64(n, from, out)) return INVALID("x has too many elements");
  if (*out % to != 0)
    return INVALID("x's last dimension: expected a multiple of %lld bytes, got %lld of %lld bytes",
                   (long long)to, (long long)n, (long long)from);
  *out /= to;
  return NULL;
}

clave_status rule_bitcast(const rule_context *c, const void *op) {
  const ir_bitcast *o = op;
  tensor t = *rule_tensor(c, o->x);
  dtype type = rule_tensor(c, o->out)->type;
  int64_t from = (int64_t)dtype_size(t.type), to = (int64_t)dtype_size(type);
  t.type = type;
  if (from == to) return rule_expect_like(c, o->out, "out", &t);
  TRY(check_rank_at_least(c, o->x, "x", 1));
  TRY(resize_last(t.dims[t.rank - 1], from, to, &t.dims[t.rank - 1]));
  return rule_expect_like(c, o->out, "out", &t);
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

/* A dense operand as a list of elements of `type`, whose size divides that of its own. */
static bound_tensor as_list(const bound_tensor *x, dtype type) {
  int64_t parts = (int64_t)(dtype_size(x->t.type) / dtype_size(type));
  bound_tensor list = *x;
  list.t = (tensor){.type = type, .rank = 1, .offset = x->t.offset * parts};
  list.t.dims[0] = tensor_numel(&x->t) * parts;
  list.t.strides[0] = 1;
  return list;
}

void describe_bitcast(const node *n, copy_form *f) {
  static const dtype units[] = {[1] = DTYPE_U8, [2] = DTYPE_I16, [4] = DTYPE_I32, [8] = DTYPE_I64};
  const ir_bitcast *op = n->instruction->op;
  const bound_tensor *x = &n->tensors[op->x], *out = &n->tensors[op->out];
  size_t a = dtype_size(x->t.type), b = dtype_size(out->t.type);
  dtype unit = units[a < b ? a : b];
  *f = (copy_form){.x = as_list(x, unit), .out = as_list(out, unit)};
}
