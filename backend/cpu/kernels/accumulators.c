/* Accumulators of reductions, in double and int64_t. */
#include "backend/cpu/kernels/accumulators.h"

#include <math.h>

#include "backend/cpu/kernels/elementwise/steps.h"
#include "backend/cpu/kernels/support/features.h"

enum { LANES = 8 };

accumulator accumulator_start(kreduce_kind kind) {
  accumulator accumulator = {0};
  if (kind == KREDUCE_PROD) accumulator.f = 1, accumulator.i = 1;
  if (kind == KREDUCE_MAX) accumulator.f = -INFINITY, accumulator.i = INT64_MIN;
  if (kind == KREDUCE_MIN) accumulator.f = INFINITY, accumulator.i = INT64_MAX;
  if (kind == KREDUCE_ALL) accumulator.i = 1;
  return accumulator;
}

static double accumulators_sum_f64(const double *x, int64_t n) {
  double lane[LANES] = {0}, sum = 0;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int k = 0; k < LANES; k++) lane[k] += x[i + k];
  for (; i < n; i++) sum += x[i];
  for (int k = 0; k < LANES; k++) sum += lane[k];
  return sum;
}

/* Sums floats in doubles, with the same bits on every processor. */
KERNEL_INLINE double accumulators_sum_floats(const float *x, int64_t n) {
  double lane[LANES] = {0}, sum = 0;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int k = 0; k < LANES; k++) lane[k] += (double)x[i + k];
  for (; i < n; i++) sum += (double)x[i];
  for (int k = 0; k < LANES; k++) sum += lane[k];
  return sum;
}

/* Sums by blocks, as accumulate_block receives them. */
KERNEL_INLINE double sum_blocks(const float *x, int64_t n) {
  double sum = 0;
  for (; n > ROW_BLOCK; n -= ROW_BLOCK, x += ROW_BLOCK)
    sum += accumulators_sum_floats(x, ROW_BLOCK);
  return sum + accumulators_sum_floats(x, n);
}

static double accumulators_sum_portable(const float *x, int64_t n) { return sum_blocks(x, n); }
#if KERNEL_X86
TARGET_AVX2 static double accumulators_sum_avx2(const float *x, int64_t n) {
  return sum_blocks(x, n);
}
TARGET_AVX512 static double accumulators_sum_avx512(const float *x, int64_t n) {
  return sum_blocks(x, n);
}
#endif

double accumulate_floats(const float *x, int64_t n) {
#if KERNEL_X86
  if (cpu_has_avx512()) return accumulators_sum_avx512(x, n);
  if (cpu_has_avx2()) return accumulators_sum_avx2(x, n);
#endif
  return accumulators_sum_portable(x, n);
}

static double sum_abs(const double *x, int64_t n) {
  double lane[LANES] = {0}, sum = 0;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int k = 0; k < LANES; k++) lane[k] += fabs(x[i + k]);
  for (; i < n; i++) sum += fabs(x[i]);
  for (int k = 0; k < LANES; k++) sum += lane[k];
  return sum;
}

/* Returns the sum of (x - mean)^2 over x (n). */
static double sum_squares(const double *x, int64_t n, double mean) {
  double lane[LANES] = {0}, sum = 0;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int k = 0; k < LANES; k++) lane[k] += (x[i + k] - mean) * (x[i + k] - mean);
  for (; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
  for (int k = 0; k < LANES; k++) sum += lane[k];
  return sum;
}

/* Returns the greatest (least) of `start` and x; NaN wins. */
static double extreme_f64(const double *x, int64_t n, bool least, double start) {
  double lane[LANES];
  for (int k = 0; k < LANES; k++) lane[k] = start;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int k = 0; k < LANES; k++)
      lane[k] = least ? step_min_f64(lane[k], x[i + k]) : step_max_f64(lane[k], x[i + k]);
  for (; i < n; i++) lane[0] = least ? step_min_f64(lane[0], x[i]) : step_max_f64(lane[0], x[i]);
  for (int k = 1; k < LANES; k++)
    lane[0] = least ? step_min_f64(lane[0], lane[k]) : step_max_f64(lane[0], lane[k]);
  return lane[0];
}

/* Merges the means and squared differences of two sets (Chan, Golub, LeVeque: Updating formulae for
 * variances). */
static void join_variance(accumulator *into, const accumulator *other) {
  int64_t n = into->n + other->n;
  if (n == 0) return;
  double d = other->mean - into->mean, share = (double)other->n / (double)n;
  into->f += other->f + d * d * share * (double)into->n;
  into->mean += d * share;
}

static void accumulate_f64(kreduce_kind kind, accumulator *sums, const double *x, int64_t n) {
  switch (kind) {
    case KREDUCE_SUM:
    case KREDUCE_MEAN:
      sums->f += accumulators_sum_f64(x, n);
      break;
    case KREDUCE_PROD:
      for (int64_t i = 0; i < n; i++) sums->f *= x[i];
      break;
    case KREDUCE_MAX:
      sums->f = extreme_f64(x, n, false, sums->f);
      break;
    case KREDUCE_MIN:
      sums->f = extreme_f64(x, n, true, sums->f);
      break;
    case KREDUCE_ANY:
      for (int64_t i = 0; i < n; i++) sums->i |= x[i] != 0;
      break;
    case KREDUCE_ALL:
      for (int64_t i = 0; i < n; i++) sums->i &= x[i] != 0;
      break;
    case KREDUCE_VAR:
    case KREDUCE_STD: {
      accumulator block = {.n = n, .mean = n > 0 ? accumulators_sum_f64(x, n) / (double)n : 0};
      block.f = sum_squares(x, n, block.mean);
      join_variance(sums, &block);
      break;
    }
    case KREDUCE_NORM1:
      sums->f += sum_abs(x, n);
      break;
    case KREDUCE_NORM2:
      sums->f += sum_squares(x, n, 0);
      break;
  }
}

static void accumulate_i64(kreduce_kind kind, accumulator *accumulator, const int64_t *x,
                           int64_t n) {
  int64_t value = accumulator->i;
  for (int64_t i = 0; i < n && kind == KREDUCE_SUM; i++) value = step_add_i64(value, x[i]);
  for (int64_t i = 0; i < n && kind == KREDUCE_PROD; i++) value = step_mul_i64(value, x[i]);
  for (int64_t i = 0; i < n && kind == KREDUCE_MAX; i++) value = step_max_i64(value, x[i]);
  for (int64_t i = 0; i < n && kind == KREDUCE_MIN; i++) value = step_min_i64(value, x[i]);
  for (int64_t i = 0; i < n && kind == KREDUCE_ANY; i++) value |= x[i] != 0;
  for (int64_t i = 0; i < n && kind == KREDUCE_ALL; i++) value &= x[i] != 0;
  accumulator->i = value;
}

void accumulate_block(kreduce_kind kind, compute_type c, accumulator *accumulator, const void *x,
                      int64_t n) {
  if (c == COMPUTE_I64) {
    accumulate_i64(kind, accumulator, x, n);
  } else {
    accumulate_f64(kind, accumulator, x, n);
  }
  accumulator->n += n;
}

void accumulate_other(kreduce_kind kind, accumulator *into, const accumulator *other) {
  if (kind == KREDUCE_VAR || kind == KREDUCE_STD) {
    join_variance(into, other);
  } else {
    kreduce_kind f = kind == KREDUCE_NORM1 || kind == KREDUCE_NORM2 ? KREDUCE_SUM : kind;
    kreduce_kind i = f == KREDUCE_MEAN ? KREDUCE_SUM : f;
    if (f != KREDUCE_ANY && f != KREDUCE_ALL) accumulate_f64(f, into, &other->f, 1);
    accumulate_i64(i, into, &other->i, 1);
  }
  into->n += other->n;
}

static double finish_f64(kreduce_kind kind, const accumulator *accumulator, double divisor) {
  if (kind == KREDUCE_MEAN || kind == KREDUCE_VAR) return accumulator->f / divisor;
  if (kind == KREDUCE_STD) return sqrt(accumulator->f / divisor);
  return kind == KREDUCE_NORM2 ? sqrt(accumulator->f) : accumulator->f;
}

void accumulator_store(kreduce_kind kind, compute_type c, const accumulator *accumulator,
                       double divisor, dtype t, void *to) {
  if (c == COMPUTE_I64 || kind == KREDUCE_ANY || kind == KREDUCE_ALL) {
    store_row(COMPUTE_I64, t, to, 1, 1, &accumulator->i);
  } else {
    double value = finish_f64(kind, accumulator, divisor);
    store_row(COMPUTE_F64, t, to, 1, 1, &value);
  }
}

/* accumulate_lanes for doubles. */
static void lanes_f64(kreduce_kind kind, accumulator *accumulator, const double *x, int64_t n) {
  switch (kind) {
    case KREDUCE_SUM:
    case KREDUCE_MEAN:
      for (int64_t i = 0; i < n; i++) accumulator[i].f += x[i];
      break;
    case KREDUCE_VAR:
    case KREDUCE_STD:
      for (int64_t i = 0; i < n; i++) {
        double d = x[i] - accumulator[i].mean;
        accumulator[i].mean += d / (double)(accumulator[i].n + 1);
        accumulator[i].f += d * (x[i] - accumulator[i].mean);
      }
      break;
    case KREDUCE_MAX:
      for (int64_t i = 0; i < n; i++) accumulator[i].f = step_max_f64(accumulator[i].f, x[i]);
      break;
    case KREDUCE_MIN:
      for (int64_t i = 0; i < n; i++) accumulator[i].f = step_min_f64(accumulator[i].f, x[i]);
      break;
    case KREDUCE_NORM1:
      for (int64_t i = 0; i < n; i++) accumulator[i].f += fabs(x[i]);
      break;
    case KREDUCE_NORM2:
      for (int64_t i = 0; i < n; i++) accumulator[i].f += x[i] * x[i];
      break;
    default:
      for (int64_t i = 0; i < n; i++) accumulate_f64(kind, &accumulator[i], &x[i], 1);
  }
}

void accumulate_lanes(kreduce_kind kind, compute_type c, accumulator *accumulator, const void *x,
                      int64_t n) {
  if (c == COMPUTE_I64) {
    const int64_t *v = x;
    for (int64_t i = 0; i < n; i++) accumulate_i64(kind, &accumulator[i], &v[i], 1);
  } else {
    lanes_f64(kind, accumulator, x, n);
  }
  for (int64_t i = 0; i < n; i++) accumulator[i].n++;
}
