/* Random: tensors of random numbers. */
#include "ops/random.h"

#include "ops/rule_checks.h"

static clave_status op_random_check_range(const rule_context *context, const ir_random *op) {
  int64_t low, high;
  if (!op->low.present || !op->high.present)
    return INVALID("the kind is integer, so low and high are needed");
  if (rule_int(context, &op->low, &low) && rule_int(context, &op->high, &high) && low >= high)
    return INVALID("low and high: expected low < high, got %lld and %lld", (long long)low,
                   (long long)high);
  return NULL;
}

clave_status rule_random(const rule_context *context, const void *op) {
  const ir_random *random = op;
  if ((uint32_t)random->kind >= IR_RANDOM_KIND_COUNT)
    return INVALID("random kind %u is unknown", (uint32_t)random->kind);
  if (random->kind != IR_RANDOM_KIND_INTEGER) return check_float(context, random->out, "out");
  dtype t = rule_tensor(context, random->out)->type;
  return t == DTYPE_I64 ? op_random_check_range(context, random)
                        : INVALID("out: expected I64, got %s", dtype_name(t));
}

/* ---------------------------------------------------------------- descriptions */

void describe_random(const node *node, random_desc *desc) {
  const ir_random *op = node->instruction->op;
  const bound_tensor *out = &node->tensors[op->out];
  bool is_int = op->kind == IR_RANDOM_KIND_INTEGER;
  *desc = (random_desc){.kind = op->kind,
                        .out = out,
                        .n = tensor_numel(&out->tensor),
                        .per_block = is_int || out->tensor.type == DTYPE_F64 ? 2 : 4,
                        .stream = op->stream};
  if (!is_int) return;
  desc->low = int_of(node, &op->low);
  desc->range = (uint64_t)int_of(node, &op->high) - (uint64_t)desc->low;
}
