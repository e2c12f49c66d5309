/* Records LayerNorm, RmsNorm, GroupNorm, BatchNorm. */
#include "ops/norm.h"

#include "backend/cpu/epilogue.h"
#include "backend/cpu/kernels/norm.h"
#include "cpu_ops.h"

static row_norm row_args(cpu_recorder *recorder, const norm_desc *desc) {
  return (row_norm){.x = cpu_operand(recorder, desc->x),
                    .weight = cpu_operand(recorder, desc->weight),
                    .bias = cpu_operand(recorder, desc->bias),
                    .out = cpu_operand(recorder, desc->out),
                    .n_rows = desc->rows,
                    .row = desc->row,
                    .eps = desc->eps};
}

clave_status cpu_layer_norm(cpu_recorder *recorder, const node *node) {
  norm_desc desc;
  describe_layer_norm(node, &desc);
  const row_norm args = row_args(recorder, &desc);
  return cpu_launch(recorder, layer_norm, &args);
}

clave_status cpu_rms_norm(cpu_recorder *recorder, const node *node) {
  norm_desc desc;
  describe_rms_norm(node, &desc);
  const row_norm args = row_args(recorder, &desc);
  return cpu_launch(recorder, rms_norm, &args);
}

static channel_norm channel_args(cpu_recorder *recorder, const norm_desc *desc) {
  return (channel_norm){.x = cpu_operand(recorder, desc->x),
                        .weight = cpu_operand(recorder, desc->weight),
                        .bias = cpu_operand(recorder, desc->bias),
                        .mean = cpu_operand(recorder, desc->mean),
                        .var = cpu_operand(recorder, desc->var),
                        .out = cpu_operand(recorder, desc->out),
                        .batch = desc->batch,
                        .channels = desc->channels,
                        .plane = desc->plane,
                        .groups = desc->groups,
                        .eps = desc->eps,
                        .type = desc->type};
}

static channel_norm group_args(cpu_recorder *recorder, const node *node, const norm_desc *desc) {
  channel_norm args = channel_args(recorder, desc);
  if (args.type == DTYPE_F32) fuse_steps(recorder, node, SHORT_INPUTS, &args.steps);
  return args;
}

clave_status cpu_group_norm(cpu_recorder *recorder, const node *node) {
  norm_desc desc;
  describe_group_norm(node, &desc);
  const channel_norm args = group_args(recorder, node, &desc);
  return cpu_launch(recorder, group_norm, &args);
}

/* The epilogue runs on F32 results, before they are rounded. */
bool group_norm_supports_bf16(cpu_recorder *recorder, const node *node, uint32_t slot) {
  norm_desc desc;
  describe_group_norm(node, &desc);
  const channel_norm args = group_args(recorder, node, &desc);
  if (slot == desc.out->slot)
    return cpu_has_own_epilogue(recorder, node) && args.steps.head.n_inputs <= 1;
  return slot == desc.x->slot;
}

clave_status cpu_batch_norm(cpu_recorder *recorder, const node *node) {
  norm_desc desc;
  describe_batch_norm(node, &desc);
  const channel_norm args = channel_args(recorder, &desc);
  return cpu_launch(recorder, batch_norm, &args);
}
