/* LayerNorm, RmsNorm, GroupNorm, BatchNorm. Parameters have x's dtype. */
#include "ops/norm.h"

#include <math.h>

#include "ops/rule_checks.h"

static clave_status check_eps(double eps) {
  return isnan(eps) ? INVALID("eps: expected a number, got nan") : NULL;
}

/* Checks weight and bias over the last n_axes dimensions. */
static clave_status check_last_axes(const rule_context *context, uint32_t x_id, int32_t n_axes,
                                    uint32_t weight, uint32_t bias) {
  const tensor *tensor = rule_tensor(context, x_id);
  TRY(check_float(context, x_id, "x"));
  if (n_axes < 1 || n_axes > tensor->rank)
    return INVALID("n_axes: expected 1 to x's rank %d, got %d", tensor->rank, n_axes);
  const int64_t *dims = tensor->dims + (tensor->rank - n_axes);
  TRY(check_optional(context, weight, "weight", tensor->type, n_axes, dims));
  return check_optional(context, bias, "bias", tensor->type, n_axes, dims);
}

clave_status rule_layer_norm(const rule_context *context, const void *op) {
  const ir_layer_norm *layer_norm = op;
  TRY(check_last_axes(context, layer_norm->x, layer_norm->n_axes, layer_norm->weight,
                      layer_norm->bias));
  TRY(check_eps(layer_norm->eps));
  return rule_expect_like(context, layer_norm->out, "out", rule_tensor(context, layer_norm->x));
}

clave_status rule_rms_norm(const rule_context *context, const void *op) {
  const ir_rms_norm *rms_norm = op;
  TRY(check_last_axes(context, rms_norm->x, rms_norm->n_axes, rms_norm->weight, IR_NONE));
  TRY(check_eps(rms_norm->eps));
  return rule_expect_like(context, rms_norm->out, "out", rule_tensor(context, rms_norm->x));
}

/* Checks x: (N, C, *), weight and bias: (C). */
static clave_status check_channels(const rule_context *context, uint32_t x_id, uint32_t weight,
                                   uint32_t bias) {
  const tensor *tensor = rule_tensor(context, x_id);
  TRY(check_float(context, x_id, "x"));
  TRY(check_rank_at_least(context, x_id, "x", 2));
  TRY(check_optional(context, weight, "weight", tensor->type, 1, &tensor->dims[1]));
  return check_optional(context, bias, "bias", tensor->type, 1, &tensor->dims[1]);
}

clave_status rule_group_norm(const rule_context *context, const void *op) {
  const ir_group_norm *group_norm = op;
  const tensor *tensor = rule_tensor(context, group_norm->x);
  TRY(check_channels(context, group_norm->x, group_norm->weight, group_norm->bias));
  if (group_norm->groups < 1 ||
      (tensor->dims[1] != DIM_UNKNOWN && tensor->dims[1] % group_norm->groups != 0)) {
    return INVALID("groups: expected a divisor of the %lld channels, got %d",
                   (long long)tensor->dims[1], group_norm->groups);
  }
  TRY(check_eps(group_norm->eps));
  return rule_expect_like(context, group_norm->out, "out", tensor);
}

clave_status rule_batch_norm(const rule_context *context, const void *op) {
  const ir_batch_norm *batch_norm = op;
  const tensor *tensor = rule_tensor(context, batch_norm->x);
  TRY(check_channels(context, batch_norm->x, batch_norm->weight, batch_norm->bias));
  TRY(check_optional(context, batch_norm->mean, "mean", tensor->type, 1, &tensor->dims[1]));
  TRY(check_optional(context, batch_norm->var, "var", tensor->type, 1, &tensor->dims[1]));
  TRY(check_eps(batch_norm->eps));
  return rule_expect_like(context, batch_norm->out, "out", tensor);
}

/* ---------------------------------------------------------------- descriptions */

static norm_desc rows_desc(const node *node, uint32_t x, uint32_t weight, uint32_t bias,
                           uint32_t out, int n_axes, double eps) {
  const tensor *tensor = &node->tensors[x].tensor;
  return (norm_desc){.x = &node->tensors[x],
                     .weight = operand_of(node, weight),
                     .bias = operand_of(node, bias),
                     .out = &node->tensors[out],
                     .type = program_type(node, x),
                     .rows = count_dims(tensor, 0, tensor->rank - n_axes),
                     .row = count_dims(tensor, tensor->rank - n_axes, tensor->rank),
                     .eps = eps};
}

void describe_layer_norm(const node *node, norm_desc *desc) {
  const ir_layer_norm *op = node->instruction->op;
  *desc = rows_desc(node, op->x, op->weight, op->bias, op->out, op->n_axes, op->eps);
}

void describe_rms_norm(const node *node, norm_desc *desc) {
  const ir_rms_norm *op = node->instruction->op;
  *desc = rows_desc(node, op->x, op->weight, IR_NONE, op->out, op->n_axes, op->eps);
}

static norm_desc op_norm_planes_desc(const node *node, uint32_t x, uint32_t weight, uint32_t bias,
                                     uint32_t out, double eps) {
  const tensor *tensor = &node->tensors[x].tensor;
  return (norm_desc){.x = &node->tensors[x],
                     .weight = operand_of(node, weight),
                     .bias = operand_of(node, bias),
                     .out = &node->tensors[out],
                     .type = program_type(node, x),
                     .batch = tensor->dims[0],
                     .channels = tensor->dims[1],
                     .plane = count_dims(tensor, 2, tensor->rank),
                     .eps = eps};
}

void describe_group_norm(const node *node, norm_desc *desc) {
  const ir_group_norm *op = node->instruction->op;
  *desc = op_norm_planes_desc(node, op->x, op->weight, op->bias, op->out, op->eps);
  desc->groups = op->groups;
  desc->rows = desc->batch * desc->groups;
  desc->row = desc->channels / desc->groups * desc->plane;
}

void describe_batch_norm(const node *node, norm_desc *desc) {
  const ir_batch_norm *op = node->instruction->op;
  *desc = op_norm_planes_desc(node, op->x, op->weight, op->bias, op->out, op->eps);
  desc->mean = &node->tensors[op->mean];
  desc->var = &node->tensors[op->var];
  desc->rows = desc->batch * desc->channels;
  desc->row = desc->plane;
}
