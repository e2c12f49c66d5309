/* SliceUpdate and IndexCopy: a tensor with a part of it replaced. */
#include "ops/update.h"

#include "ops/rule_checks.h"

/* `part` has x's dtype and shape, except at `axis`. */
static clave_status check_part(const rule_context *c, uint32_t part, const char *what,
                               const tensor *x, int axis, int64_t size) {
  tensor want = *x;
  want.dims[axis] = size;
  return rule_expect_like(c, part, what, &want);
}

clave_status rule_slice_update(const rule_context *c, const void *op) {
  const ir_slice_update *o = op;
  const tensor *x = rule_tensor(c, o->x);
  int axis = 0;
  TRY(rule_axis(o->axis, x->rank, &axis));
  TRY(check_part(c, o->update, "update", x, axis, DIM_UNKNOWN));
  int64_t size = x->dims[axis], n = rule_tensor(c, o->update)->dims[axis], start = 0;
  bool start_known = !o->start.present || rule_int(c, &o->start, &start);
  if (start_known && start < 0)
    return INVALID("start: expected 0 or more, got %lld", (long long)start);
  int64_t least = n == DIM_UNKNOWN ? 0 : n;
  if (size != DIM_UNKNOWN && (least > size || start > size - least)) {
    return INVALID("update of %lld at %lld does not fit axis %d of size %lld", (long long)least,
                   (long long)start, axis, (long long)size);
  }
  return rule_expect_like(c, o->out, "out", x);
}

clave_status rule_index_copy(const rule_context *c, const void *op) {
  const ir_index_copy *o = op;
  const tensor *x = rule_tensor(c, o->x), *index = rule_tensor(c, o->index);
  int axis = 0;
  TRY(rule_axis(o->axis, x->rank, &axis));
  TRY(check_index_dtype(c, o->index, "index"));
  if (index->rank != 1) return INVALID("index: expected rank 1, got %d", index->rank);
  TRY(check_part(c, o->source, "source", x, axis, index->dims[0]));
  return rule_expect_like(c, o->out, "out", x);
}

/* ---------------------------------------------------------------- descriptions */

void describe_slice_update(const node *n, copy_form *f) {
  const ir_slice_update *op = n->instruction->op;
  const bound_tensor *update = &n->tensors[op->update];
  bound_tensor part = n->tensors[op->out];
  int axis = axis_of(op->axis, part.t.rank);
  int64_t start = op->start.present ? int_of(n, &op->start) : 0;
  part.t.dims[axis] = update->t.dims[axis];
  part.t.offset += start * part.t.strides[axis];
  *f = copy_between(update, &part);
}

/* The index is (1, ..., n, ..., 1), repeated over source's other dimensions. */
void describe_index_copy(const node *n, scatter_form *f) {
  const ir_index_copy *op = n->instruction->op;
  const bound_tensor *index = &n->tensors[op->index], *source = &n->tensors[op->source];
  int axis = axis_of(op->axis, source->t.rank);
  tensor wide = source->t;
  for (int d = 0; d < wide.rank; d++) wide.strides[d] = d == axis ? index->t.strides[0] : 0;
  *f = scatter_along(IR_SCATTER_KIND_ASSIGN, index, &wide, source, &n->tensors[op->out], axis);
}
