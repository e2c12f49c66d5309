/* Finds layer norms and RMS norms that are written out as several ops, and norms that a 16-bit
 * module computes in f32.
 *
 * The written forms match only in f32 and f64, where they differ from the op only in the order of
 * sums. Hugging Face's modules cast 16-bit activations to f32, normalise, round, and then multiply
 * by the weight. In these modules the cast, norm and rounding are replaced by a 16-bit norm without
 * a weight, which also rounds once; the multiplication stays. */
#include <string.h>

#include "interp/passes/passes.h"

/* Returns the number of axes if they are the last ones of x and have known sizes; else 0. */
static int normalized_axes(const draft *draft, uint32_t x, unsigned axes) {
  int rank = draft_rank(draft, x), n = 0;
  while (n < rank && axes & (1u << (rank - 1 - n))) n++;
  if (!n || axes != ((1u << n) - 1) << (rank - n)) return 0;
  for (int i = rank - n; i < rank; i++)
    if (draft_dim(draft, x, i)->vid != IR_NONE) return 0;
  return n;
}

/* True if expr has the shape of x's last n axes, ignoring leading sizes of 1. */
static bool is_parameter(const draft *draft, expr expr, uint32_t x, int n, dtype type) {
  if (expr.kind != EXPR_TENSOR || draft_type(draft, expr.index) != type) return false;
  int rank = draft_rank(draft, expr.index);
  bool fits = rank >= n;
  for (int i = 1; fits && i <= rank; i++)
    fits = i <= n ? same_size(draft_size(draft, expr.index, -i), draft_size(draft, x, -i))
                  : size_is(draft_size(draft, expr.index, -i), 1);
  return fits;
}

/* Reshapes the parameter to the norm's shape. */
static uint32_t parameter(match *match, uint32_t w, uint32_t x, int n) {
  draft *draft = match->draft;
  if (w == IR_NONE || draft_rank(draft, w) == n) return w;
  return draft_reshape(draft, match->root, w, draft_dim(draft, x, draft_rank(draft, x) - n), n);
}

/* True if the factors are `input` and at most one weight. *weight is IR_NONE if none exists. */
static bool one_weight(const match *match, const expr *rest, int n_rest, expr input, uint32_t like,
                       int n, uint32_t *weight) {
  int n_x = 0;
  *weight = IR_NONE;
  for (int i = 0; i < n_rest; i++) {
    if (same_expr(rest[i], input)) {
      n_x++;
    } else if (*weight == IR_NONE && is_parameter(match->draft, rest[i], like, n, match->type)) {
      *weight = rest[i].index;
    } else {
      return false;
    }
  }
  return n_x == 1;
}

static bool is_norm_of(const match *match, uint32_t x, double eps) {
  return eps >= 0 && draft_type(match->draft, x) == match->type &&
         draft_same_shape(match->draft, x, match->out);
}

/* ---------------------------------------------------------------- RMS norm */

static uint32_t add_rms_norm(match *match, uint32_t x, uint32_t weight, int n, double eps) {
  uint32_t w = parameter(match, weight, x, n),
           out = draft_slot_like(match->draft, x, match->root->ins.name);
  ir_rms_norm *op = draft_add(match->draft, match->root, IR_OP_RMS_NORM);
  *op = (ir_rms_norm){.x = x, .weight = w, .n_axes = n, .eps = eps, .out = out};
  draft_note(match->draft, match->root);
  return out;
}

/* Matches x / sqrt(mean(x^2) + eps), with or without a weight. rest: the factors; radicand: the
 * argument of the root. */
static bool find_rms_of(match *match, expr radicand, const expr *rest, int n_rest, uint32_t *out) {
  expr squared, x;
  double eps;
  uint32_t mean_of, weight;
  unsigned axes;
  if (!match_plus_number(match, radicand, &squared, &eps) ||
      !match_mean(match, squared, &mean_of, &axes) ||
      !match_square(match, tensor_expr(mean_of), &x) || x.kind != EXPR_TENSOR)
    return false;
  int n = normalized_axes(match->draft, x.index, axes);
  if (!n || !one_weight(match, rest, n_rest, x, x.index, n, &weight) ||
      !is_norm_of(match, x.index, eps) || !match_is_closed(match))
    return false;
  *out = add_rms_norm(match, x.index, weight, n, eps);
  return true;
}

/* Matches x / sqrt(mean(x^2) + eps) * weight; Zhang and Sennrich,
 * https://arxiv.org/abs/1910.07467. */
bool find_rms_norm(match *match, uint32_t *out) {
  product p;
  expr radicand, rest[MAX_FACTORS];
  int n_rest;
  if (!is_wide_step(match)) return false;
  if (!match_product(match, tensor_expr(match->out), &p) || p.coefficient != 1) return false;
  int covered = match->n_inner;
  for (int k = 0; match_inverse_root(match, &p, k, &radicand, rest, &n_rest);
       k++, match->n_inner = covered)
    if (find_rms_of(match, radicand, rest, n_rest, out)) return true;
  return false;
}

/* ---------------------------------------------------------------- layer norm */

/* Matches expression = values - mean(values). */
static bool match_centred(match *match, expr expression, uint32_t *values, unsigned *axes) {
  expr args[MAX_STEP_ARITY];
  uint32_t mean_of;
  if (!match_step(match, expression, IR_STEP_KIND_SUB, args) || args[0].kind != EXPR_TENSOR)
    return false;
  *values = args[0].index;
  return match_mean(match, args[1], &mean_of, axes) && mean_of == *values;
}

/* Matches expression = the variance of values without correction. */
static bool match_variance(match *match, expr expression, uint32_t *values, unsigned *axes) {
  uint32_t mean_of;
  unsigned inner;
  expr centred;
  const ir_reduce *reduce = expression.kind == EXPR_TENSOR
                                ? draft_op(match->draft, expression.index, IR_OP_REDUCE)
                                : NULL;
  if (reduce && reduce->kind == IR_REDUCE_KIND_VAR) {
    *values = reduce->x;
    return reduce->keepdim && reduce->correction == 0 &&
           draft_type(match->draft, reduce->out) == match->type &&
           reduce_axes(match->draft, reduce, axes) &&
           match_covers(match, match->draft->slots[expression.index].writer);
  }
  return match_mean(match, expression, &mean_of, axes) &&
         match_square(match, tensor_expr(mean_of), &centred) &&
         match_centred(match, centred, values, &inner) && inner == *axes;
}

static uint32_t add_layer_norm(match *match, uint32_t x, uint32_t weight, uint32_t bias, int n,
                               double eps) {
  uint32_t w = parameter(match, weight, x, n), b = parameter(match, bias, x, n),
           out = draft_slot_like(match->draft, x, match->root->ins.name);
  ir_layer_norm *op = draft_add(match->draft, match->root, IR_OP_LAYER_NORM);
  *op = (ir_layer_norm){.x = x, .weight = w, .bias = b, .n_axes = n, .eps = eps, .out = out};
  draft_note(match->draft, match->root);
  return out;
}

/* Finds the factor that is x - mean(x) over these axes. */
static bool match_centred_factor(match *match, const expr *rest, int n_rest, uint32_t x,
                                 unsigned axes, expr *centred) {
  uint32_t of;
  unsigned over;
  int found = 0;
  for (int i = 0; i < n_rest; i++) {
    if (!is_step(match->draft, rest[i], IR_STEP_KIND_SUB)) continue;
    found++;
    *centred = rest[i];
  }
  return found == 1 && match_centred(match, *centred, &of, &over) && of == x && over == axes;
}

static bool find_layer_of(match *match, expr radicand, const expr *rest, int n_rest, expr bias,
                          uint32_t *out) {
  expr variance, centred;
  double eps;
  uint32_t x, weight, b = IR_NONE;
  unsigned axes;
  if (!match_plus_number(match, radicand, &variance, &eps) ||
      !match_variance(match, variance, &x, &axes))
    return false;
  int n = normalized_axes(match->draft, x, axes);
  if (!n || !match_centred_factor(match, rest, n_rest, x, axes, &centred) ||
      !one_weight(match, rest, n_rest, centred, x, n, &weight))
    return false;
  if (bias.kind == EXPR_TENSOR) {
    if (!is_parameter(match->draft, bias, x, n, match->type)) return false;
    b = bias.index;
  }
  if (!is_norm_of(match, x, eps) || !match_is_closed(match)) return false;
  *out = add_layer_norm(match, x, weight, b, n, eps);
  return true;
}

static bool find_scaled(match *match, expr scaled, expr bias, uint32_t *out) {
  product p;
  expr radicand, rest[MAX_FACTORS];
  int n_rest;
  if (!match_product(match, scaled, &p) || p.coefficient != 1) return false;
  int covered = match->n_inner;
  for (int k = 0; match_inverse_root(match, &p, k, &radicand, rest, &n_rest);
       k++, match->n_inner = covered)
    if (find_layer_of(match, radicand, rest, n_rest, bias, out)) return true;
  return false;
}

/* Matches (x - mean(x)) / sqrt(var(x) + eps) * weight + bias; Ba et al.,
 * https://arxiv.org/abs/1607.06450. */
bool find_layer_norm(match *match, uint32_t *out) {
  expr args[MAX_STEP_ARITY], root = tensor_expr(match->out), none = {.kind = EXPR_NUMBER};
  if (!is_wide_step(match)) return false;
  if (!match_step(match, root, IR_STEP_KIND_ADD, args)) return find_scaled(match, root, none, out);
  int covered = match->n_inner;
  for (int i = 0; i < 2; i++, match->n_inner = covered)
    if (args[1 - i].kind == EXPR_TENSOR && find_scaled(match, args[i], args[1 - i], out))
      return true;
  return false;
}

/* ---------------------------------------------------------------- norms in 16 bits */

/* Returns the tensor of this dtype that `tid` is cast from; else IR_NONE. */
static uint32_t narrow_source(const draft *draft, uint32_t tid, dtype type) {
  uint32_t x = cast_of(draft, tid);
  return x != IR_NONE && draft_type(draft, x) == type ? x : IR_NONE;
}

/* Returns the 16-bit source of a parameter. Clears *good if a parameter has none. */
static uint32_t narrow_parameter(const draft *draft, uint32_t w, dtype type, bool *good) {
  uint32_t x = w == IR_NONE ? IR_NONE : narrow_source(draft, w, type);
  *good = *good && (w == IR_NONE || x != IR_NONE);
  return x;
}

static bool find_narrow_rms(match *match, const ir_rms_norm *norm, uint32_t *out) {
  bool good = true;
  uint32_t x = narrow_source(match->draft, norm->x, match->type);
  uint32_t w = narrow_parameter(match->draft, norm->weight, match->type, &good);
  if (x == IR_NONE || !good || !match_is_closed(match)) return false;
  *out = add_rms_norm(match, x, w, norm->n_axes, norm->eps);
  return true;
}

static bool find_narrow_layer(match *match, const ir_layer_norm *norm, uint32_t *out) {
  bool good = true;
  uint32_t x = narrow_source(match->draft, norm->x, match->type);
  uint32_t w = narrow_parameter(match->draft, norm->weight, match->type, &good);
  uint32_t b = narrow_parameter(match->draft, norm->bias, match->type, &good);
  if (x == IR_NONE || !good || !match_is_closed(match)) return false;
  *out = add_layer_norm(match, x, w, b, norm->n_axes, norm->eps);
  return true;
}

/* Matches a norm in f32 of a widened x whose result is narrowed again: a 16-bit norm also computes
 * in f32 and rounds once. */
bool find_norm_in_16_bits(match *match, uint32_t *out) {
  if (match->type != DTYPE_F16 && match->type != DTYPE_BF16) return false;
  uint32_t wide = cast_of(match->draft, match->out);
  if (wide == IR_NONE || draft_type(match->draft, wide) != DTYPE_F32) return false;
  const ir_rms_norm *rms = draft_op(match->draft, wide, IR_OP_RMS_NORM);
  const ir_layer_norm *layer = draft_op(match->draft, wide, IR_OP_LAYER_NORM);
  if ((!rms && !layer) || !match_covers(match, match->draft->slots[wide].writer)) return false;
  return rms ? find_narrow_rms(match, rms, out) : find_narrow_layer(match, layer, out);
}
