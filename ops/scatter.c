/* Scatter: values combined into a tensor at positions that an index tensor holds. */
#include "ops/rule_checks.h"

clave_status rule_scatter(const rule_context *c, const void *op) {
  const ir_scatter *o = op;
  const tensor *x = rule_tensor(c, o->x), *index = rule_tensor(c, o->index);
  int axis = 0;
  if ((uint32_t)o->kind >= IR_SCATTER_KIND_COUNT)
    return INVALID("scatter kind %u is unknown", (uint32_t)o->kind);
  TRY(check_index_dtype(c, o->index, "index"));
  TRY(rule_axis(o->axis, x->rank, &axis));
  TRY(check_index_fits(x, index, axis));
  TRY(rule_expect(c, o->source, "source", x->type, index->rank, index->dims));
  return rule_expect_like(c, o->out, "out", x);
}
