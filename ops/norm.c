/* LayerNorm, RmsNorm, GroupNorm, BatchNorm. Parameters have x's dtype. */
#include "ops/norm.h"

#include <math.h>

#include "ops/rule_checks.h"

static clave_status check_eps(double eps) {
  return isnan(eps) ? INVALID("eps: expected a number, got nan") : NULL;
}

/* Weight and bias over the last n_axes dimensions. */
static clave_status check_last_axes(const rule_context *c, uint32_t x_id, int32_t n_axes,
                                    uint32_t weight, uint32_t bias) {
  const tensor *x = rule_tensor(c, x_id);
  TRY(check_float(c, x_id, "x"));
  if (n_axes < 1 || n_axes > x->rank)
    return INVALID("n_axes: expected 1 to x's rank %d, got %d", x->rank, n_axes);
  const int64_t *dims = x->dims + (x->rank - n_axes);
  TRY(check_optional(c, weight, "weight", x->type, n_axes, dims));
  return check_optional(c, bias, "bias", x->type, n_axes, dims);
}

clave_status rule_layer_norm(const rule_context *c, const void *op) {
  const ir_layer_norm *o = op;
  TRY(check_last_axes(c, o->x, o->n_axes, o->weight, o->bias));
  TRY(check_eps(o->eps));
  return rule_expect_like(c, o->out, "out", rule_tensor(c, o->x));
}

clave_status rule_rms_norm(const rule_context *c, const void *op) {
  const ir_rms_norm *o = op;
  TRY(check_last_axes(c, o->x, o->n_axes, o->weight, IR_NONE));
  TRY(check_eps(o->eps));
  return rule_expect_like(c, o->out, "out", rule_tensor(c, o->x));
}

/* x: (N, C, *); weight and bias: (C). */
static clave_status check_channels(const rule_context *c, uint32_t x_id, uint32_t weight,
                                   uint32_t bias) {
  const tensor *x = rule_tensor(c, x_id);
  TRY(check_float(c, x_id, "x"));
  TRY(check_rank_at_least(c, x_id, "x", 2));
  TRY(check_optional(c, weight, "weight", x->type, 1, &x->dims[1]));
  return check_optional(c, bias, "bias", x->type, 1, &x->dims[1]);
}

clave_status rule_group_norm(const rule_context *c, const void *op) {
  const ir_group_norm *o = op;
  const tensor *x = rule_tensor(c, o->x);
  TRY(check_channels(c, o->x, o->weight, o->bias));
  if (o->groups < 1 || (x->dims[1] != DIM_UNKNOWN && x->dims[1] % o->groups != 0)) {
    return INVALID("groups: expected a divisor of the %lld channels, got %d", (long long)x->dims[1],
                   o->groups);
  }
  TRY(check_eps(o->eps));
  return rule_expect_like(c, o->out, "out", x);
}

clave_status rule_batch_norm(const rule_context *c, const void *op) {
  const ir_batch_norm *o = op;
  const tensor *x = rule_tensor(c, o->x);
  TRY(check_channels(c, o->x, o->weight, o->bias));
  TRY(check_optional(c, o->mean, "mean", x->type, 1, &x->dims[1]));
  TRY(check_optional(c, o->var, "var", x->type, 1, &x->dims[1]));
  TRY(check_eps(o->eps));
  return rule_expect_like(c, o->out, "out", x);
}

/* ---------------------------------------------------------------- descriptions */

static norm_form rows_form(const node *n, uint32_t x, uint32_t weight, uint32_t bias, uint32_t out,
                           int n_axes, double eps) {
  const tensor *t = &n->tensors[x].t;
  return (norm_form){.x = &n->tensors[x],
                     .weight = operand_of(n, weight),
                     .bias = operand_of(n, bias),
                     .out = &n->tensors[out],
                     .type = program_type(n, x),
                     .rows = count_dims(t, 0, t->rank - n_axes),
                     .row = count_dims(t, t->rank - n_axes, t->rank),
                     .eps = eps};
}

void describe_layer_norm(const node *n, norm_form *f) {
  const ir_layer_norm *op = n->instruction->op;
  *f = rows_form(n, op->x, op->weight, op->bias, op->out, op->n_axes, op->eps);
}

void describe_rms_norm(const node *n, norm_form *f) {
  const ir_rms_norm *op = n->instruction->op;
  *f = rows_form(n, op->x, op->weight, IR_NONE, op->out, op->n_axes, op->eps);
}

static norm_form planes_form(const node *n, uint32_t x, uint32_t weight, uint32_t bias,
                             uint32_t out, double eps) {
  const tensor *t = &n->tensors[x].t;
  return (norm_form){.x = &n->tensors[x],
                     .weight = operand_of(n, weight),
                     .bias = operand_of(n, bias),
                     .out = &n->tensors[out],
                     .type = program_type(n, x),
                     .batch = t->dims[0],
                     .channels = t->dims[1],
                     .plane = count_dims(t, 2, t->rank),
                     .eps = eps};
}

void describe_group_norm(const node *n, norm_form *f) {
  const ir_group_norm *op = n->instruction->op;
  *f = planes_form(n, op->x, op->weight, op->bias, op->out, op->eps);
  f->groups = op->groups;
  f->rows = f->batch * f->groups;
  f->row = f->channels / f->groups * f->plane;
}

void describe_batch_norm(const node *n, norm_form *f) {
  const ir_batch_norm *op = n->instruction->op;
  *f = planes_form(n, op->x, op->weight, op->bias, op->out, op->eps);
  f->mean = &n->tensors[op->mean];
  f->var = &n->tensors[op->var];
  f->rows = f->batch * f->channels;
  f->row = f->plane;
}
