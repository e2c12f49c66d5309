/* Upsample: spatial dimensions of another size, and which elements each position reads with which
 * weight. */
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
    return INVALID("x is %s, expected a float dtype or U8", dtype_name(x->type));
  bool nearest = o->mode == IR_UPSAMPLE_MODE_NEAREST || o->mode == IR_UPSAMPLE_MODE_NEAREST_EXACT;
  if (nearest && (o->align_corners || o->antialias))
    return INVALID("align_corners and antialias are not for nearest modes");
  return NULL;
}

clave_status rule_upsample(const rule_context *c, const void *op) {
  const ir_upsample *o = op;
  const tensor *x = rule_tensor(c, o->x);
  TRY(check_mode(o, x));
  if (x->rank < 3 || x->rank > 5) return INVALID("x has rank %d, expected 3 to 5", x->rank);
  tensor want = *rule_tensor(c, o->out);
  if (want.rank != x->rank) return INVALID("out has rank %d, expected %d as x", want.rank, x->rank);
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
    return INVALID("%d sizes change, expected one at a time", changed);
  want.type = x->type;
  return rule_expect_like(c, o->out, "out", &want);
}

/* ---------------------------------------------------------------- positions */

/* v as the axis computes: a sum, product or quotient of two such numbers, rounded again, is what
 * their type gives. */
static double rounded(const upsample_axis *a, double v) {
  return a->compute == DTYPE_F64 ? v : (double)(float)v;
}

static double stored(const upsample_axis *a, double v) {
  if (a->stored == DTYPE_F16) return f16_to_f32(f32_to_f16((float)v));
  return a->stored == DTYPE_BF16 ? bf16_to_f32(f32_to_bf16((float)v)) : v;
}

static double scale_of(const upsample_axis *a, const ir_opt_f64 *given) {
  if (a->align_corners)
    return a->out > 1 ? rounded(a, (double)(a->in - 1) / (double)(a->out - 1)) : 0;
  if (given->present && given->value > 0) return rounded(a, 1.0 / given->value);
  return rounded(a, rounded(a, (double)a->in) / rounded(a, (double)a->out));
}

upsample_axis upsample_axis_of(const ir_upsample *op, const tensor *x, const tensor *out, int d) {
  static const int width[IR_UPSAMPLE_MODE_COUNT] = {1, 1, 2, 4};
  const ir_opt_f64 *scales[] = {&op->scale_d, &op->scale_h, &op->scale_w};
  int n = x->rank - 2;
  upsample_axis a = {.in = x->dims[2 + d],
                     .out = out->dims[2 + d],
                     .mode = op->mode,
                     .align_corners = op->align_corners,
                     .antialias = op->antialias};
  a.quantized = upsample_is_quantized(op, x->type);
  a.compute = x->type == DTYPE_F64 || a.quantized ? DTYPE_F64 : DTYPE_F32;
  a.stored = a.mode == IR_UPSAMPLE_MODE_CUBIC && !a.antialias ? x->type : a.compute;
  a.scale = scale_of(&a, scales[3 - n + d]);
  a.n_taps = width[op->mode];
  if (a.antialias) {
    a.support = rounded(&a, 0.5 * (double)a.n_taps * (a.scale >= 1 ? a.scale : 1));
    a.n_taps = 2 * (int64_t)ceil(a.support) + 1;
  }
  return a;
}

/* The position in x of element `at`; not below 0 unless cubic. */
static double source_position(const upsample_axis *a, int64_t at) {
  double i = rounded(a, (double)at);
  if (a->align_corners) return rounded(a, a->scale * i);
  double p = rounded(a, rounded(a, a->scale * rounded(a, i + 0.5)) - 0.5);
  return p < 0 && a->mode != IR_UPSAMPLE_MODE_CUBIC ? 0 : p;
}

/* Splits a position in an element of x and how far it is beyond it, in [0, 1]. */
static int64_t split_position(const upsample_axis *a, double p, double *rest) {
  int64_t i = (int64_t)floor((double)(float)p);
  if (i > a->in - 1) i = a->in - 1;
  double r = rounded(a, p - (double)i);
  *rest = r < 0 ? 0 : r > 1 ? 1 : r;
  return i;
}

static int64_t nearest_index(const upsample_axis *a, int64_t at) {
  double p = a->mode == IR_UPSAMPLE_MODE_NEAREST ? rounded(a, a->scale * rounded(a, (double)at))
                                                 : source_position(a, at) + 0.5;
  int64_t i = (int64_t)floor((double)(float)p);
  return i < a->in - 1 ? i : a->in - 1;
}

/* ---------------------------------------------------------------- weights */

/* The two pieces of the cubic convolution kernel, for |x| <= 1 and 1 < |x| < 2. */
static double cubic_inner(const upsample_axis *a, double x, double k) {
  double v = rounded(a, rounded(a, rounded(a, k + 2) * x) - rounded(a, k + 3));
  return rounded(a, rounded(a, rounded(a, v * x) * x) + 1);
}

static double cubic_outer(const upsample_axis *a, double x, double k) {
  double v = rounded(a, rounded(a, rounded(a, k * x) - rounded(a, 5 * k)) * x);
  return rounded(a, rounded(a, rounded(a, v + rounded(a, 8 * k)) * x) - rounded(a, 4 * k));
}

static double filter(const upsample_axis *a, double x) {
  x = fabs(x);
  if (a->mode == IR_UPSAMPLE_MODE_LINEAR) return x < 1 ? rounded(a, 1 - x) : 0;
  double k = a->antialias ? -0.5 : -0.75;
  return x < 1 ? cubic_inner(a, x, k) : x < 2 ? cubic_outer(a, x, k) : 0;
}

/* Linear and cubic: neighbours beyond an end are the end. */
static void clamped_taps(const upsample_axis *a, int64_t at, int64_t *index, double *weight) {
  bool linear = a->mode == IR_UPSAMPLE_MODE_LINEAR;
  double t;
  int64_t i = split_position(a, source_position(a, at), &t);
  if (linear && a->in == a->out) {
    i = at;
    t = 0;
  }
  for (int k = 0; k < a->n_taps; k++) {
    int64_t j = linear ? i + k : i + k - 1;
    index[k] = j < 0 ? 0 : j > a->in - 1 ? a->in - 1 : j;
  }
  if (linear && a->in == a->out) index[1] = i;
  double rest = rounded(a, 1 - t);
  weight[0] = linear ? rest : cubic_outer(a, rounded(a, t + 1), -0.75);
  weight[1] = linear ? t : cubic_inner(a, t, -0.75);
  if (!linear) {
    weight[2] = cubic_inner(a, rest, -0.75);
    weight[3] = cubic_outer(a, rounded(a, rest + 1), -0.75);
  }
  for (int k = 0; k < a->n_taps; k++) weight[k] = stored(a, weight[k]);
}

/* The same where weights of neighbours beyond an end are added to the end's. */
static int64_t gathered_taps(const upsample_axis *a, int64_t at, int64_t *index, double *weight) {
  double t;
  int64_t i = split_position(a, source_position(a, at), &t), half = a->n_taps / 2;
  int64_t low = i - half + 1, first = low > 0 ? low : 0;
  int64_t end = i + half + 1 < a->in ? i + half + 1 : a->in;
  for (int64_t k = 0; k < a->n_taps; k++) weight[k] = 0;
  for (int64_t k = 0; k < a->n_taps; k++) {
    int64_t j = low + k;
    j = j < 0 ? 0 : j > a->in - 1 ? a->in - 1 : j;
    weight[j - first] += filter(a, (double)(k + 1 - half) - t);
  }
  for (int64_t k = 0; k < end - first; k++) index[k] = first + k;
  return end - first;
}

/* The filter is stretched to cover `scale` elements when shrinking, and its weights add up to 1. */
static int64_t antialias_taps(const upsample_axis *a, int64_t at, int64_t *index, double *weight) {
  double center = rounded(a, a->scale * ((double)at + 0.5));
  double stretch = a->scale >= 1 ? rounded(a, 1 / a->scale) : 1, total = 0;
  int64_t first = (int64_t)(rounded(a, center - a->support) + 0.5),
          end = (int64_t)(rounded(a, center + a->support) + 0.5);
  if (first < 0) first = 0;
  if (end > a->in) end = a->in;
  int64_t n = end - first < a->n_taps ? end - first : a->n_taps;
  for (int64_t k = 0; k < n; k++) {
    double x = (rounded(a, rounded(a, (double)(first + k)) - center) + 0.5) * stretch;
    index[k] = first + k;
    weight[k] = filter(a, rounded(a, x));
    total = rounded(a, total + weight[k]);
  }
  for (int64_t k = 0; k < n && total != 0; k++) weight[k] = rounded(a, weight[k] / total);
  return n;
}

int64_t upsample_taps(const upsample_axis *a, int64_t at, int64_t *index, double *weight) {
  if (a->antialias) return antialias_taps(a, at, index, weight);
  if (a->quantized) return gathered_taps(a, at, index, weight);
  if (a->n_taps > 1) {
    clamped_taps(a, at, index, weight);
  } else {
    index[0] = nearest_index(a, at);
    weight[0] = 1;
  }
  return a->n_taps;
}

int upsample_precision(const upsample_axis *a, int64_t *index, double *weight) {
  double most = 0;
  for (int64_t at = 0; at < a->out; at++) {
    int64_t n = upsample_taps(a, at, index, weight);
    for (int64_t k = 0; k < n; k++) most = weight[k] > most ? weight[k] : most;
  }
  int precision = 0;
  while (precision < 22 && (int)(0.5 + most * (double)(1 << (precision + 1))) < 1 << 15)
    precision++;
  return precision;
}
