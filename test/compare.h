#ifndef TEST_COMPARE_H
#define TEST_COMPARE_H
/* Compares computed floats with reference results whose only error is one rounding to their dtype.
 *
 * Each element may differ by its allowance: rtol * |want| + atol for what is computed before the
 * result is rounded (in f32 for 8- and 16-bit floats), one unit in the last place of such a float,
 * as an error before rounding of any size may cross a boundary, and one more for each of `steps`,
 * the roundings in between. Without rtol, atol and steps nothing may differ.
 *
 * Errors of a right computation have both signs. With e an error in parts of its allowance (without
 * steps), over n elements: |sum e| <= 4 sqrt(sum e^2) + n / 8, and likewise for e towards zero.
 * Independent errors of either sign exceed the first term alone once in 1,500 outputs (Hoeffding: 2
 * exp(-4^2 / 2)) at most, whatever their sizes; n / 8 is for errors with a common cause, like the
 * sum that a row of softmax is divided by. A 16-bit store that truncates is half a unit off on
 * average: noticed from 57 elements on.
 *
 * A 16-bit result is mostly the right one exactly: what was computed in f32 crosses a boundary once
 * in hundreds of elements. So sum |e| <= n / 8 + 2, and n / 2 more for each step: without this, a
 * missing rounding between two ops would pass. */
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* Bits of the significand, and the exponent of the smallest number. */
typedef struct float_format {
  int digits, least;
} float_format;

static const float_format format_f16 = {11, -24}, format_bf16 = {8, -133}, format_f32 = {24, -149},
                          format_f64 = {53, -1074}, format_e4m3 = {4, -9}, format_e5m2 = {3, -16};

typedef struct tolerance {
  double rtol, atol;
  int steps;
} tolerance;

typedef struct comparison {
  size_t wrong, first; /* number of elements beyond their allowance; the index of one of them */
  double n, sum, towards_zero, squares,
      size; /* statistics of errors, relative to their allowances */
} comparison;

static inline double unit_in_last_place(double x, float_format format) {
  int exponent;
  frexp(x, &exponent);
  return ldexp(1, x == 0 || exponent - format.digits < format.least ? format.least
                                                                    : exponent - format.digits);
}

static inline bool is_narrow(float_format format) { return format.digits < format_f32.digits; }

static inline bool is_exact(tolerance tolerance) {
  return tolerance.rtol == 0 && tolerance.atol == 0 && tolerance.steps == 0;
}

static inline bool element_close(double got, double want, float_format format, tolerance tolerance,
                                 comparison *comparison) {
  if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
  comparison->n += 1;
  if (isinf(want) || isinf(got) || is_exact(tolerance)) return want == got;
  double unit = is_narrow(format) ? unit_in_last_place(want, format) : 0;
  double allowance = unit + tolerance.rtol * fabs(want) + tolerance.atol, error = got - want;
  if (error == 0) return true;
  double e = error / allowance;
  comparison->sum += e;
  comparison->towards_zero += want > 0 ? -e : e;
  comparison->squares += e * e;
  comparison->size += fabs(e);
  return fabs(error) <= allowance + tolerance.steps * unit;
}

static inline comparison compare_floats(const double *got, const double *want, size_t n,
                                        float_format format, tolerance tolerance) {
  comparison comparison = {0};
  for (size_t i = 0; i < n; i++)
    if (!element_close(got[i], want[i], format, tolerance, &comparison) && comparison.wrong++ == 0)
      comparison.first = i;
  return comparison;
}

/* Returns NULL if the results are right, else a description of the first problem. */
static inline const char *comparison_fault(const comparison *comparison, float_format format,
                                           tolerance tolerance) {
  double slack = comparison->n / 8;
  if (comparison->wrong) return "beyond the allowance";
  if (fmax(fabs(comparison->sum), fabs(comparison->towards_zero)) >
      4 * sqrt(comparison->squares) + slack)
    return "errors with a bias";
  if (is_narrow(format) && comparison->size > slack + 2 + tolerance.steps * comparison->n / 2)
    return "too many elements are not the nearest";
  return NULL;
}

/* Wrong results that no comparison may accept. */
typedef enum sabotage { SABOTAGE_ZEROS, SABOTAGE_NEGATED, SABOTAGE_LARGER, N_SABOTAGES } sabotage;
static const char *const sabotage_names[] = {"zeros", "the negated answer", "2 % more"};

static inline double sabotaged(double x, sabotage kind, float_format format) {
  if (!isfinite(x)) return x;
  if (kind != SABOTAGE_LARGER) return kind == SABOTAGE_ZEROS ? 0 : -x;
  double unit = unit_in_last_place(1.02 * x, format);
  return nearbyint(1.02 * x / unit) * unit;
}

/* Returns a sabotage that changes `want` and is accepted; N_SABOTAGES if none exists. */
static inline sabotage accepted_sabotage(const double *want, size_t n, float_format format,
                                         tolerance tolerance) {
  double *got = malloc((n + 1) * sizeof *got);
  sabotage kind = SABOTAGE_ZEROS;
  for (; got && kind < N_SABOTAGES; kind++) {
    bool changes = false;
    for (size_t i = 0; i < n; i++) {
      got[i] = sabotaged(want[i], kind, format);
      changes |= got[i] != want[i] && !isnan(want[i]);
    }
    comparison comparison = compare_floats(got, want, n, format, tolerance);
    if (changes && !comparison_fault(&comparison, format, tolerance)) break;
  }
  free(got);
  return kind;
}

#endif
