/* GELU and SiLU written out become one step. In the 16-bit floats each op of the written form
 * rounds, so only the wide floats match. */
#include <math.h>
#include <string.h>

#include "interp/passes/passes.h"

static bool finish(match *m, ir_step_kind kind, expr x, uint32_t *out) {
  if (x.kind != EXPR_TENSOR || draft_type(m->d, x.index) != m->type ||
      !draft_same_shape(m->d, x.index, m->out) || !match_is_closed(m))
    return false;
  *out = draft_step(m->d, m->root, kind, &x.index, 1);
  return true;
}

/* ---------------------------------------------------------------- GELU */

/* Are these n factors x, powers counted? */
static bool is_power(match *m, const expr *factors, int n, expr x, int power) {
  int found = 0;
  for (int i = 0; i < n; i++) {
    expr args[MAX_STEP_ARITY];
    double by;
    if (same_expr(factors[i], x)) {
      found++;
    } else if (take_step(m, factors[i], IR_STEP_KIND_POW, args) && same_expr(args[0], x) &&
               expr_number(m->d, args[1], &by) && by == floor(by) && by > 0 && by <= power) {
      found += (int)by;
    } else {
      return false;
    }
  }
  return found == power;
}

/* e = coefficient * x^power */
static bool take_power(match *m, expr e, double coefficient, expr x, int power) {
  product p;
  return take_product(m, e, &p) && !p.n_under &&
         close_numbers(p.coefficient, coefficient, m->type) &&
         is_power(m, p.over, p.n_over, x, power);
}

static bool take_erf(match *m, expr e, expr x) {
  expr args[MAX_STEP_ARITY];
  return take_step(m, e, IR_STEP_KIND_ERF, args) && take_power(m, args[0], sqrt(0.5), x, 1);
}

/* x + 0.044715 x^3, or without a factor x: 1 + 0.044715 x^2. */
static bool take_cubic(match *m, expr e, expr x, bool divided) {
  expr args[MAX_STEP_ARITY], rest;
  double one;
  if (divided)
    return take_plus_number(m, e, &rest, &one) && one == 1 && take_power(m, rest, 0.044715, x, 2);
  if (!take_step(m, e, IR_STEP_KIND_ADD, args)) return false;
  if (same_expr(args[0], x)) return take_power(m, args[1], 0.044715, x, 3);
  return same_expr(args[1], x) && take_power(m, args[0], 0.044715, x, 3);
}

/* tanh(sqrt(2 / pi) * (x + 0.044715 x^3)). Models write the root with ten digits, too few in f64.
 */
static bool take_tanh(match *m, expr e, expr x) {
  expr args[MAX_STEP_ARITY];
  product p;
  if (!take_step(m, e, IR_STEP_KIND_TANH, args) || !take_product(m, args[0], &p)) return false;
  if (p.n_under || p.n_over < 1 || p.n_over > 2) return false;
  if (!close_numbers(p.coefficient, sqrt(2 / acos(-1)), m->type)) return false;
  if (p.n_over == 1) return take_cubic(m, p.over[0], x, false);
  bool first = same_expr(p.over[0], x);
  return (first || same_expr(p.over[1], x)) && take_cubic(m, p.over[first], x, true);
}

/* x / 2 * (1 + erf(x / sqrt(2))), or with the tanh in its place; Hendrycks and Gimpel,
 * https://arxiv.org/abs/1606.08415. */
bool find_gelu(match *m, uint32_t *out) {
  product p;
  if (!is_wide_step(m)) return false;
  if (!take_product(m, tensor_expr(m->out), &p) || p.n_under || p.n_over != 2) return false;
  if (!close_numbers(p.coefficient, 0.5, m->type)) return false;
  int covered = m->n_inner;
  for (int i = 0; i < 2; i++, m->n_inner = covered) {
    expr inner, x = p.over[1 - i];
    double one;
    if (!take_plus_number(m, p.over[i], &inner, &one) || one != 1) continue;
    if (take_erf(m, inner, x)) return finish(m, IR_STEP_KIND_GELU, x, out);
    if (take_tanh(m, inner, x)) return finish(m, IR_STEP_KIND_GELU_TANH, x, out);
  }
  return false;
}

/* ---------------------------------------------------------------- SiLU */

/* x / (1 + exp(-x)) */
static bool take_fraction(match *m, const product *p, expr *x) {
  expr e, args[MAX_STEP_ARITY];
  double one;
  if (p->n_over != 1 || p->n_under != 1) return false;
  *x = p->over[0];
  return take_plus_number(m, p->under[0], &e, &one) && one == 1 &&
         take_step(m, e, IR_STEP_KIND_EXP, args) && take_step(m, args[0], IR_STEP_KIND_NEG, args) &&
         same_expr(args[0], *x);
}

/* x * sigmoid(x) */
static bool take_gate(match *m, const product *p, expr *x) {
  expr args[MAX_STEP_ARITY];
  if (p->n_over != 2 || p->n_under) return false;
  int covered = m->n_inner;
  for (int i = 0; i < 2; i++, m->n_inner = covered) {
    *x = p->over[1 - i];
    if (take_step(m, p->over[i], IR_STEP_KIND_SIGMOID, args) && same_expr(args[0], *x)) return true;
  }
  return false;
}

bool find_silu(match *m, uint32_t *out) {
  product p;
  expr x;
  if (!is_wide_step(m)) return false;
  if (!take_product(m, tensor_expr(m->out), &p) || p.coefficient != 1) return false;
  return (take_fraction(m, &p, &x) || take_gate(m, &p, &x)) && finish(m, IR_STEP_KIND_SILU, x, out);
}
