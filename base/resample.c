/* Computes source positions, filters and weights of resized dimensions. */
#include "base/resample.h"

#include <math.h>

enum { GATHERED_TAPS = 4 /* maximum taps of a quantized axis that is not antialiased */ };

/* ---------------------------------------------------------------- positions */

static double round_to_compute(const resample_axis *axis, double v) {
  return resample_rounded(axis, v);
}

static double stored(const resample_axis *axis, double v) {
  if (axis->stored == DTYPE_F16) return f16_to_f32(f32_to_f16((float)v));
  return axis->stored == DTYPE_BF16 ? bf16_to_f32(f32_to_bf16((float)v)) : v;
}

/* Returns the position in x for element `at`; never negative except for cubic modes. */
static double source_position(const resample_axis *axis, int64_t at) {
  double i = round_to_compute(axis, (double)at);
  if (axis->align_corners) return round_to_compute(axis, axis->scale * i);
  double p = round_to_compute(
      axis, round_to_compute(axis, axis->scale * round_to_compute(axis, i + 0.5)) - 0.5);
  return p < 0 && axis->mode != RESAMPLE_CUBIC ? 0 : p;
}

/* Splits a position into an element of x and the distance beyond it, in [0, 1]. */
static int64_t split_position(const resample_axis *axis, double p, double *rest) {
  int64_t i = (int64_t)floor((double)(float)p);
  if (i > axis->in - 1) i = axis->in - 1;
  double r = round_to_compute(axis, p - (double)i);
  *rest = r < 0 ? 0 : r > 1 ? 1 : r;
  return i;
}

static int64_t nearest_index(const resample_axis *axis, int64_t at) {
  double p = axis->mode == RESAMPLE_NEAREST
                 ? round_to_compute(axis, axis->scale * round_to_compute(axis, (double)at))
                 : source_position(axis, at) + 0.5;
  int64_t i = (int64_t)floor((double)(float)p);
  return i < axis->in - 1 ? i : axis->in - 1;
}

/* ---------------------------------------------------------------- weights */

/* The two pieces of the cubic convolution kernel, for |x| <= 1 and 1 < |x| < 2. */
static double resample_cubic_inner(const resample_axis *axis, double x, double k) {
  double v = round_to_compute(axis, round_to_compute(axis, round_to_compute(axis, k + 2) * x) -
                                        round_to_compute(axis, k + 3));
  return round_to_compute(axis, round_to_compute(axis, round_to_compute(axis, v * x) * x) + 1);
}

static double resample_cubic_outer(const resample_axis *axis, double x, double k) {
  double v = round_to_compute(
      axis,
      round_to_compute(axis, round_to_compute(axis, k * x) - round_to_compute(axis, 5 * k)) * x);
  return round_to_compute(
      axis, round_to_compute(axis, round_to_compute(axis, v + round_to_compute(axis, 8 * k)) * x) -
                round_to_compute(axis, 4 * k));
}

static double filter(const resample_axis *axis, double x) {
  x = fabs(x);
  if (axis->mode == RESAMPLE_LINEAR) return x < 1 ? round_to_compute(axis, 1 - x) : 0;
  double k = axis->antialias ? -0.5 : -0.75;
  return x < 1 ? resample_cubic_inner(axis, x, k) : x < 2 ? resample_cubic_outer(axis, x, k) : 0;
}

/* Computes linear and cubic taps. A neighbour beyond an end is replaced by the end. */
static void clamped_taps(const resample_axis *axis, int64_t at, int64_t *index, double *weight) {
  bool linear = axis->mode == RESAMPLE_LINEAR;
  double t;
  int64_t i = split_position(axis, source_position(axis, at), &t);
  if (linear && axis->in == axis->out) {
    i = at;
    t = 0;
  }
  for (int k = 0; k < axis->n_taps; k++) {
    int64_t j = linear ? i + k : i + k - 1;
    index[k] = j < 0 ? 0 : j > axis->in - 1 ? axis->in - 1 : j;
  }
  if (linear && axis->in == axis->out) index[1] = i;
  double rest = round_to_compute(axis, 1 - t);
  weight[0] = linear ? rest : resample_cubic_outer(axis, round_to_compute(axis, t + 1), -0.75);
  weight[1] = linear ? t : resample_cubic_inner(axis, t, -0.75);
  if (!linear) {
    weight[2] = resample_cubic_inner(axis, rest, -0.75);
    weight[3] = resample_cubic_outer(axis, round_to_compute(axis, rest + 1), -0.75);
  }
  for (int k = 0; k < axis->n_taps; k++) weight[k] = stored(axis, weight[k]);
}

/* Computes linear and cubic taps of a quantized axis. The weight of a neighbour beyond an end is
 * added to that of the end. Returns the number of taps. */
static int64_t gathered_taps(const resample_axis *axis, int64_t at, int64_t *index,
                             double *weight) {
  double t;
  int64_t i = split_position(axis, source_position(axis, at), &t), half = axis->n_taps / 2;
  int64_t low = i - half + 1, first = low > 0 ? low : 0;
  int64_t end = i + half + 1 < axis->in ? i + half + 1 : axis->in;
  for (int64_t k = 0; k < axis->n_taps; k++) weight[k] = 0;
  for (int64_t k = 0; k < axis->n_taps; k++) {
    int64_t j = low + k;
    j = j < 0 ? 0 : j > axis->in - 1 ? axis->in - 1 : j;
    weight[j - first] += filter(axis, (double)(k + 1 - half) - t);
  }
  for (int64_t k = 0; k < end - first; k++) index[k] = first + k;
  return end - first;
}

/* The elements that a position of an antialiased axis reads. When shrinking, the filter is
 * stretched to cover `scale` elements; its weights sum to 1. */
typedef struct filter_span {
  int64_t first, n;
  double center, stretch, total;
} filter_span;

static double filter_weight(const resample_axis *axis, const filter_span *span, int64_t k) {
  double x =
      (round_to_compute(axis, round_to_compute(axis, (double)(span->first + k)) - span->center) +
       0.5) *
      span->stretch;
  return filter(axis, round_to_compute(axis, x));
}

static filter_span resample_span_of(const resample_axis *axis, int64_t at) {
  filter_span span = {.center = round_to_compute(axis, axis->scale * ((double)at + 0.5)),
                      .stretch = axis->scale >= 1 ? round_to_compute(axis, 1 / axis->scale) : 1};
  int64_t first = (int64_t)(round_to_compute(axis, span.center - axis->support) + 0.5),
          end = (int64_t)(round_to_compute(axis, span.center + axis->support) + 0.5);
  span.first = first < 0 ? 0 : first;
  if (end > axis->in) end = axis->in;
  span.n = end - span.first < axis->n_taps ? end - span.first : axis->n_taps;
  for (int64_t k = 0; k < span.n; k++)
    span.total = round_to_compute(axis, span.total + filter_weight(axis, &span, k));
  return span;
}

static double resample_share_of(const resample_axis *axis, const filter_span *span, int64_t k) {
  double weight = filter_weight(axis, span, k);
  return span->total != 0 ? round_to_compute(axis, weight / span->total) : weight;
}

static int64_t antialias_taps(const resample_axis *axis, int64_t at, int64_t *index,
                              double *weight) {
  const filter_span span = resample_span_of(axis, at);
  for (int64_t k = 0; k < span.n; k++) {
    index[k] = span.first + k;
    weight[k] = resample_share_of(axis, &span, k);
  }
  return span.n;
}

int64_t resample_taps(const resample_axis *axis, int64_t at, int64_t *index, double *weight) {
  if (axis->antialias) return antialias_taps(axis, at, index, weight);
  if (axis->quantized) return gathered_taps(axis, at, index, weight);
  if (axis->n_taps > 1) {
    clamped_taps(axis, at, index, weight);
  } else {
    index[0] = axis->mode == RESAMPLE_NONE ? at : nearest_index(axis, at);
    weight[0] = 1;
  }
  return axis->n_taps;
}

static double largest_weight(const resample_axis *axis, int64_t at) {
  int64_t index[GATHERED_TAPS];
  double weight[GATHERED_TAPS], most = 0;
  const filter_span span = axis->antialias ? resample_span_of(axis, at) : (filter_span){0};
  int64_t n = axis->antialias ? span.n : gathered_taps(axis, at, index, weight);
  for (int64_t k = 0; k < n; k++)
    most = fmax(most, axis->antialias ? resample_share_of(axis, &span, k) : weight[k]);
  return most;
}

int resample_precision(const resample_axis *axis) {
  double most = 0;
  for (int64_t at = 0; at < axis->out; at++) most = fmax(most, largest_weight(axis, at));
  int precision = 0;
  while (precision < 22 && (int)(0.5 + most * (double)(1 << (precision + 1))) < 1 << 15)
    precision++;
  return precision;
}
