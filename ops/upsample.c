/* Upsample: resizing of the spatial dimensions. */
#include "ops/upsample.h"

#include <math.h>

#include "ops/rule_checks.h"

/* ---------------------------------------------------------------- rule */

bool upsample_is_quantized(const ir_upsample *op, dtype type) {
  bool blends = op->mode == IR_UPSAMPLE_MODE_LINEAR || op->mode == IR_UPSAMPLE_MODE_CUBIC;
  return type == DTYPE_U8 && blends;
}

static clave_status check_mode(const ir_upsample *op, const tensor *tensor) {
  if ((uint32_t)op->mode >= IR_UPSAMPLE_MODE_COUNT)
    return INVALID("upsample mode %u is unknown", (uint32_t)op->mode);
  if (!dtype_is_float(tensor->type) && tensor->type != DTYPE_U8)
    return INVALID("x: expected a float dtype or U8, got %s", dtype_name(tensor->type));
  bool nearest = op->mode == IR_UPSAMPLE_MODE_NEAREST || op->mode == IR_UPSAMPLE_MODE_NEAREST_EXACT;
  if (nearest && (op->align_corners || op->antialias))
    return INVALID("align_corners and antialias are not for nearest modes");
  return NULL;
}

clave_status rule_upsample(const rule_context *context, const void *op) {
  const ir_upsample *upsample = op;
  const tensor *x = rule_tensor(context, upsample->x);
  TRY(check_mode(upsample, x));
  if (x->rank < 3 || x->rank > 5) return INVALID("x: expected rank 3 to 5, got %d", x->rank);
  tensor want = *rule_tensor(context, upsample->out);
  if (want.rank != x->rank)
    return INVALID("out: expected rank %d like x, got %d", x->rank, want.rank);
  int changed = 0;
  for (int i = 0; i < x->rank; i++) {
    if (i < 2)
      want.dims[i] = x->dims[i];
    else if (x->dims[i] == 0 || want.dims[i] == 0)
      return INVALID("spatial dimension %d is empty", i - 2);
    else
      changed += !dim_matches(x->dims[i], want.dims[i]);
  }
  if (changed > 1 && (upsample->antialias || upsample_is_quantized(upsample, x->type)))
    return INVALID("out: expected one changed size at a time, got %d", changed);
  want.type = x->type;
  return rule_expect_like(context, upsample->out, "out", &want);
}

/* ---------------------------------------------------------------- description */

static double op_upsample_scale_of(const resample_axis *axis, const ir_opt_f64 *given) {
  if (axis->align_corners)
    return axis->out > 1 ? resample_rounded(axis, (double)(axis->in - 1) / (double)(axis->out - 1))
                         : 0;
  if (given->present && given->value > 0) return resample_rounded(axis, 1.0 / given->value);
  return resample_rounded(
      axis, resample_rounded(axis, (double)axis->in) / resample_rounded(axis, (double)axis->out));
}

/* Returns the parameters to resample a dimension from `in` to `out` elements. */
static resample_axis axis_of_sizes(const ir_upsample *op, dtype type, int64_t in, int64_t out,
                                   const ir_opt_f64 *scale) {
  static const resample_mode modes[IR_UPSAMPLE_MODE_COUNT] = {
      RESAMPLE_NEAREST, RESAMPLE_NEAREST_EXACT, RESAMPLE_LINEAR, RESAMPLE_CUBIC};
  static const int width[IR_UPSAMPLE_MODE_COUNT] = {1, 1, 2, 4};
  resample_axis axis = {.in = in,
                        .out = out,
                        .mode = modes[op->mode],
                        .align_corners = op->align_corners,
                        .antialias = op->antialias,
                        .quantized = upsample_is_quantized(op, type)};
  axis.compute = type == DTYPE_F64 || axis.quantized ? DTYPE_F64 : DTYPE_F32;
  axis.stored = axis.mode == RESAMPLE_CUBIC && !axis.antialias ? type : axis.compute;
  axis.scale = op_upsample_scale_of(&axis, scale);
  axis.n_taps = width[op->mode];
  if (axis.antialias) {
    axis.support =
        resample_rounded(&axis, 0.5 * (double)axis.n_taps * (axis.scale >= 1 ? axis.scale : 1));
    axis.n_taps = 2 * (int64_t)ceil(axis.support) + 1;
  }
  return axis;
}

void describe_upsample(const node *node, upsample_desc *desc) {
  const ir_upsample *op = node->instruction->op;
  const ir_opt_f64 *scales[] = {&op->scale_d, &op->scale_h, &op->scale_w};
  *desc =
      (upsample_desc){.x = &node->tensors[op->x], .out = &node->tensors[op->out], .mode = op->mode};
  int spatial = desc->x->tensor.rank - 2;
  int64_t in[SPATIAL_DIMS], out[SPATIAL_DIMS];
  align_dims(&desc->x->tensor, spatial, in);
  align_dims(&desc->out->tensor, spatial, out);
  desc->planes = count_dims(&desc->x->tensor, 0, 2);
  desc->one_at_a_time = op->antialias || upsample_is_quantized(op, desc->x->tensor.type);
  for (int d = 0; d < SPATIAL_DIMS; d++) {
    resample_axis *axis = &desc->axes[d];
    bool stays = d < SPATIAL_DIMS - spatial || (desc->one_at_a_time && in[d] == out[d]);
    *axis =
        (resample_axis){.in = in[d], .out = in[d], .mode = RESAMPLE_NONE, .scale = 1, .n_taps = 1};
    if (stays) continue;
    *axis = axis_of_sizes(op, desc->x->tensor.type, in[d], out[d], scales[d]);
    if (axis->quantized) desc->precision = resample_precision(axis);
  }
}
