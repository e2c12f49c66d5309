/* Matches expressions of elementwise steps, products and means, and applies patterns to all nodes.
 */
#include "interp/passes/match.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---------------------------------------------------------------- a match */

bool match_covers(match *match, draft_node *node) {
  for (int i = 0; i < match->n_inner; i++)
    if (match->inner[i] == node) return true;
  if (match->n_inner == MAX_INNER) return false;
  match->inner[match->n_inner++] = node;
  return true;
}

static bool covers(const match *match, const draft_node *node) {
  for (int i = 0; i < match->n_inner; i++)
    if (match->inner[i] == node) return true;
  return false;
}

static bool is_closed_slot(const match *match, const draft_slot *slot) {
  if (slot->kept) return false;
  for (uint32_t i = 0; i < slot->n_readers; i++)
    if (!covers(match, slot->readers[i])) return false;
  return true;
}

bool match_is_closed(const match *match) {
  for (int i = 0; i < match->n_inner; i++) {
    if (match->inner[i] == match->root) continue;
    if (match->inner[i]->chain != match->root->chain)
      return false; /* a node in another chain may run a different number of times */
    for (operand_iter k = operands_of(&match->inner[i]->ins); next_operand(&k);)
      if ((k.operand.flags & IR_OUT) && !is_closed_slot(match, &match->draft->slots[k.operand.tid]))
        return false;
  }
  return true;
}

static bool apply_at(draft *draft, draft_node *node, pattern find) {
  uint32_t out;
  match match = {
      .draft = draft, .root = node, .out = result_of(node), .inner = {node}, .n_inner = 1};
  if (match.out == IR_NONE) return false;
  match.type = draft_type(draft, match.out);
  if (!find(&match, &out) || draft->no_memory) return false;
  draft_replace(draft, match.out, out);
  return true;
}

static uint32_t apply_in_chain(draft *draft, uint32_t chain, pattern find) {
  uint32_t applied = 0;
  for (draft_node *n = draft->chains[chain].last; n && !draft->no_memory;) {
    draft_node *after = n->next, *before = n->prev;
    bool found = apply_at(draft, n, find);
    applied += found;
    /* New nodes are before the root. The root and nodes that only it needed are erased. */
    n = !found ? before : after ? after->prev : draft->chains[chain].last;
  }
  return applied;
}

uint32_t apply_pattern(draft *draft, pattern find) {
  uint32_t applied = 0;
  for (uint32_t c = 0; c < draft->ir.chains.count; c++) applied += apply_in_chain(draft, c, find);
  return applied;
}

/* ---------------------------------------------------------------- expressions */

bool same_expr(expr left, expr right) {
  if (left.kind != right.kind) return false;
  if (left.kind == EXPR_NUMBER) return left.number == right.number;
  return left.index == right.index && (left.kind != EXPR_STEP || left.node == right.node);
}

static expr operand_expr(draft_node *node, const ir_operand *op) {
  const ir_elementwise *elementwise = node->ins.op;
  switch (op->source) {
    case IR_OPERAND_SOURCE_INPUT:
      return tensor_expr(elementwise->inputs.items[op->index]);
    case IR_OPERAND_SOURCE_STEP:
      return (expr){.kind = EXPR_STEP, .index = op->index, .node = node};
    case IR_OPERAND_SOURCE_INT:
      return (expr){.kind = EXPR_NUMBER, .number = (double)op->i};
    case IR_OPERAND_SOURCE_FLOAT:
      return (expr){.kind = EXPR_NUMBER, .number = op->f};
    default:
      return (expr){.kind = EXPR_VALUE, .index = op->index};
  }
}

/* Returns a tensor that an elementwise node writes as that node's last step; else `expression`. */
static expr as_step(const draft *draft, expr expression) {
  if (expression.kind != EXPR_TENSOR || !draft_op(draft, expression.index, IR_OP_ELEMENTWISE))
    return expression;
  draft_node *node = draft->slots[expression.index].writer;
  const ir_elementwise *elementwise = node->ins.op;
  return (expr){.kind = EXPR_STEP, .index = elementwise->steps.count - 1, .node = node};
}

bool open_step(const draft *draft, expr expression, ir_step_kind *kind, expr args[MAX_STEP_ARITY],
               dtype *type) {
  expression = as_step(draft, expression);
  if (expression.kind != EXPR_STEP) return false;
  const ir_elementwise *elementwise = expression.node->ins.op;
  const ir_step *step = &elementwise->steps.items[expression.index];
  *kind = step->kind;
  *type = step->dtype;
  for (uint32_t i = 0; i < step->operands.count; i++)
    args[i] = operand_expr(expression.node, &step->operands.items[i]);
  return true;
}

bool is_step(const draft *draft, expr expression, ir_step_kind kind) {
  expr args[MAX_STEP_ARITY];
  ir_step_kind is;
  dtype type;
  return open_step(draft, expression, &is, args, &type) && is == kind;
}

bool match_step(match *match, expr expression, ir_step_kind kind, expr args[MAX_STEP_ARITY]) {
  ir_step_kind is;
  dtype type;
  if (!open_step(match->draft, expression, &is, args, &type) || is != kind || type != match->type)
    return false;
  return match_covers(match, as_step(match->draft, expression).node);
}

dtype expr_type(const draft *draft, expr expr) {
  if (expr.kind == EXPR_TENSOR) return draft_type(draft, expr.index);
  const ir_elementwise *elementwise = expr.kind == EXPR_STEP ? expr.node->ins.op : NULL;
  return elementwise ? elementwise->steps.items[expr.index].dtype : DTYPE_COUNT;
}

uint32_t expr_readers(const draft *draft, expr expr) {
  if (expr.kind != EXPR_TENSOR) return 1;
  return draft->slots[expr.index].n_readers + draft->slots[expr.index].kept;
}

bool expr_number(const draft *draft, expr expr, double *out) {
  tensor tensor;
  *out = expr.number;
  if (expr.kind == EXPR_NUMBER) return true;
  if (expr.kind != EXPR_TENSOR || !draft_fixed(draft, expr.index, &tensor) ||
      tensor_numel(&tensor) != 1)
    return false;
  return uniform_value(draft, expr.index, out);
}

bool close_numbers(double a, double b, dtype type) {
  double eps = type == DTYPE_F64 ? DBL_EPSILON : (double)FLT_EPSILON;
  return fabs(a - b) <= 2 * eps * fmax(fabs(a), fabs(b));
}

/* ---------------------------------------------------------------- products */

static bool match_multiply(match *match, expr expr, bool over, bool first, product *product);

static bool add_factor(product *product, expr expr, bool over) {
  int *count = over ? &product->n_over : &product->n_under;
  if (*count == MAX_FACTORS) return false;
  (over ? product->over : product->under)[(*count)++] = expr;
  return true;
}

static bool multiply_operands(match *match, expr expression, ir_step_kind kind, bool over,
                              product *product) {
  expr args[MAX_STEP_ARITY];
  if (!match_step(match, expression, kind, args)) return false;
  if (same_expr(args[0], args[1]))
    return kind == IR_STEP_KIND_MUL && args[0].kind != EXPR_NUMBER &&
           add_factor(product, args[0], over) && add_factor(product, args[0], over);
  return match_multiply(match, args[0], over, false, product) &&
         match_multiply(match, args[1], kind == IR_STEP_KIND_MUL ? over : !over, false, product);
}

static bool match_multiply(match *match, expr expression, bool over, bool first, product *product) {
  double n;
  expr args[MAX_STEP_ARITY];
  ir_step_kind kind;
  dtype type;
  if (expr_number(match->draft, expression, &n)) {
    product->coefficient = over ? product->coefficient * n : product->coefficient / n;
    return n != 0;
  }
  bool inside = open_step(match->draft, expression, &kind, args, &type) && type == match->type &&
                (kind == IR_STEP_KIND_MUL || kind == IR_STEP_KIND_DIV);
  if (inside && (first || expr_readers(match->draft, expression) == 1))
    return multiply_operands(match, expression, kind, over, product);
  return add_factor(product, expression, over);
}

bool match_product(match *match, expr expr, product *out) {
  *out = (product){.coefficient = 1};
  return match_multiply(match, expr, true, true, out);
}

bool match_plus_number(match *match, expr sum, expr *rest, double *count) {
  expr args[MAX_STEP_ARITY];
  double ignored;
  if (!match_step(match, sum, IR_STEP_KIND_ADD, args)) return false;
  for (int i = 0; i < 2; i++) {
    *rest = args[i];
    if (expr_number(match->draft, args[1 - i], count) &&
        !expr_number(match->draft, *rest, &ignored))
      return true;
  }
  return false;
}

bool match_square(match *match, expr square, expr *base) {
  expr args[MAX_STEP_ARITY];
  double n;
  if (match_step(match, square, IR_STEP_KIND_MUL, args)) {
    *base = args[0];
    return same_expr(args[0], args[1]);
  }
  if (!match_step(match, square, IR_STEP_KIND_POW, args)) return false;
  *base = args[0];
  return expr_number(match->draft, args[1], &n) && n == 2;
}

/* ---------------------------------------------------------------- means */

/* An empty list of axes means all axes. */
bool reduce_axes(const draft *draft, const ir_reduce *reduce, unsigned *axes) {
  int rank = draft_rank(draft, reduce->x);
  *axes = reduce->axes.count ? 0 : (1u << rank) - 1;
  for (uint32_t i = 0; i < reduce->axes.count; i++)
    *axes |=
        1u << (reduce->axes.items[i] < 0 ? reduce->axes.items[i] + rank : reduce->axes.items[i]);
  return *axes != 0;
}

static bool match_reduce(match *match, expr expr, ir_reduce_kind kind, uint32_t *operand,
                         unsigned *axes) {
  const ir_reduce *reduce =
      expr.kind == EXPR_TENSOR ? draft_op(match->draft, expr.index, IR_OP_REDUCE) : NULL;
  if (!reduce || reduce->kind != kind || !reduce->keepdim ||
      draft_type(match->draft, reduce->out) != match->type)
    return false;
  *operand = reduce->x;
  return reduce_axes(match->draft, reduce, axes) &&
         match_covers(match, match->draft->slots[expr.index].writer);
}

/* Returns the number of elements along these axes; 0 if it is unknown. */
static int64_t axes_count(const draft *draft, uint32_t x, unsigned axes) {
  extent extent = size_literal(1);
  for (int i = 0; i < draft_rank(draft, x); i++)
    if (axes & (1u << i)) extent = size_multiply(draft->sizes, extent, draft_size(draft, x, i));
  return size_is_literal(extent) ? extent.literal : 0;
}

bool match_mean(match *match, expr expr, uint32_t *operand, unsigned *axes) {
  product p;
  if (match_reduce(match, expr, IR_REDUCE_KIND_MEAN, operand, axes)) return true;
  if (!match_product(match, expr, &p) || p.n_over != 1 || p.n_under) return false;
  if (!match_reduce(match, p.over[0], IR_REDUCE_KIND_SUM, operand, axes)) return false;
  int64_t n = axes_count(match->draft, *operand, *axes);
  return n > 0 && close_numbers(p.coefficient, 1 / (double)n, match->type);
}

/* Matches root = sqrt(radicand). */
static bool match_root(match *match, expr root, expr *radicand) {
  expr args[MAX_STEP_ARITY];
  double n;
  bool is_root = match_step(match, root, IR_STEP_KIND_SQRT, args);
  if (!is_root && !match_step(match, root, IR_STEP_KIND_POW, args)) return false;
  *radicand = args[0];
  return is_root || (expr_number(match->draft, args[1], &n) && n == 0.5);
}

/* Matches inverse = 1 / sqrt(radicand). */
static bool match_inverse(match *match, expr inverse, expr *radicand) {
  expr args[MAX_STEP_ARITY];
  double n;
  if (match_step(match, inverse, IR_STEP_KIND_RSQRT, args)) {
    *radicand = args[0];
    return true;
  }
  if (match_step(match, inverse, IR_STEP_KIND_POW, args)) {
    *radicand = args[0];
    return expr_number(match->draft, args[1], &n) && n == -0.5;
  }
  return match_step(match, inverse, IR_STEP_KIND_RECIPROCAL, args) &&
         match_root(match, args[0], radicand);
}

bool match_inverse_root(match *match, const product *product, int k, expr *radicand, expr *rest,
                        int *n_rest) {
  int covered = match->n_inner;
  for (int i = 0; i < product->n_over && !product->n_under; i++) {
    if (!match_inverse(match, product->over[i], radicand) || k-- > 0) {
      match->n_inner = covered;
      continue;
    }
    memcpy(rest, product->over, (size_t)i * sizeof *rest);
    memcpy(rest + i, product->over + i + 1, (size_t)(product->n_over - i - 1) * sizeof *rest);
    *n_rest = product->n_over - 1;
    return true;
  }
  memcpy(rest, product->over, (size_t)product->n_over * sizeof *rest);
  *n_rest = product->n_over;
  return product->n_under == 1 && k == 0 && match_root(match, product->under[0], radicand);
}

/* ---------------------------------------------------------------- tensors */

uint32_t draft_through(const draft *draft, uint32_t x, unsigned what) {
  for (;;) {
    const ir_copy *copy = draft_op(draft, x, IR_OP_COPY);
    const ir_reshape *reshape = what & THROUGH_RESHAPE ? draft_op(draft, x, IR_OP_RESHAPE) : NULL;
    const ir_expand *expand = what & THROUGH_EXPAND ? draft_op(draft, x, IR_OP_EXPAND) : NULL;
    if (!copy && !reshape && !expand) return x;
    x = copy ? copy->x : reshape ? reshape->x : expand->x;
  }
}

uint32_t constant_origin(const draft *draft, uint32_t x) {
  x = draft_through(draft, x, THROUGH_RESHAPE);
  return draft->slots[x].kind == SLOT_CONSTANT ? x : IR_NONE;
}

double element_of(dtype t, const void *data, int64_t i) {
  return element_number(t, (const char *)data + (size_t)i * dtype_size(t));
}

bool is_uniform(const tensor *tensor, const void *data) {
  size_t size = dtype_size(tensor->type);
  int64_t n = tensor_numel(tensor);
  for (int64_t i = 1; i < n; i++)
    if (memcmp(data, (const char *)data + (size_t)i * size, size) != 0) return false;
  return n > 0;
}

static bool uniform_constant(const draft *draft, uint32_t x, double *out) {
  tensor tensor;
  const draft_slot *slot = &draft->slots[x];
  if (slot->kind != SLOT_CONSTANT || !slot->data || !draft_fixed(draft, x, &tensor) ||
      !is_uniform(&tensor, slot->data))
    return false;
  *out = element_of(tensor.type, slot->data, 0);
  return true;
}

bool uniform_value(const draft *draft, uint32_t x, double *out) {
  x = draft_through(draft, x, THROUGH_RESHAPE | THROUGH_EXPAND);
  const ir_full *full = draft_op(draft, x, IR_OP_FULL);
  if (!full) return uniform_constant(draft, x, out);
  if (full->value.present && full->value.vid == IR_NONE) {
    *out = full->value.literal;
    return true;
  }
  *out = (double)full->int_value.literal;
  return full->int_value.present && full->int_value.vid == IR_NONE;
}

uint32_t cast_of(const draft *draft, uint32_t tid) {
  const ir_elementwise *elementwise = draft_op(draft, tid, IR_OP_ELEMENTWISE);
  if (!elementwise || elementwise->steps.count != 1 || elementwise->inputs.count != 1)
    return IR_NONE;
  const ir_step *step = &elementwise->steps.items[0];
  bool copies = step->kind == IR_STEP_KIND_CAST || step->kind == IR_STEP_KIND_COPY;
  return copies && step->operands.items[0].source == IR_OPERAND_SOURCE_INPUT &&
                 draft_same_shape(draft, elementwise->inputs.items[0], tid)
             ? elementwise->inputs.items[0]
             : IR_NONE;
}
