/* Sort: all of a dimension, or its first elements. */
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
      return INVALID("out has %lld elements along axis %d, expected at most the %lld of x",
                     (long long)k, axis, (long long)n);
    want.dims[axis] = k;
  }
  TRY(rule_expect_like(c, o->out, "out", &want));
  return check_optional(c, o->indices, "indices", DTYPE_I64, want.rank, want.dims);
}
