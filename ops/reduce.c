/* Reduce and ArgReduce. */
#include "ops/reduce.h"

#include <math.h>

#include "ops/rule_checks.h"

static bool op_reduce_is_float_kind(ir_reduce_kind k) {
  return k == IR_REDUCE_KIND_MEAN || k == IR_REDUCE_KIND_VAR || k == IR_REDUCE_KIND_STD ||
         k == IR_REDUCE_KIND_NORM1 || k == IR_REDUCE_KIND_NORM2;
}

static clave_status op_reduce_check_kind(const rule_context *context, const ir_reduce *op) {
  if ((uint32_t)op->kind >= IR_REDUCE_KIND_COUNT)
    return INVALID("reduce kind %u is unknown", (uint32_t)op->kind);
  if (op_reduce_is_float_kind(op->kind)) TRY(check_float(context, op->x, "x"));
  if (op->kind == IR_REDUCE_KIND_SUM || op->kind == IR_REDUCE_KIND_PROD)
    TRY(check_not_bool(context, op->x, "x"));
  bool corrects = op->kind == IR_REDUCE_KIND_VAR || op->kind == IR_REDUCE_KIND_STD;
  return !corrects || isfinite(op->correction)
             ? NULL
             : INVALID("correction: expected a finite number, got %g", op->correction);
}

/* Removes the marked axes, or sets their size to 1 if keepdim. */
static void reduce_shape(tensor *tensor, const bool *marked, bool keepdim) {
  int rank = 0;
  for (int i = 0; i < tensor->rank; i++) {
    if (marked[i] && !keepdim) continue;
    tensor->dims[rank++] = marked[i] ? 1 : tensor->dims[i];
  }
  tensor->rank = rank;
}

/* Fails if a result would reduce no elements: max, min, argmax and argmin are then undefined. */
static clave_status check_not_empty(const tensor *tensor, const bool *marked) {
  bool reads_nothing = false, writes = true;
  for (int i = 0; i < tensor->rank; i++) {
    if (tensor->dims[i] == 0 && marked[i]) reads_nothing = true;
    if (tensor->dims[i] == 0 && !marked[i]) writes = false;
  }
  char shape[SHAPE_TEXT];
  if (!reads_nothing || !writes) return NULL;
  return INVALID("x: expected no reduced dimension of size 0, got shape %s",
                 tensor_shape_text(tensor, shape, SHAPE_TEXT));
}

clave_status rule_reduce(const rule_context *context, const void *op) {
  const ir_reduce *reduce = op;
  const tensor *x = rule_tensor(context, reduce->x);
  bool marked[MAX_RANK];
  TRY(op_reduce_check_kind(context, reduce));
  TRY(check_axes(&reduce->axes, x->rank, marked, NULL));
  for (int i = 0; i < x->rank; i++) marked[i] = marked[i] || reduce->axes.count == 0;
  if (reduce->kind == IR_REDUCE_KIND_MAX || reduce->kind == IR_REDUCE_KIND_MIN)
    TRY(check_not_empty(x, marked));
  tensor want = *x;
  reduce_shape(&want, marked, reduce->keepdim);
  if (reduce->kind == IR_REDUCE_KIND_ANY || reduce->kind == IR_REDUCE_KIND_ALL)
    want.type = DTYPE_BOOL;
  return rule_expect_like(context, reduce->out, "out", &want);
}

clave_status rule_arg_reduce(const rule_context *context, const void *op) {
  const ir_arg_reduce *arg_reduce = op;
  const tensor *x = rule_tensor(context, arg_reduce->x);
  bool marked[MAX_RANK];
  int axis = -1;
  if ((uint32_t)arg_reduce->kind >= IR_ARG_REDUCE_KIND_COUNT)
    return INVALID("arg reduce kind %u is unknown", (uint32_t)arg_reduce->kind);
  TRY(check_not_bool(context, arg_reduce->x, "x"));
  if (arg_reduce->axis.present) TRY(rule_axis(arg_reduce->axis.value, x->rank, &axis));
  for (int i = 0; i < x->rank; i++) marked[i] = axis < 0 || i == axis;
  TRY(check_not_empty(x, marked));
  tensor want = *x;
  reduce_shape(&want, marked, arg_reduce->keepdim);
  want.type = DTYPE_I64;
  return rule_expect_like(context, arg_reduce->out, "out", &want);
}

/* ---------------------------------------------------------------- descriptions */

static reduce_desc op_reduce_axes(const node *node, uint32_t x, unsigned axes, uint32_t out) {
  reduce_desc desc = {.x = &node->tensors[x], .out = &node->tensors[out]};
  split_dims(&desc.x->tensor, 1, axes, &desc.kept, &desc.over);
  desc.n_kept = tensor_numel(&desc.kept);
  desc.n_over = tensor_numel(&desc.over);
  return desc;
}

static unsigned all_axes(const tensor *tensor) { return (1u << tensor->rank) - 1; }

void describe_reduce(const node *node, reduce_desc *desc) {
  const ir_reduce *op = node->instruction->op;
  const tensor *tensor = &node->tensors[op->x].tensor;
  unsigned axes = op->axes.count == 0 ? all_axes(tensor) : 0;
  for (uint32_t i = 0; i < op->axes.count; i++)
    axes |= 1u << axis_of(op->axes.items[i], tensor->rank);
  *desc = op_reduce_axes(node, op->x, axes, op->out);
  bool corrects = op->kind == IR_REDUCE_KIND_VAR || op->kind == IR_REDUCE_KIND_STD;
  desc->divisor = fmax((double)desc->n_over - (corrects ? op->correction : 0), 0);
}

void describe_arg_reduce(const node *node, reduce_desc *desc) {
  const ir_arg_reduce *op = node->instruction->op;
  const tensor *tensor = &node->tensors[op->x].tensor;
  bool is_one = op->axis.present && tensor->rank > 0;
  unsigned axes = is_one ? 1u << axis_of(op->axis.value, tensor->rank) : all_axes(tensor);
  *desc = op_reduce_axes(node, op->x, axes, op->out);
}

bool reduce_may_be_bf16(const node *node, const reduce_desc *desc) {
  const ir_reduce *op = node->instruction->op;
  return op->kind == IR_REDUCE_KIND_MEAN && desc->over.rank == 1 && desc->over.strides[0] == 1;
}
