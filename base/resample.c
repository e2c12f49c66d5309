/* Positions, filters and weights of resized dimensions. */
#include "base/resample.h"

#include <math.h>

enum { GATHERED_TAPS = 4 /* of a quantized axis that is not antialiased, at most */ };

/* ---------------------------------------------------------------- positions */

static double rounded(const resample_axis *a, double v) { return resample_rounded(a, v); }

static double stored(const resample_axis *a, double v) {
  if (a->stored == DTYPE_F16) return f16_to_f32(f32_to_f16((float)v));
  return a->stored == DTYPE_BF16 ? bf16_to_f32(f32_to_bf16((float)v)) : v;
}

/* The position in x of element `at`; not below 0 unless cubic. */
static double source_position(const resample_axis *a, int64_t at) {
  double i = rounded(a, (double)at);
  if (a->align_corners) return rounded(a, a->scale * i);
  double p = rounded(a, rounded(a, a->scale * rounded(a, i + 0.5)) - 0.5);
  return p < 0 && a->mode != RESAMPLE_CUBIC ? 0 : p;
}

/* Splits a position in an element of x and how far it is beyond it, in [0, 1]. */
static int64_t split_position(const resample_axis *a, double p, double *rest) {
  int64_t i = (int64_t)floor((double)(float)p);
  if (i > a->in - 1) i = a->in - 1;
  double r = rounded(a, p - (double)i);
  *rest = r < 0 ? 0 : r > 1 ? 1 : r;
  return i;
}

static int64_t nearest_index(const resample_axis *a, int64_t at) {
  double p = a->mode == RESAMPLE_NEAREST ? rounded(a, a->scale * rounded(a, (double)at))
                                         : source_position(a, at) + 0.5;
  int64_t i = (int64_t)floor((double)(float)p);
  return i < a->in - 1 ? i : a->in - 1;
}

/* ---------------------------------------------------------------- weights */

/* The two pieces of the cubic convolution kernel, for |x| <= 1 and 1 < |x| < 2. */
static double cubic_inner(const resample_axis *a, double x, double k) {
  double v = rounded(a, rounded(a, rounded(a, k + 2) * x) - rounded(a, k + 3));
  return rounded(a, rounded(a, rounded(a, v * x) * x) + 1);
}

static double cubic_outer(const resample_axis *a, double x, double k) {
  double v = rounded(a, rounded(a, rounded(a, k * x) - rounded(a, 5 * k)) * x);
  return rounded(a, rounded(a, rounded(a, v + rounded(a, 8 * k)) * x) - rounded(a, 4 * k));
}

static double filter(const resample_axis *a, double x) {
  x = fabs(x);
  if (a->mode == RESAMPLE_LINEAR) return x < 1 ? rounded(a, 1 - x) : 0;
  double k = a->antialias ? -0.5 : -0.75;
  return x < 1 ? cubic_inner(a, x, k) : x < 2 ? cubic_outer(a, x, k) : 0;
}

/* Linear and cubic: neighbours beyond an end are the end. */
static void clamped_taps(const resample_axis *a, int64_t at, int64_t *index, double *weight) {
  bool linear = a->mode == RESAMPLE_LINEAR;
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
static int64_t gathered_taps(const resample_axis *a, int64_t at, int64_t *index, double *weight) {
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

/* What a position reads of an antialiased axis. The filter is stretched to cover `scale` elements
 * when shrinking, and its weights add up to 1. */
typedef struct filter_span {
  int64_t first, n;
  double center, stretch, total;
} filter_span;

static double filter_weight(const resample_axis *a, const filter_span *s, int64_t k) {
  double x = (rounded(a, rounded(a, (double)(s->first + k)) - s->center) + 0.5) * s->stretch;
  return filter(a, rounded(a, x));
}

static filter_span span_of(const resample_axis *a, int64_t at) {
  filter_span s = {.center = rounded(a, a->scale * ((double)at + 0.5)),
                   .stretch = a->scale >= 1 ? rounded(a, 1 / a->scale) : 1};
  int64_t first = (int64_t)(rounded(a, s.center - a->support) + 0.5),
          end = (int64_t)(rounded(a, s.center + a->support) + 0.5);
  s.first = first < 0 ? 0 : first;
  if (end > a->in) end = a->in;
  s.n = end - s.first < a->n_taps ? end - s.first : a->n_taps;
  for (int64_t k = 0; k < s.n; k++) s.total = rounded(a, s.total + filter_weight(a, &s, k));
  return s;
}

static double share_of(const resample_axis *a, const filter_span *s, int64_t k) {
  double weight = filter_weight(a, s, k);
  return s->total != 0 ? rounded(a, weight / s->total) : weight;
}

static int64_t antialias_taps(const resample_axis *a, int64_t at, int64_t *index, double *weight) {
  const filter_span s = span_of(a, at);
  for (int64_t k = 0; k < s.n; k++) {
    index[k] = s.first + k;
    weight[k] = share_of(a, &s, k);
  }
  return s.n;
}

int64_t resample_taps(const resample_axis *a, int64_t at, int64_t *index, double *weight) {
  if (a->antialias) return antialias_taps(a, at, index, weight);
  if (a->quantized) return gathered_taps(a, at, index, weight);
  if (a->n_taps > 1) {
    clamped_taps(a, at, index, weight);
  } else {
    index[0] = a->mode == RESAMPLE_NONE ? at : nearest_index(a, at);
    weight[0] = 1;
  }
  return a->n_taps;
}

static double largest_weight(const resample_axis *a, int64_t at) {
  int64_t index[GATHERED_TAPS];
  double weight[GATHERED_TAPS], most = 0;
  const filter_span s = a->antialias ? span_of(a, at) : (filter_span){0};
  int64_t n = a->antialias ? s.n : gathered_taps(a, at, index, weight);
  for (int64_t k = 0; k < n; k++) most = fmax(most, a->antialias ? share_of(a, &s, k) : weight[k]);
  return most;
}

int resample_precision(const resample_axis *a) {
  double most = 0;
  for (int64_t at = 0; at < a->out; at++) most = fmax(most, largest_weight(a, at));
  int precision = 0;
  while (precision < 22 && (int)(0.5 + most * (double)(1 << (precision + 1))) < 1 << 15)
    precision++;
  return precision;
}
