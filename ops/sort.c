/* Sort: all elements along an axis, or only the first ones in order. */
#include "ops/sort.h"

#include "ops/rule_checks.h"

clave_status rule_sort(const rule_context *context, const void *op) {
  const ir_sort *sort = op;
  const tensor *x = rule_tensor(context, sort->x), *out = rule_tensor(context, sort->out);
  int axis = 0;
  TRY(check_rank_at_least(context, sort->x, "x", 1));
  TRY(rule_axis(sort->axis, x->rank, &axis));
  tensor want = *x;
  if (out->rank == x->rank) {
    int64_t n = x->dims[axis], k = out->dims[axis];
    if (n != DIM_UNKNOWN && k != DIM_UNKNOWN && k > n)
      return INVALID("out: expected at most x's %lld elements along axis %d, got %lld",
                     (long long)n, axis, (long long)k);
    want.dims[axis] = k;
  }
  TRY(rule_expect_like(context, sort->out, "out", &want));
  return check_optional(context, sort->indices, "indices", DTYPE_I64, want.rank, want.dims);
}

static void op_sort_lay_out(int axis, sort_desc *desc) {
  const tensor both[2] = {desc->x->tensor, desc->out->tensor};
  rows_along(both, 2, axis, desc->rows);
  int last = desc->rows[0].rank - 1;
  desc->n_rows = count_dims(&desc->rows[0], 0, last);
  desc->size = desc->rows[0].dims[last];
  desc->k = desc->rows[1].dims[last];
}

void describe_sort(const node *node, sort_desc *desc) {
  const ir_sort *op = node->instruction->op;
  *desc = (sort_desc){.x = &node->tensors[op->x],
                      .out = &node->tensors[op->out],
                      .indices = operand_of(node, op->indices),
                      .descending = op->descending};
  op_sort_lay_out(axis_of(op->axis, desc->x->tensor.rank), desc);
}

void describe_order(const bound_tensor *tensor, int axis, sort_desc *desc) {
  *desc = (sort_desc){.x = tensor, .out = tensor};
  op_sort_lay_out(axis, desc);
}
