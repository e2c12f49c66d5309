/* Random: tensors of random numbers. */
#include "ops/random.h"

#include "ops/rule_checks.h"

static clave_status check_range(const rule_context *c, const ir_random *o) {
  int64_t low, high;
  if (!o->low.present || !o->high.present)
    return INVALID("the kind is integer, so low and high are needed");
  if (rule_int(c, &o->low, &low) && rule_int(c, &o->high, &high) && low >= high)
    return INVALID("low and high: expected low < high, got %lld and %lld", (long long)low,
                   (long long)high);
  return NULL;
}

clave_status rule_random(const rule_context *c, const void *op) {
  const ir_random *o = op;
  if ((uint32_t)o->kind >= IR_RANDOM_KIND_COUNT)
    return INVALID("random kind %u is unknown", (uint32_t)o->kind);
  if (o->kind != IR_RANDOM_KIND_INTEGER) return check_float(c, o->out, "out");
  dtype t = rule_tensor(c, o->out)->type;
  return t == DTYPE_I64 ? check_range(c, o) : INVALID("out: expected I64, got %s", dtype_name(t));
}

/* ---------------------------------------------------------------- descriptions */

void describe_random(const node *n, random_form *f) {
  const ir_random *op = n->instruction->op;
  const bound_tensor *out = &n->tensors[op->out];
  bool is_int = op->kind == IR_RANDOM_KIND_INTEGER;
  *f = (random_form){.kind = op->kind,
                     .out = out,
                     .n = tensor_numel(&out->t),
                     .per_block = is_int || out->t.type == DTYPE_F64 ? 2 : 4,
                     .stream = op->stream};
  if (!is_int) return;
  f->low = int_of(n, &op->low);
  f->range = (uint64_t)int_of(n, &op->high) - (uint64_t)f->low;
}
