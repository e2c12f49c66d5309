/* Finds attention that is written out as several ops, softmax(q k^T * scale + mask) v, and the kind
 * of its mask. In 16-bit floats the written form rounds scores and probabilities; the fused op does
 * not, like torch's own fused op. */
#include "interp/passes/attention.h"

#include <math.h>
#include <string.h>

#include "interp/passes/passes.h"

typedef struct reader {
  match *match;
  scores scores;
  int depth;
} reader;

enum { MAX_SCORES_DEPTH = 24 };

/* ---------------------------------------------------------------- scores */

/* True if scores may have this dtype: the match's, or f32 if the match is in 16 bits. */
static bool is_score_type(const match *match, dtype t) {
  bool wide = match->type == DTYPE_F32 || match->type == DTYPE_F64;
  return t == match->type || (!wide && t == DTYPE_F32);
}

/* Returns a tensor with the expression's shape. */
static uint32_t tensor_of_expr(expr expr) {
  return expr.kind == EXPR_STEP ? result_of(expr.node) : expr.index;
}

static bool read_scores(reader *reader, expr expr);

static bool read_product(reader *reader, expr left, expr right, bool divided) {
  double n;
  if (!expr_number(reader->match->draft, right, &n)) {
    if (divided || !expr_number(reader->match->draft, left, &n)) return false;
    left = right;
  }
  if (divided && n == 0) return false;
  reader->scores.scale = divided ? reader->scores.scale / n : reader->scores.scale * n;
  return read_scores(reader, left);
}

/* Matches scores plus a bias. Either operand may be the scores. */
static bool read_sum(reader *source, uint32_t at, expr left, expr right) {
  if (source->scores.scale != 1 || left.kind != EXPR_TENSOR || right.kind != EXPR_TENSOR)
    return false;
  const reader saved = *source;
  int covered = source->match->n_inner;
  for (int i = 0; i < 2; i++) {
    expr inner = i ? right : left, bias = i ? left : right;
    if (!draft_same_shape(source->match->draft, inner.index, at) ||
        source->scores.n_added == MAX_ADDED)
      continue;
    source->scores.added[source->scores.n_added] = bias.index;
    source->scores.added_at[source->scores.n_added++] = at;
    if (read_scores(source, inner)) return true;
    *source = saved;
    source->match->n_inner = covered;
  }
  return false;
}

static bool read_where(reader *reader, uint32_t at, const expr *args) {
  const draft *draft = reader->match->draft;
  scores *scores = &reader->scores;
  if (scores->condition != IR_NONE || scores->n_added || scores->scale != 1 ||
      args[0].kind != EXPR_TENSOR)
    return false;
  scores->hides = expr_number(draft, args[1], &scores->fill);
  if (!scores->hides && !expr_number(draft, args[2], &scores->fill)) return false;
  if (draft_type(draft, args[0].index) != DTYPE_BOOL) return false;
  scores->condition = args[0].index;
  scores->condition_at = at;
  return read_scores(reader, scores->hides ? args[2] : args[1]) && !scores->n_added;
}

static bool read_step(reader *reader, expr expression, ir_step_kind kind, const expr *args) {
  switch (kind) {
    case IR_STEP_KIND_CAST:
    case IR_STEP_KIND_COPY:
      return read_scores(reader, args[0]);
    case IR_STEP_KIND_MUL:
      return read_product(reader, args[0], args[1], false);
    case IR_STEP_KIND_DIV:
      return read_product(reader, args[0], args[1], true);
    case IR_STEP_KIND_ADD:
      return read_sum(reader, tensor_of_expr(expression), args[0], args[1]);
    case IR_STEP_KIND_WHERE:
      return read_where(reader, tensor_of_expr(expression), args);
    default:
      return false;
  }
}

/* If x is y times or divided by a number, and nothing else reads x, moves the number to
 * scores.scale and returns y; else returns x. Looks through changes of the leading sizes. */
static uint32_t unscaled(reader *reader, uint32_t x) {
  const draft *draft = reader->match->draft;
  int covered = reader->match->n_inner;
  for (uint32_t y = x; draft->slots[y].writer && expr_readers(draft, tensor_expr(y)) == 1;) {
    expr args[MAX_STEP_ARITY];
    ir_step_kind kind;
    dtype type;
    double n;
    if (!match_covers(reader->match, draft->slots[y].writer)) break;
    bool is_step = open_step(draft, tensor_expr(y), &kind, args, &type);
    bool divides = is_step && kind == IR_STEP_KIND_DIV;
    if (is_step && kind == IR_STEP_KIND_MUL && expr_number(draft, args[0], &n)) {
      const expr number = args[0];
      args[0] = args[1];
      args[1] = number;
    }
    if ((divides || (is_step && kind == IR_STEP_KIND_MUL)) && args[0].kind == EXPR_TENSOR &&
        expr_number(draft, args[1], &n) && n != 0) {
      reader->scores.scale *= divides ? 1 / n : n;
      return args[0].index;
    }
    const ir_reshape *op = draft_op(draft, y, IR_OP_RESHAPE);
    if (!op || !draft_same_matrix(draft, y, op->x)) break;
    y = op->x;
  }
  reader->match->n_inner = covered;
  return x;
}

static bool read_matmul(reader *reader, const ir_matmul *op) {
  if (draft_rank(reader->match->draft, op->out) < 3) return false;
  if (op->bias != IR_NONE) {
    if (reader->scores.scale != 1 || op->beta != 1 || reader->scores.n_added == MAX_ADDED)
      return false;
    reader->scores.added[reader->scores.n_added] = op->bias;
    reader->scores.added_at[reader->scores.n_added++] = op->out;
  }
  reader->scores.scale *= op->alpha;
  reader->scores.q = unscaled(reader, op->a);
  reader->scores.kt = unscaled(reader, op->b);
  return true;
}

/* Follows the expression to the product of q and k. */
static bool read_score_node(reader *reader, expr expression) {
  const draft *draft = reader->match->draft;
  expr args[MAX_STEP_ARITY];
  ir_step_kind kind;
  dtype type;
  if (open_step(draft, expression, &kind, args, &type))
    return read_step(reader, expression, kind, args);
  const ir_reshape *reshape = draft_op(draft, expression.index, IR_OP_RESHAPE);
  if (reshape)
    return draft_same_matrix(draft, expression.index, reshape->x) &&
           read_scores(reader, tensor_expr(reshape->x));
  const ir_expand *expand = draft_op(draft, expression.index, IR_OP_EXPAND);
  if (expand)
    return draft_same_shape(draft, expression.index, expand->x) &&
           read_scores(reader, tensor_expr(expand->x));
  const ir_copy *copy = draft_op(draft, expression.index, IR_OP_COPY);
  if (copy) return read_scores(reader, tensor_expr(copy->x));
  const ir_matmul *matmul = draft_op(draft, expression.index, IR_OP_MATMUL);
  return matmul && read_matmul(reader, matmul);
}

static bool read_scores(reader *reader, expr expr) {
  draft_node *node = expr.kind == EXPR_STEP     ? expr.node
                     : expr.kind == EXPR_TENSOR ? reader->match->draft->slots[expr.index].writer
                                                : NULL;
  if (!node || !is_score_type(reader->match, expr_type(reader->match->draft, expr)) ||
      !match_covers(reader->match, node))
    return false;
  if (reader->depth == MAX_SCORES_DEPTH) return false;
  reader->depth++;
  bool good = read_score_node(reader, expr);
  reader->depth--;
  return good;
}

/* ---------------------------------------------------------------- probabilities */

/* Works like match_step for a step of any dtype. */
static bool match_step_of_any_dtype(match *match, expr expression, ir_step_kind kind, expr *args) {
  ir_step_kind is;
  dtype type;
  if (!open_step(match->draft, expression, &is, args, &type) || is != kind) return false;
  return match_covers(match, expression.kind == EXPR_STEP
                                 ? expression.node
                                 : match->draft->slots[expression.index].writer);
}

static bool is_zero_expr(const draft *draft, expr expr) {
  double n;
  if (expr.kind == EXPR_TENSOR) return uniform_value(draft, expr.index, &n) && n == 0;
  return expr_number(draft, expr, &n) && n == 0;
}

/* Matches _safe_softmax: where(not any(not scores == -inf), 0, input), input = softmax(scores), or,
 * as ONNX models write it, where(isnan(input), 0, input). The new op then keeps NaN of NaN scores.
 */
static bool match_safe_softmax(match *match, const expr *where, expr *input) {
  const draft *draft = match->draft;
  expr args[MAX_STEP_ARITY];
  double n;
  unsigned axes;
  const ir_softmax *softmax =
      where[2].kind == EXPR_TENSOR ? draft_op(draft, where[2].index, IR_OP_SOFTMAX) : NULL;
  if (!softmax || !is_zero_expr(draft, where[1])) return false;
  *input = where[2];
  if (match_step_of_any_dtype(match, where[0], IR_STEP_KIND_ISNAN, args))
    return same_expr(args[0], where[2]);
  if (!match_step_of_any_dtype(match, where[0], IR_STEP_KIND_LOGICAL_NOT, args)) return false;
  const ir_reduce *reduce =
      args[0].kind == EXPR_TENSOR ? draft_op(draft, args[0].index, IR_OP_REDUCE) : NULL;
  if (!reduce || reduce->kind != IR_REDUCE_KIND_ANY || !reduce->keepdim ||
      !reduce_axes(draft, reduce, &axes) || axes != 1u << (draft_rank(draft, reduce->x) - 1) ||
      !match_covers(match, draft->slots[reduce->out].writer))
    return false;
  if (!match_step_of_any_dtype(match, tensor_expr(reduce->x), IR_STEP_KIND_LOGICAL_NOT, args) ||
      !match_step_of_any_dtype(match, args[0], IR_STEP_KIND_EQ, args) ||
      !expr_number(draft, args[1], &n))
    return false;
  return n == -INFINITY && same_expr(args[0], tensor_expr(softmax->x));
}

/* Returns the source of a view that keeps the last two sizes; else IR_NONE. */
static uint32_t view_of_matrices(const draft *draft, uint32_t x) {
  const ir_reshape *reshape = draft_op(draft, x, IR_OP_RESHAPE);
  const ir_expand *expand = draft_op(draft, x, IR_OP_EXPAND);
  const ir_copy *copy = draft_op(draft, x, IR_OP_COPY);
  if (reshape) return draft_same_matrix(draft, x, reshape->x) ? reshape->x : IR_NONE;
  if (expand) return draft_same_shape(draft, x, expand->x) ? expand->x : IR_NONE;
  return copy ? copy->x : IR_NONE;
}

/* Finds the softmax that x is, through casts and views. */
static bool match_probabilities(match *match, uint32_t x, found_attention *attention) {
  const draft *draft = match->draft;
  dtype wide = match->type == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
  for (int i = 0; i < MAX_SCORES_DEPTH; i++) {
    expr args[MAX_STEP_ARITY], expression = tensor_expr(x);
    draft_node *node = draft->slots[x].writer;
    if (!node || (draft_type(draft, x) != match->type && draft_type(draft, x) != wide) ||
        !match_covers(match, node))
      return false;
    const ir_softmax *softmax = draft_op(draft, x, IR_OP_SOFTMAX);
    if (softmax) {
      int rank = draft_rank(draft, x);
      attention->probabilities = x;
      return !softmax->log && (softmax->axis == rank - 1 || softmax->axis == -1);
    }
    if (is_step(draft, expression, IR_STEP_KIND_WHERE) && !attention->safe) {
      if (!match_step_of_any_dtype(match, expression, IR_STEP_KIND_WHERE, args) ||
          !match_safe_softmax(match, args, &expression))
        return false;
      attention->safe = true;
      x = expression.index;
      continue;
    }
    uint32_t cast = cast_of(draft, x);
    x = cast != IR_NONE ? cast : view_of_matrices(draft, x);
    if (x == IR_NONE) return false;
  }
  return false;
}

/* ---------------------------------------------------------------- the mask */

/* A mask was added to scores with the leading sizes of `at`. True if it can be applied to scores
 * with the leading sizes of `lead`: these sizes are equal, or the mask is the same for all leading
 * indices, or it has one matrix for each. */
static bool can_view(const draft *draft, uint32_t mask, uint32_t at, uint32_t lead) {
  return draft_same_lead(draft, at, lead) || is_one_mask(draft, mask) ||
         same_size(draft_numel(draft, mask, 2), draft_numel(draft, lead, 2));
}

/* True for a constant whose elements are all 0 or -inf. */
static bool is_zero_or_hidden(const draft *draft, uint32_t tid) {
  tensor tensor;
  const draft_slot *slot = &draft->slots[tid];
  if (slot->kind != SLOT_CONSTANT || !slot->data || !draft_fixed(draft, tid, &tensor)) return false;
  int64_t n = tensor_numel(&tensor);
  for (int64_t i = 0; i < n; i++) {
    double x = element_of(tensor.type, slot->data, i);
    if (x != 0 && x != -INFINITY) return false;
  }
  return true;
}

/* Returns an equivalent mask of visible keys: a BOOL tensor if the bias is 0 where it is true and
 * -inf elsewhere; the bias if it is a constant of only 0 and -inf; else IR_NONE. */
static uint32_t seen_of(const draft *draft, uint32_t bias) {
  expr args[MAX_STEP_ARITY];
  ir_step_kind kind;
  dtype type;
  double a, b;
  uint32_t x = draft_through(draft, bias, 0), c = constant_origin(draft, bias);
  if (open_step(draft, tensor_expr(x), &kind, args, &type) && kind == IR_STEP_KIND_WHERE &&
      args[0].kind == EXPR_TENSOR && draft_same_shape(draft, args[0].index, x) &&
      expr_number(draft, args[1], &a) && expr_number(draft, args[2], &b))
    return a == 0 && b == -INFINITY ? args[0].index : IR_NONE;
  return c != IR_NONE && is_zero_or_hidden(draft, c) ? bias : IR_NONE;
}

static bool choose_added(const match *match, found_attention *attention) {
  const draft *draft = match->draft;
  const scores *scores = &attention->scores;
  for (int i = 0; i < scores->n_added; i++)
    if (!dtype_is_float(draft_type(draft, scores->added[i])) ||
        !can_view(draft, scores->added[i], scores->added_at[i], attention->probabilities))
      return false;
  attention->seen =
      attention->safe && scores->n_added == 1 ? seen_of(draft, scores->added[0]) : IR_NONE;
  attention->mask = attention->seen == IR_NONE ? MASK_ADDED : MASK_SEEN;
  if (attention->mask == MASK_SEEN)
    return draft_same_lead(draft, scores->added_at[0], attention->probabilities);
  for (int i = 0; i < scores->n_added; i++)
    if (draft_type(draft, scores->added[i]) != match->type) return false;
  return true;
}

static bool choose_mask(const match *match, found_attention *attention) {
  const scores *scores = &attention->scores;
  if (scores->condition != IR_NONE) {
    attention->mask = MASK_CONDITION;
    return !attention->safe && can_view(match->draft, scores->condition, scores->condition_at,
                                        attention->probabilities);
  }
  attention->mask = MASK_NONE;
  return !scores->n_added || choose_added(match, attention);
}

/* ---------------------------------------------------------------- the pattern */

static bool fits_together(const match *match, const found_attention *attention) {
  const draft *draft = match->draft;
  const uint32_t operands[] = {attention->scores.q, attention->scores.kt, attention->v};
  if (draft_rank(draft, attention->probabilities) < 3 || !isfinite(attention->scores.scale))
    return false;
  for (int i = 0; i < 3; i++)
    if (draft_type(draft, operands[i]) != match->type || draft_rank(draft, operands[i]) < 2 ||
        !lead_fits(draft, operands[i], attention->probabilities))
      return false;
  return true;
}

bool find_attention(match *match, uint32_t *out) {
  const ir_matmul *op = match->root->ins.op;
  found_attention attention = {.scores = {.scale = 1, .condition = IR_NONE, .fill = -INFINITY}};
  if (match->root->ins.op_type != IR_OP_MATMUL || op->bias != IR_NONE || op->alpha != 1)
    return false;
  if (!dtype_is_float(match->type) || draft_rank(match->draft, match->out) < 3) return false;
  attention.v = op->b;
  if (!match_probabilities(match, op->a, &attention)) return false;
  reader reader = {.match = match, .scores = attention.scores};
  const ir_softmax *softmax = draft_op(match->draft, attention.probabilities, IR_OP_SOFTMAX);
  if (!read_scores(&reader, tensor_expr(softmax->x))) return false;
  attention.scores = reader.scores;
  if (!fits_together(match, &attention) || !choose_mask(match, &attention) ||
      !match_is_closed(match))
    return false;
  *out = add_attention(match, &attention);
  return true;
}
