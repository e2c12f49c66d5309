/* Attention written out: softmax(q k^T * scale + mask) v, and what its mask really is. In the
 * 16-bit floats torch rounds scores and probabilities in between; the whole op does not, like
 * torch's own. */
#include "interp/passes/attention.h"

#include <math.h>
#include <string.h>

#include "interp/passes/passes.h"

typedef struct reader {
  match *m;
  scores s;
  int depth;
} reader;

enum { MAX_SCORES_DEPTH = 24 };

/* ---------------------------------------------------------------- scores */

/* Scores may be in the match's dtype, and in 16 bits in f32 as well. */
static bool is_score_type(const match *m, dtype t) {
  bool wide = m->type == DTYPE_F32 || m->type == DTYPE_F64;
  return t == m->type || (!wide && t == DTYPE_F32);
}

/* A tensor of the expression's shape. */
static uint32_t shape_of(expr e) { return e.kind == EXPR_STEP ? result_of(e.node) : e.index; }

static bool read_scores(reader *r, expr e);

static bool read_product(reader *r, expr a, expr b, bool divided) {
  double n;
  if (!expr_number(r->m->d, b, &n)) {
    if (divided || !expr_number(r->m->d, a, &n)) return false;
    a = b;
  }
  if (divided && n == 0) return false;
  r->s.scale = divided ? r->s.scale / n : r->s.scale * n;
  return read_scores(r, a);
}

/* Scores plus a bias: of the two the scores are what can be read as such. */
static bool read_sum(reader *r, uint32_t at, expr a, expr b) {
  if (r->s.scale != 1 || a.kind != EXPR_TENSOR || b.kind != EXPR_TENSOR) return false;
  const reader saved = *r;
  int covered = r->m->n_inner;
  for (int i = 0; i < 2; i++) {
    expr inner = i ? b : a, bias = i ? a : b;
    if (!draft_same_shape(r->m->d, inner.index, at) || r->s.n_added == MAX_ADDED) continue;
    r->s.added[r->s.n_added] = bias.index;
    r->s.added_at[r->s.n_added++] = at;
    if (read_scores(r, inner)) return true;
    *r = saved;
    r->m->n_inner = covered;
  }
  return false;
}

static bool read_where(reader *r, uint32_t at, const expr *args) {
  const draft *d = r->m->d;
  scores *s = &r->s;
  if (s->condition != IR_NONE || s->n_added || s->scale != 1 || args[0].kind != EXPR_TENSOR)
    return false;
  s->hides = expr_number(d, args[1], &s->fill);
  if (!s->hides && !expr_number(d, args[2], &s->fill)) return false;
  if (draft_type(d, args[0].index) != DTYPE_BOOL) return false;
  s->condition = args[0].index;
  s->condition_at = at;
  return read_scores(r, s->hides ? args[2] : args[1]) && !s->n_added;
}

static bool read_step(reader *r, expr e, ir_step_kind kind, const expr *args) {
  switch (kind) {
    case IR_STEP_KIND_CAST:
    case IR_STEP_KIND_COPY:
      return read_scores(r, args[0]);
    case IR_STEP_KIND_MUL:
      return read_product(r, args[0], args[1], false);
    case IR_STEP_KIND_DIV:
      return read_product(r, args[0], args[1], true);
    case IR_STEP_KIND_ADD:
      return read_sum(r, shape_of(e), args[0], args[1]);
    case IR_STEP_KIND_WHERE:
      return read_where(r, shape_of(e), args);
    default:
      return false;
  }
}

/* x without a number that it alone is multiplied by, perhaps before a change of its leading sizes.
 */
static uint32_t unscaled(reader *r, uint32_t x) {
  const draft *d = r->m->d;
  int covered = r->m->n_inner;
  for (uint32_t y = x; d->slots[y].writer && expr_readers(d, tensor_expr(y)) == 1;) {
    expr args[MAX_STEP_ARITY];
    ir_step_kind kind;
    dtype type;
    double n;
    if (!match_covers(r->m, d->slots[y].writer)) break;
    bool is_step = open_step(d, tensor_expr(y), &kind, args, &type);
    bool divides = is_step && kind == IR_STEP_KIND_DIV;
    if (is_step && kind == IR_STEP_KIND_MUL && expr_number(d, args[0], &n)) {
      const expr number = args[0];
      args[0] = args[1];
      args[1] = number;
    }
    if ((divides || (is_step && kind == IR_STEP_KIND_MUL)) && args[0].kind == EXPR_TENSOR &&
        expr_number(d, args[1], &n) && n != 0) {
      r->s.scale *= divides ? 1 / n : n;
      return args[0].index;
    }
    const ir_reshape *o = draft_op(d, y, IR_OP_RESHAPE);
    if (!o || !draft_same_matrix(d, y, o->x)) break;
    y = o->x;
  }
  r->m->n_inner = covered;
  return x;
}

static bool read_matmul(reader *r, const ir_matmul *o) {
  if (draft_rank(r->m->d, o->out) < 3) return false;
  if (o->bias != IR_NONE) {
    if (r->s.scale != 1 || o->beta != 1 || r->s.n_added == MAX_ADDED) return false;
    r->s.added[r->s.n_added] = o->bias;
    r->s.added_at[r->s.n_added++] = o->out;
  }
  r->s.scale *= o->alpha;
  r->s.q = unscaled(r, o->a);
  r->s.kt = unscaled(r, o->b);
  return true;
}

/* Follows e down to the product of q and k. */
static bool read_node(reader *r, expr e) {
  const draft *d = r->m->d;
  expr args[MAX_STEP_ARITY];
  ir_step_kind kind;
  dtype type;
  if (open_step(d, e, &kind, args, &type)) return read_step(r, e, kind, args);
  const ir_reshape *reshape = draft_op(d, e.index, IR_OP_RESHAPE);
  if (reshape)
    return draft_same_matrix(d, e.index, reshape->x) && read_scores(r, tensor_expr(reshape->x));
  const ir_expand *expand = draft_op(d, e.index, IR_OP_EXPAND);
  if (expand)
    return draft_same_shape(d, e.index, expand->x) && read_scores(r, tensor_expr(expand->x));
  const ir_copy *copy = draft_op(d, e.index, IR_OP_COPY);
  if (copy) return read_scores(r, tensor_expr(copy->x));
  const ir_matmul *matmul = draft_op(d, e.index, IR_OP_MATMUL);
  return matmul && read_matmul(r, matmul);
}

static bool read_scores(reader *r, expr e) {
  draft_node *n = e.kind == EXPR_STEP     ? e.node
                  : e.kind == EXPR_TENSOR ? r->m->d->slots[e.index].writer
                                          : NULL;
  if (!n || !is_score_type(r->m, expr_type(r->m->d, e)) || !match_covers(r->m, n)) return false;
  if (r->depth == MAX_SCORES_DEPTH) return false;
  r->depth++;
  bool good = read_node(r, e);
  r->depth--;
  return good;
}

/* ---------------------------------------------------------------- probabilities */

/* The operands of a step, whatever its dtype; covered. */
static bool take_any(match *m, expr e, ir_step_kind kind, expr *args) {
  ir_step_kind is;
  dtype type;
  if (!open_step(m->d, e, &is, args, &type) || is != kind) return false;
  return match_covers(m, e.kind == EXPR_STEP ? e.node : m->d->slots[e.index].writer);
}

static bool is_zero(const draft *d, expr e) {
  double n;
  if (e.kind == EXPR_TENSOR) return uniform_value(d, e.index, &n) && n == 0;
  return expr_number(d, e, &n) && n == 0;
}

/* x of where(not any(x's scores != -inf), 0, x) with x = softmax(scores), as _safe_softmax
 * decomposes. */
static bool take_safe(match *m, const expr *where, expr *x) {
  const draft *d = m->d;
  expr args[MAX_STEP_ARITY];
  double n;
  unsigned axes;
  const ir_softmax *s =
      where[2].kind == EXPR_TENSOR ? draft_op(d, where[2].index, IR_OP_SOFTMAX) : NULL;
  if (!s || !is_zero(d, where[1]) || !take_any(m, where[0], IR_STEP_KIND_LOGICAL_NOT, args))
    return false;
  const ir_reduce *r =
      args[0].kind == EXPR_TENSOR ? draft_op(d, args[0].index, IR_OP_REDUCE) : NULL;
  if (!r || r->kind != IR_REDUCE_KIND_ANY || !r->keepdim || !reduce_axes(d, r, &axes) ||
      axes != 1u << (draft_rank(d, r->x) - 1) || !match_covers(m, d->slots[r->out].writer))
    return false;
  if (!take_any(m, tensor_expr(r->x), IR_STEP_KIND_LOGICAL_NOT, args) ||
      !take_any(m, args[0], IR_STEP_KIND_EQ, args) || !expr_number(d, args[1], &n))
    return false;
  *x = where[2];
  return n == -INFINITY && same_expr(args[0], tensor_expr(s->x));
}

/* What a view that keeps the last two sizes is made of; IR_NONE. */
static uint32_t view_of_matrices(const draft *d, uint32_t x) {
  const ir_reshape *r = draft_op(d, x, IR_OP_RESHAPE);
  const ir_expand *e = draft_op(d, x, IR_OP_EXPAND);
  const ir_copy *c = draft_op(d, x, IR_OP_COPY);
  if (r) return draft_same_matrix(d, x, r->x) ? r->x : IR_NONE;
  if (e) return draft_same_shape(d, x, e->x) ? e->x : IR_NONE;
  return c ? c->x : IR_NONE;
}

/* The softmax that x is, behind casts and views. */
static bool take_probabilities(match *m, uint32_t x, found_attention *f) {
  const draft *d = m->d;
  dtype wide = m->type == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
  for (int i = 0; i < MAX_SCORES_DEPTH; i++) {
    expr args[MAX_STEP_ARITY], e = tensor_expr(x);
    draft_node *n = d->slots[x].writer;
    if (!n || (draft_type(d, x) != m->type && draft_type(d, x) != wide) || !match_covers(m, n))
      return false;
    const ir_softmax *s = draft_op(d, x, IR_OP_SOFTMAX);
    if (s) {
      int rank = draft_rank(d, x);
      f->probabilities = x;
      return !s->log && (s->axis == rank - 1 || s->axis == -1);
    }
    if (is_step(d, e, IR_STEP_KIND_WHERE) && !f->safe) {
      if (!take_any(m, e, IR_STEP_KIND_WHERE, args) || !take_safe(m, args, &e)) return false;
      f->safe = true;
      x = e.index;
      continue;
    }
    uint32_t cast = cast_of(d, x);
    x = cast != IR_NONE ? cast : view_of_matrices(d, x);
    if (x == IR_NONE) return false;
  }
  return false;
}

/* ---------------------------------------------------------------- the mask */

/* Can a mask that was applied to scores of the leading sizes `at` be applied under `lead`? Those
 * are equal, or it is the same for all leading indices, or has an entry for each. */
static bool can_view(const draft *d, uint32_t mask, uint32_t at, uint32_t lead) {
  return draft_same_lead(d, at, lead) || is_one_mask(d, mask) ||
         same_size(draft_numel(d, mask, 2), draft_numel(d, lead, 2));
}

/* Is this constant 0 or -inf in every element? */
static bool is_zero_or_hidden(const draft *d, uint32_t tid) {
  tensor t;
  const draft_slot *s = &d->slots[tid];
  if (s->kind != SLOT_CONSTANT || !s->data || !draft_fixed(d, tid, &t)) return false;
  int64_t n = tensor_numel(&t);
  for (int64_t i = 0; i < n; i++) {
    double x = element_of(t.type, s->data, i);
    if (x != 0 && x != -INFINITY) return false;
  }
  return true;
}

/* The BOOL tensor of a bias that is 0 where it is true and -inf elsewhere; or that constant. */
static uint32_t seen_of(const draft *d, uint32_t bias) {
  expr args[MAX_STEP_ARITY];
  ir_step_kind kind;
  dtype type;
  double a, b;
  uint32_t x = draft_through(d, bias, 0), c = constant_behind(d, bias);
  if (open_step(d, tensor_expr(x), &kind, args, &type) && kind == IR_STEP_KIND_WHERE &&
      args[0].kind == EXPR_TENSOR && draft_same_shape(d, args[0].index, x) &&
      expr_number(d, args[1], &a) && expr_number(d, args[2], &b))
    return a == 0 && b == -INFINITY ? args[0].index : IR_NONE;
  return c != IR_NONE && is_zero_or_hidden(d, c) ? bias : IR_NONE;
}

static bool choose_added(const match *m, found_attention *f) {
  const draft *d = m->d;
  const scores *s = &f->s;
  for (int i = 0; i < s->n_added; i++)
    if (!dtype_is_float(draft_type(d, s->added[i])) ||
        !can_view(d, s->added[i], s->added_at[i], f->probabilities))
      return false;
  f->seen = f->safe && s->n_added == 1 ? seen_of(d, s->added[0]) : IR_NONE;
  f->mask = f->seen == IR_NONE ? MASK_ADDED : MASK_SEEN;
  if (f->mask == MASK_SEEN) return draft_same_lead(d, s->added_at[0], f->probabilities);
  for (int i = 0; i < s->n_added; i++)
    if (draft_type(d, s->added[i]) != m->type) return false;
  return true;
}

static bool choose_mask(const match *m, found_attention *f) {
  const scores *s = &f->s;
  if (s->condition != IR_NONE) {
    f->mask = MASK_CONDITION;
    return !f->safe && can_view(m->d, s->condition, s->condition_at, f->probabilities);
  }
  f->mask = MASK_NONE;
  return !s->n_added || choose_added(m, f);
}

/* ---------------------------------------------------------------- the whole */

static bool fits_together(const match *m, const found_attention *f) {
  const draft *d = m->d;
  const uint32_t operands[] = {f->s.q, f->s.kt, f->v};
  if (draft_rank(d, f->probabilities) < 3 || !isfinite(f->s.scale)) return false;
  for (int i = 0; i < 3; i++)
    if (draft_type(d, operands[i]) != m->type || draft_rank(d, operands[i]) < 2 ||
        !lead_fits(d, operands[i], f->probabilities))
      return false;
  return true;
}

bool find_attention(match *m, uint32_t *out) {
  const ir_matmul *o = m->root->ins.op;
  found_attention f = {.s = {.scale = 1, .condition = IR_NONE, .fill = -INFINITY}};
  if (m->root->ins.op_type != IR_OP_MATMUL || o->bias != IR_NONE || o->alpha != 1) return false;
  if (!dtype_is_float(m->type) || draft_rank(m->d, m->out) < 3) return false;
  f.v = o->b;
  if (!take_probabilities(m, o->a, &f)) return false;
  reader r = {.m = m, .s = f.s};
  const ir_softmax *softmax = draft_op(m->d, f.probabilities, IR_OP_SOFTMAX);
  if (!read_scores(&r, tensor_expr(softmax->x))) return false;
  f.s = r.s;
  if (!fits_together(m, &f) || !choose_mask(m, &f) || !match_is_closed(m)) return false;
  *out = add_attention(m, &f);
  return true;
}
