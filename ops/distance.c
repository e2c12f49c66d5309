/* Distance between the rows of two matrices. */
#include "ops/distance.h"

#include <math.h>

#include "ops/rule_checks.h"

clave_status rule_distance(const rule_context *context, const void *op) {
  const ir_distance *distance = op;
  const tensor *a = rule_tensor(context, distance->a), *b = rule_tensor(context, distance->b);
  TRY(check_float(context, distance->a, "a"));
  TRY(check_rank_at_least(context, distance->a, "a", 2));
  if (isnan(distance->p) || distance->p < 0)
    return INVALID("p: expected a number of at least 0, got %g", distance->p);
  tensor want = *a;
  if (b->rank == a->rank) want.dims[a->rank - 2] = b->dims[a->rank - 2];
  TRY(rule_expect_like(context, distance->b, "b", &want));
  want.dims[a->rank - 2] = a->dims[a->rank - 2];
  want.dims[a->rank - 1] = b->dims[a->rank - 2];
  return rule_expect_like(context, distance->out, "out", &want);
}

void describe_distance(const node *node, distance_desc *desc) {
  const ir_distance *op = node->instruction->op;
  const tensor *tensor = &node->tensors[op->a].tensor, *value = &node->tensors[op->b].tensor;
  *desc = (distance_desc){.a = &node->tensors[op->a],
                          .b = &node->tensors[op->b],
                          .out = &node->tensors[op->out],
                          .n_out = tensor_numel(&node->tensors[op->out].tensor),
                          .n_a = tensor->dims[tensor->rank - 2],
                          .n_b = value->dims[value->rank - 2],
                          .m = tensor->dims[tensor->rank - 1],
                          .p = op->p};
}
