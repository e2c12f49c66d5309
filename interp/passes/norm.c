/* Layer norm and RMS norm written out, and norms that a 16-bit module computes in f32.
 *
 * Only f32 and f64 match, where the whole op differs from its parts in the order of sums alone.
 * Hugging Face's modules cast 16-bit activations to f32, normalise, round, and multiply by the
 * weight after: the rounded part becomes a 16-bit norm without a weight (which rounds once as
 * well), and the multiplication stays. */
#include <string.h>

#include "interp/passes/passes.h"

/* How many axes these are, if they are x's last ones and of known sizes; else 0. */
static int normalized_axes(const draft *d, uint32_t x, unsigned axes) {
  int rank = draft_rank(d, x), n = 0;
  while (n < rank && axes & (1u << (rank - 1 - n))) n++;
  if (!n || axes != ((1u << n) - 1) << (rank - n)) return 0;
  for (int i = rank - n; i < rank; i++)
    if (draft_dim(d, x, i)->vid != IR_NONE) return 0;
  return n;
}

/* Has w the shape of x's last n axes, perhaps behind ones? */
static bool is_parameter(const draft *d, expr w, uint32_t x, int n, dtype type) {
  if (w.kind != EXPR_TENSOR || draft_type(d, w.index) != type) return false;
  int rank = draft_rank(d, w.index);
  bool fits = rank >= n;
  for (int i = 1; fits && i <= rank; i++)
    fits = i <= n ? same_size(draft_size(d, w.index, -i), draft_size(d, x, -i))
                  : size_is(draft_size(d, w.index, -i), 1);
  return fits;
}

/* The parameter in the norm's own shape. */
static uint32_t parameter(match *m, uint32_t w, uint32_t x, int n) {
  draft *d = m->d;
  if (w == IR_NONE || draft_rank(d, w) == n) return w;
  return draft_reshape(d, m->root, w, draft_dim(d, x, draft_rank(d, x) - n), n);
}

/* x alone among the factors, or with one that is a weight. *weight: IR_NONE if there is none. */
static bool one_weight(const match *m, const expr *rest, int n_rest, expr x, uint32_t like, int n,
                       uint32_t *weight) {
  int n_x = 0;
  *weight = IR_NONE;
  for (int i = 0; i < n_rest; i++) {
    if (same_expr(rest[i], x)) {
      n_x++;
    } else if (*weight == IR_NONE && is_parameter(m->d, rest[i], like, n, m->type)) {
      *weight = rest[i].index;
    } else {
      return false;
    }
  }
  return n_x == 1;
}

static bool is_norm_of(const match *m, uint32_t x, double eps) {
  return eps >= 0 && draft_type(m->d, x) == m->type && draft_same_shape(m->d, x, m->out);
}

/* ---------------------------------------------------------------- RMS norm */

static uint32_t add_rms_norm(match *m, uint32_t x, uint32_t weight, int n, double eps) {
  uint32_t w = parameter(m, weight, x, n), out = draft_slot_like(m->d, x, m->root->ins.name);
  ir_rms_norm *o = draft_add(m->d, m->root, IR_OP_RMS_NORM);
  *o = (ir_rms_norm){.x = x, .weight = w, .n_axes = n, .eps = eps, .out = out};
  draft_note(m->d, m->root);
  return out;
}

/* x / sqrt(mean(x^2) + eps), with a weight or not, of the factors `rest` and the root `y`. */
static bool find_rms_of(match *m, expr y, const expr *rest, int n_rest, uint32_t *out) {
  expr squared, x;
  double eps;
  uint32_t mean_of, weight;
  unsigned axes;
  if (!take_plus_number(m, y, &squared, &eps) || !take_mean(m, squared, &mean_of, &axes) ||
      !take_square(m, tensor_expr(mean_of), &x) || x.kind != EXPR_TENSOR)
    return false;
  int n = normalized_axes(m->d, x.index, axes);
  if (!n || !one_weight(m, rest, n_rest, x, x.index, n, &weight) || !is_norm_of(m, x.index, eps) ||
      !match_is_closed(m))
    return false;
  *out = add_rms_norm(m, x.index, weight, n, eps);
  return true;
}

/* x / sqrt(mean(x^2) + eps) * weight; Zhang and Sennrich, https://arxiv.org/abs/1910.07467. */
bool find_rms_norm(match *m, uint32_t *out) {
  product p;
  expr y, rest[MAX_FACTORS];
  int n_rest;
  if (!is_wide_step(m)) return false;
  if (!take_product(m, tensor_expr(m->out), &p) || p.coefficient != 1) return false;
  int covered = m->n_inner;
  for (int k = 0; take_inverse_root(m, &p, k, &y, rest, &n_rest); k++, m->n_inner = covered)
    if (find_rms_of(m, y, rest, n_rest, out)) return true;
  return false;
}

/* ---------------------------------------------------------------- layer norm */

/* e = x - mean(x) */
static bool take_centred(match *m, expr e, uint32_t *x, unsigned *axes) {
  expr args[MAX_STEP_ARITY];
  uint32_t mean_of;
  if (!take_step(m, e, IR_STEP_KIND_SUB, args) || args[0].kind != EXPR_TENSOR) return false;
  *x = args[0].index;
  return take_mean(m, args[1], &mean_of, axes) && mean_of == *x;
}

/* e = the variance of x without correction. */
static bool take_variance(match *m, expr e, uint32_t *x, unsigned *axes) {
  uint32_t mean_of;
  unsigned inner;
  expr d;
  const ir_reduce *r = e.kind == EXPR_TENSOR ? draft_op(m->d, e.index, IR_OP_REDUCE) : NULL;
  if (r && r->kind == IR_REDUCE_KIND_VAR) {
    *x = r->x;
    return r->keepdim && r->correction == 0 && draft_type(m->d, r->out) == m->type &&
           reduce_axes(m->d, r, axes) && match_covers(m, m->d->slots[e.index].writer);
  }
  return take_mean(m, e, &mean_of, axes) && take_square(m, tensor_expr(mean_of), &d) &&
         take_centred(m, d, x, &inner) && inner == *axes;
}

static uint32_t add_layer_norm(match *m, uint32_t x, uint32_t weight, uint32_t bias, int n,
                               double eps) {
  uint32_t w = parameter(m, weight, x, n), b = parameter(m, bias, x, n),
           out = draft_slot_like(m->d, x, m->root->ins.name);
  ir_layer_norm *o = draft_add(m->d, m->root, IR_OP_LAYER_NORM);
  *o = (ir_layer_norm){.x = x, .weight = w, .bias = b, .n_axes = n, .eps = eps, .out = out};
  draft_note(m->d, m->root);
  return out;
}

/* The factor that is x - mean(x) over these axes. */
static bool take_centred_factor(match *m, const expr *rest, int n_rest, uint32_t x, unsigned axes,
                                expr *centred) {
  uint32_t of;
  unsigned over;
  int found = 0;
  for (int i = 0; i < n_rest; i++) {
    if (!is_step(m->d, rest[i], IR_STEP_KIND_SUB)) continue;
    found++;
    *centred = rest[i];
  }
  return found == 1 && take_centred(m, *centred, &of, &over) && of == x && over == axes;
}

static bool find_layer_of(match *m, expr y, const expr *rest, int n_rest, expr bias,
                          uint32_t *out) {
  expr variance, centred;
  double eps;
  uint32_t x, weight, b = IR_NONE;
  unsigned axes;
  if (!take_plus_number(m, y, &variance, &eps) || !take_variance(m, variance, &x, &axes))
    return false;
  int n = normalized_axes(m->d, x, axes);
  if (!n || !take_centred_factor(m, rest, n_rest, x, axes, &centred) ||
      !one_weight(m, rest, n_rest, centred, x, n, &weight))
    return false;
  if (bias.kind == EXPR_TENSOR) {
    if (!is_parameter(m->d, bias, x, n, m->type)) return false;
    b = bias.index;
  }
  if (!is_norm_of(m, x, eps) || !match_is_closed(m)) return false;
  *out = add_layer_norm(m, x, weight, b, n, eps);
  return true;
}

static bool find_scaled(match *m, expr scaled, expr bias, uint32_t *out) {
  product p;
  expr y, rest[MAX_FACTORS];
  int n_rest;
  if (!take_product(m, scaled, &p) || p.coefficient != 1) return false;
  int covered = m->n_inner;
  for (int k = 0; take_inverse_root(m, &p, k, &y, rest, &n_rest); k++, m->n_inner = covered)
    if (find_layer_of(m, y, rest, n_rest, bias, out)) return true;
  return false;
}

/* (x - mean(x)) / sqrt(var(x) + eps) * weight + bias; Ba et al., https://arxiv.org/abs/1607.06450.
 */
bool find_layer_norm(match *m, uint32_t *out) {
  expr args[MAX_STEP_ARITY], root = tensor_expr(m->out), none = {.kind = EXPR_NUMBER};
  if (!is_wide_step(m)) return false;
  if (!take_step(m, root, IR_STEP_KIND_ADD, args)) return find_scaled(m, root, none, out);
  int covered = m->n_inner;
  for (int i = 0; i < 2; i++, m->n_inner = covered)
    if (args[1 - i].kind == EXPR_TENSOR && find_scaled(m, args[i], args[1 - i], out)) return true;
  return false;
}

/* ---------------------------------------------------------------- norms in 16 bits */

/* The tensor of this dtype that `tid`, in f32, is a copy of; IR_NONE if it is none. */
static uint32_t narrow_source(const draft *d, uint32_t tid, dtype type) {
  uint32_t x = cast_of(d, tid);
  return x != IR_NONE && draft_type(d, x) == type ? x : IR_NONE;
}

/* The parameter in 16 bits; *good: there is none, or it has a source. */
static uint32_t narrow_parameter(const draft *d, uint32_t w, dtype type, bool *good) {
  uint32_t x = w == IR_NONE ? IR_NONE : narrow_source(d, w, type);
  *good = *good && (w == IR_NONE || x != IR_NONE);
  return x;
}

static bool find_narrow_rms(match *m, const ir_rms_norm *norm, uint32_t *out) {
  bool good = true;
  uint32_t x = narrow_source(m->d, norm->x, m->type);
  uint32_t w = narrow_parameter(m->d, norm->weight, m->type, &good);
  if (x == IR_NONE || !good || !match_is_closed(m)) return false;
  *out = add_rms_norm(m, x, w, norm->n_axes, norm->eps);
  return true;
}

static bool find_narrow_layer(match *m, const ir_layer_norm *norm, uint32_t *out) {
  bool good = true;
  uint32_t x = narrow_source(m->d, norm->x, m->type);
  uint32_t w = narrow_parameter(m->d, norm->weight, m->type, &good);
  uint32_t b = narrow_parameter(m->d, norm->bias, m->type, &good);
  if (x == IR_NONE || !good || !match_is_closed(m)) return false;
  *out = add_layer_norm(m, x, w, b, norm->n_axes, norm->eps);
  return true;
}

/* A norm in f32 of a widened x whose result is narrowed again: 16-bit norms compute in f32 and
 * round once. */
bool find_norm_in_16_bits(match *m, uint32_t *out) {
  if (m->type != DTYPE_F16 && m->type != DTYPE_BF16) return false;
  uint32_t wide = cast_of(m->d, m->out);
  if (wide == IR_NONE || draft_type(m->d, wide) != DTYPE_F32) return false;
  const ir_rms_norm *rms = draft_op(m->d, wide, IR_OP_RMS_NORM);
  const ir_layer_norm *layer = draft_op(m->d, wide, IR_OP_LAYER_NORM);
  if ((!rms && !layer) || !match_covers(m, m->d->slots[wide].writer)) return false;
  return rms ? find_narrow_rms(m, rms, out) : find_narrow_layer(m, layer, out);
}
