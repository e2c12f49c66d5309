#ifndef TEST_COMPARE_H
#define TEST_COMPARE_H
/* Whether computed floats are right, held against results that are exact but for one rounding to
 * their dtype.
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
  size_t wrong, first;                        /* elements beyond their allowance; one of them */
  double n, sum, towards_zero, squares, size; /* of errors in parts of their allowances */
} comparison;

static inline double unit_in_last_place(double x, float_format f) {
  int exponent;
  frexp(x, &exponent);
  return ldexp(1, x == 0 || exponent - f.digits < f.least ? f.least : exponent - f.digits);
}

static inline bool is_narrow(float_format f) { return f.digits < format_f32.digits; }

static inline bool is_exact(tolerance t) { return t.rtol == 0 && t.atol == 0 && t.steps == 0; }

static inline bool element_close(double got, double want, float_format f, tolerance t,
                                 comparison *c) {
  if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
  c->n += 1;
  if (isinf(want) || isinf(got) || is_exact(t)) return want == got;
  double unit = is_narrow(f) ? unit_in_last_place(want, f) : 0;
  double allowance = unit + t.rtol * fabs(want) + t.atol, error = got - want;
  if (error == 0) return true;
  double e = error / allowance;
  c->sum += e;
  c->towards_zero += want > 0 ? -e : e;
  c->squares += e * e;
  c->size += fabs(e);
  return fabs(error) <= allowance + t.steps * unit;
}

static inline comparison compare_floats(const double *got, const double *want, size_t n,
                                        float_format f, tolerance t) {
  comparison c = {0};
  for (size_t i = 0; i < n; i++)
    if (!element_close(got[i], want[i], f, t, &c) && c.wrong++ == 0) c.first = i;
  return c;
}

/* NULL if the results are right. */
static inline const char *comparison_fault(const comparison *c, float_format f, tolerance t) {
  double slack = c->n / 8;
  if (c->wrong) return "beyond the allowance";
  if (fmax(fabs(c->sum), fabs(c->towards_zero)) > 4 * sqrt(c->squares) + slack)
    return "errors with a bias";
  if (is_narrow(f) && c->size > slack + 2 + t.steps * c->n / 2)
    return "too many elements are not the nearest";
  return NULL;
}

/* Answers that no comparison may take for right. */
typedef enum sabotage { SABOTAGE_ZEROS, SABOTAGE_NEGATED, SABOTAGE_LARGER, N_SABOTAGES } sabotage;
static const char *const sabotage_names[] = {"zeros", "the negated answer", "2 % more"};

static inline double sabotaged(double x, sabotage kind, float_format f) {
  if (!isfinite(x)) return x;
  if (kind != SABOTAGE_LARGER) return kind == SABOTAGE_ZEROS ? 0 : -x;
  double unit = unit_in_last_place(1.02 * x, f);
  return nearbyint(1.02 * x / unit) * unit;
}

/* The sabotage that passes for `want`; N_SABOTAGES if none does but those that change nothing. */
static inline sabotage accepted_sabotage(const double *want, size_t n, float_format f,
                                         tolerance t) {
  double *got = malloc((n + 1) * sizeof *got);
  sabotage kind = SABOTAGE_ZEROS;
  for (; got && kind < N_SABOTAGES; kind++) {
    bool changes = false;
    for (size_t i = 0; i < n; i++) {
      got[i] = sabotaged(want[i], kind, f);
      changes |= got[i] != want[i] && !isnan(want[i]);
    }
    comparison c = compare_floats(got, want, n, f, t);
    if (changes && !comparison_fault(&c, f, t)) break;
  }
  free(got);
  return kind;
}

#endif
