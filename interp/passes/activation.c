/* Replaces GELU and SiLU that are written out as several ops by one step. Only f32 and f64 match,
 * because in 16-bit floats each op of the written form rounds. */
#include <math.h>
#include <string.h>

#include "interp/passes/passes.h"

static bool activation_finish(match *match, ir_step_kind kind, expr expr, uint32_t *out) {
  if (expr.kind != EXPR_TENSOR || draft_type(match->draft, expr.index) != match->type ||
      !draft_same_shape(match->draft, expr.index, match->out) || !match_is_closed(match))
    return false;
  *out = draft_step(match->draft, match->root, kind, &expr.index, 1);
  return true;
}

/* ---------------------------------------------------------------- GELU */

/* True if the product of these n factors is input^power. */
static bool is_power(match *match, const expr *factors, int n, expr input, int power) {
  int found = 0;
  for (int i = 0; i < n; i++) {
    expr args[MAX_STEP_ARITY];
    double by;
    if (same_expr(factors[i], input)) {
      found++;
    } else if (match_step(match, factors[i], IR_STEP_KIND_POW, args) && same_expr(args[0], input) &&
               expr_number(match->draft, args[1], &by) && by == floor(by) && by > 0 &&
               by <= power) {
      found += (int)by;
    } else {
      return false;
    }
  }
  return found == power;
}

/* Matches expression = coefficient * input^power. */
static bool match_power(match *match, expr expression, double coefficient, expr input, int power) {
  product p;
  return match_product(match, expression, &p) && !p.n_under &&
         close_numbers(p.coefficient, coefficient, match->type) &&
         is_power(match, p.over, p.n_over, input, power);
}

static bool match_erf(match *match, expr expression, expr input) {
  expr args[MAX_STEP_ARITY];
  return match_step(match, expression, IR_STEP_KIND_ERF, args) &&
         match_power(match, args[0], sqrt(0.5), input, 1);
}

/* Matches input + 0.044715 input^3 or, if `divided` by input, 1 + 0.044715 input^2. */
static bool match_cubic(match *match, expr expression, expr input, bool divided) {
  expr args[MAX_STEP_ARITY], rest;
  double one;
  if (divided)
    return match_plus_number(match, expression, &rest, &one) && one == 1 &&
           match_power(match, rest, 0.044715, input, 2);
  if (!match_step(match, expression, IR_STEP_KIND_ADD, args)) return false;
  if (same_expr(args[0], input)) return match_power(match, args[1], 0.044715, input, 3);
  return same_expr(args[1], input) && match_power(match, args[0], 0.044715, input, 3);
}

/* Matches tanh(sqrt(2 / pi) * (input + 0.044715 input^3)). Models write the root with ten digits,
 * which is too few in f64. */
static bool match_tanh(match *match, expr expression, expr input) {
  expr args[MAX_STEP_ARITY];
  product p;
  if (!match_step(match, expression, IR_STEP_KIND_TANH, args) || !match_product(match, args[0], &p))
    return false;
  if (p.n_under || p.n_over < 1 || p.n_over > 2) return false;
  if (!close_numbers(p.coefficient, sqrt(2 / acos(-1)), match->type)) return false;
  if (p.n_over == 1) return match_cubic(match, p.over[0], input, false);
  bool first = same_expr(p.over[0], input);
  return (first || same_expr(p.over[1], input)) && match_cubic(match, p.over[first], input, true);
}

/* Matches x / 2 * (1 + erf(x / sqrt(2))), or the form with tanh; Hendrycks and Gimpel,
 * https://arxiv.org/abs/1606.08415. */
bool find_gelu(match *match, uint32_t *out) {
  product p;
  if (!is_wide_step(match)) return false;
  if (!match_product(match, tensor_expr(match->out), &p) || p.n_under || p.n_over != 2)
    return false;
  if (!close_numbers(p.coefficient, 0.5, match->type)) return false;
  int covered = match->n_inner;
  for (int i = 0; i < 2; i++, match->n_inner = covered) {
    expr grown, input = p.over[1 - i];
    double one;
    if (!match_plus_number(match, p.over[i], &grown, &one) || one != 1) continue;
    if (match_erf(match, grown, input))
      return activation_finish(match, IR_STEP_KIND_GELU, input, out);
    if (match_tanh(match, grown, input))
      return activation_finish(match, IR_STEP_KIND_GELU_TANH, input, out);
  }
  return false;
}

/* ---------------------------------------------------------------- SiLU */

/* Matches expression / (1 + exp(-expression)). */
static bool match_fraction(match *match, const product *product, expr *input) {
  expr grown, args[MAX_STEP_ARITY];
  double one;
  if (product->n_over != 1 || product->n_under != 1) return false;
  *input = product->over[0];
  return match_plus_number(match, product->under[0], &grown, &one) && one == 1 &&
         match_step(match, grown, IR_STEP_KIND_EXP, args) &&
         match_step(match, args[0], IR_STEP_KIND_NEG, args) && same_expr(args[0], *input);
}

/* Matches expression * sigmoid(expression). */
static bool match_gate(match *match, const product *product, expr *input) {
  expr args[MAX_STEP_ARITY];
  if (product->n_over != 2 || product->n_under) return false;
  int covered = match->n_inner;
  for (int i = 0; i < 2; i++, match->n_inner = covered) {
    *input = product->over[1 - i];
    if (match_step(match, product->over[i], IR_STEP_KIND_SIGMOID, args) &&
        same_expr(args[0], *input))
      return true;
  }
  return false;
}

bool find_silu(match *match, uint32_t *out) {
  product p;
  expr expr;
  if (!is_wide_step(match)) return false;
  if (!match_product(match, tensor_expr(match->out), &p) || p.coefficient != 1) return false;
  return (match_fraction(match, &p, &expr) || match_gate(match, &p, &expr)) &&
         activation_finish(match, IR_STEP_KIND_SILU, expr, out);
}
