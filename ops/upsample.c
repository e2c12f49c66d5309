/* Upsample: spatial dimensions of another size. */
#include "ops/upsample.h"

#include <math.h>

#include "ops/rule_checks.h"

/* ---------------------------------------------------------------- rule */

bool upsample_is_quantized(const ir_upsample *op, dtype type) {
  bool blends = op->mode == IR_UPSAMPLE_MODE_LINEAR || op->mode == IR_UPSAMPLE_MODE_CUBIC;
  return type == DTYPE_U8 && blends;
}

static clave_status check_mode(const ir_upsample *o, const tensor *x) {
  if ((uint32_t)o->mode >= IR_UPSAMPLE_MODE_COUNT)
    return INVALID("upsample mode %u is unknown", (uint32_t)o->mode);
  if (!dtype_is_float(x->type) && x->type != DTYPE_U8)
    return INVALID("x: expected a float dtype or U8, got %s", dtype_name(x->type));
  bool nearest = o->mode == IR_UPSAMPLE_MODE_NEAREST || o->mode == IR_UPSAMPLE_MODE_NEAREST_EXACT;
  if (nearest && (o->align_corners || o->antialias))
    return INVALID("align_corners and antialias are not for nearest modes");
  return NULL;
}

clave_status rule_upsample(const rule_context *c, const void *op) {
  const ir_upsample *o = op;
  const tensor *x = rule_tensor(c, o->x);
  TRY(check_mode(o, x));
  if (x->rank < 3 || x->rank > 5) return INVALID("x: expected rank 3 to 5, got %d", x->rank);
  tensor want = *rule_tensor(c, o->out);
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
  if (changed > 1 && (o->antialias || upsample_is_quantized(o, x->type)))
    return INVALID("out: expected one changed size at a time, got %d", changed);
  want.type = x->type;
  return rule_expect_like(c, o->out, "out", &want);
}

/* ---------------------------------------------------------------- description */

static double scale_of(const resample_axis *a, const ir_opt_f64 *given) {
  if (a->align_corners)
    return a->out > 1 ? resample_rounded(a, (double)(a->in - 1) / (double)(a->out - 1)) : 0;
  if (given->present && given->value > 0) return resample_rounded(a, 1.0 / given->value);
  return resample_rounded(a,
                          resample_rounded(a, (double)a->in) / resample_rounded(a, (double)a->out));
}

/* A dimension from `in` to `out` elements. */
static resample_axis axis_of_sizes(const ir_upsample *op, dtype type, int64_t in, int64_t out,
                                   const ir_opt_f64 *scale) {
  static const resample_mode modes[IR_UPSAMPLE_MODE_COUNT] = {
      RESAMPLE_NEAREST, RESAMPLE_NEAREST_EXACT, RESAMPLE_LINEAR, RESAMPLE_CUBIC};
  static const int width[IR_UPSAMPLE_MODE_COUNT] = {1, 1, 2, 4};
  resample_axis a = {.in = in,
                     .out = out,
                     .mode = modes[op->mode],
                     .align_corners = op->align_corners,
                     .antialias = op->antialias,
                     .quantized = upsample_is_quantized(op, type)};
  a.compute = type == DTYPE_F64 || a.quantized ? DTYPE_F64 : DTYPE_F32;
  a.stored = a.mode == RESAMPLE_CUBIC && !a.antialias ? type : a.compute;
  a.scale = scale_of(&a, scale);
  a.n_taps = width[op->mode];
  if (a.antialias) {
    a.support = resample_rounded(&a, 0.5 * (double)a.n_taps * (a.scale >= 1 ? a.scale : 1));
    a.n_taps = 2 * (int64_t)ceil(a.support) + 1;
  }
  return a;
}

void describe_upsample(const node *n, upsample_form *f) {
  const ir_upsample *op = n->instruction->op;
  const ir_opt_f64 *scales[] = {&op->scale_d, &op->scale_h, &op->scale_w};
  *f = (upsample_form){.x = &n->tensors[op->x], .out = &n->tensors[op->out], .mode = op->mode};
  int spatial = f->x->t.rank - 2;
  int64_t in[SPATIAL_DIMS], out[SPATIAL_DIMS];
  align_dims(&f->x->t, spatial, in);
  align_dims(&f->out->t, spatial, out);
  f->planes = count_dims(&f->x->t, 0, 2);
  f->one_at_a_time = op->antialias || upsample_is_quantized(op, f->x->t.type);
  for (int d = 0; d < SPATIAL_DIMS; d++) {
    resample_axis *a = &f->axes[d];
    bool stays = d < SPATIAL_DIMS - spatial || (f->one_at_a_time && in[d] == out[d]);
    *a = (resample_axis){.in = in[d], .out = in[d], .mode = RESAMPLE_NONE, .scale = 1, .n_taps = 1};
    if (stays) continue;
    *a = axis_of_sizes(op, f->x->t.type, in[d], out[d], scales[d]);
    if (a->quantized) f->precision = resample_precision(a);
  }
}
