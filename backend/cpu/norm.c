/* LayerNorm, RmsNorm, GroupNorm, BatchNorm. */
#include "ops/norm.h"

#include "backend/cpu/kernels/norm.h"
#include "backend/cpu/tail.h"
#include "cpu_ops.h"

static row_norm row_args(cpu_recorder *r, const norm_form *f) {
  return (row_norm){.x = cpu_operand(r, f->x),
                    .weight = cpu_operand(r, f->weight),
                    .bias = cpu_operand(r, f->bias),
                    .out = cpu_operand(r, f->out),
                    .n_rows = f->rows,
                    .row = f->row,
                    .eps = f->eps};
}

clave_status cpu_layer_norm(cpu_recorder *r, const node *n) {
  norm_form f;
  describe_layer_norm(n, &f);
  const row_norm args = row_args(r, &f);
  return cpu_launch(r, layer_norm, &args);
}

clave_status cpu_rms_norm(cpu_recorder *r, const node *n) {
  norm_form f;
  describe_rms_norm(n, &f);
  const row_norm args = row_args(r, &f);
  return cpu_launch(r, rms_norm, &args);
}

static channel_norm channel_args(cpu_recorder *r, const norm_form *f) {
  return (channel_norm){.x = cpu_operand(r, f->x),
                        .weight = cpu_operand(r, f->weight),
                        .bias = cpu_operand(r, f->bias),
                        .mean = cpu_operand(r, f->mean),
                        .var = cpu_operand(r, f->var),
                        .out = cpu_operand(r, f->out),
                        .batch = f->batch,
                        .channels = f->channels,
                        .plane = f->plane,
                        .groups = f->groups,
                        .eps = f->eps,
                        .type = f->type};
}

static channel_norm group_args(cpu_recorder *r, const node *n, const norm_form *f) {
  channel_norm args = channel_args(r, f);
  if (args.type == DTYPE_F32) take_steps(r, n, SHORT_INPUTS, &args.steps);
  return args;
}

clave_status cpu_group_norm(cpu_recorder *r, const node *n) {
  norm_form f;
  describe_group_norm(n, &f);
  const channel_norm args = group_args(r, n, &f);
  return cpu_launch(r, group_norm, &args);
}

/* What follows runs on floats, before these are rounded. */
bool group_norm_supports_bf16(cpu_recorder *r, const node *n, uint32_t slot) {
  norm_form f;
  describe_group_norm(n, &f);
  const channel_norm args = group_args(r, n, &f);
  if (slot == f.out->slot) return cpu_has_own_epilogue(r, n) && args.steps.head.n_inputs <= 1;
  return slot == f.x->slot;
}

clave_status cpu_batch_norm(cpu_recorder *r, const node *n) {
  norm_form f;
  describe_batch_norm(n, &f);
  const channel_norm args = channel_args(r, &f);
  return cpu_launch(r, batch_norm, &args);
}
