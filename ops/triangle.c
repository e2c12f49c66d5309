/* Triangle: tril and triu. */
#include "ops/triangle.h"

#include "ops/rule_checks.h"

clave_status rule_triangle(const rule_context *context, const void *op) {
  const ir_triangle *triangle = op;
  TRY(check_rank_at_least(context, triangle->x, "x", 2));
  return rule_expect_like(context, triangle->out, "out", rule_tensor(context, triangle->x));
}

void describe_triangle(const node *node, triangle_desc *desc) {
  const ir_triangle *op = node->instruction->op;
  const tensor *tensor = &node->tensors[op->x].tensor;
  int last = tensor->rank - 1;
  *desc = (triangle_desc){.x = &node->tensors[op->x],
                          .out = &node->tensors[op->out],
                          .rows = take_dims(tensor, 0, last),
                          .columns = tensor->dims[last],
                          .stride = tensor->strides[last],
                          .diagonal = op->diagonal,
                          .upper = op->upper};
  desc->n_rows = tensor_numel(&desc->rows);
}
