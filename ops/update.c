/* SliceUpdate and IndexCopy: a tensor with a part of it replaced. */
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
    return INVALID("start is %lld, expected 0 or more", (long long)start);
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
  if (index->rank != 1) return INVALID("index has rank %d, expected 1", index->rank);
  TRY(check_part(c, o->source, "source", x, axis, index->dims[0]));
  return rule_expect_like(c, o->out, "out", x);
}
