/* Matching: expressions of elementwise steps, products, means; and the walk that tries a pattern.
 */
#include "interp/passes/match.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---------------------------------------------------------------- a match */

bool match_covers(match *m, draft_node *n) {
  for (int i = 0; i < m->n_inner; i++)
    if (m->inner[i] == n) return true;
  if (m->n_inner == MAX_INNER) return false;
  m->inner[m->n_inner++] = n;
  return true;
}

static bool covers(const match *m, const draft_node *n) {
  for (int i = 0; i < m->n_inner; i++)
    if (m->inner[i] == n) return true;
  return false;
}

static bool is_closed_slot(const match *m, const draft_slot *s) {
  if (s->kept) return false;
  for (uint32_t i = 0; i < s->n_readers; i++)
    if (!covers(m, s->readers[i])) return false;
  return true;
}

bool match_is_closed(const match *m) {
  for (int i = 0; i < m->n_inner; i++) {
    if (m->inner[i] == m->root) continue;
    if (m->inner[i]->chain != m->root->chain) return false; /* a body runs it more than once */
    for (operand_iter k = operands_of(&m->inner[i]->ins); next_operand(&k);)
      if ((k.o.flags & IR_OUT) && !is_closed_slot(m, &m->d->slots[k.o.tid])) return false;
  }
  return true;
}

static bool apply_at(draft *d, draft_node *n, pattern find) {
  uint32_t out;
  match m = {.d = d, .root = n, .out = result_of(n), .inner = {n}, .n_inner = 1};
  if (m.out == IR_NONE) return false;
  m.type = draft_type(d, m.out);
  if (!find(&m, &out) || d->no_memory) return false;
  draft_replace(d, m.out, out);
  return true;
}

static uint32_t apply_in_chain(draft *d, uint32_t chain, pattern find) {
  uint32_t applied = 0;
  for (draft_node *n = d->chains[chain].last; n && !d->no_memory;) {
    draft_node *after = n->next, *before = n->prev;
    bool found = apply_at(d, n, find);
    applied += found;
    /* What was added stands before the root; the root, and what only it needed, are gone. */
    n = !found ? before : after ? after->prev : d->chains[chain].last;
  }
  return applied;
}

uint32_t apply_pattern(draft *d, pattern find) {
  uint32_t applied = 0;
  for (uint32_t c = 0; c < d->ir.chains.count; c++) applied += apply_in_chain(d, c, find);
  return applied;
}

/* ---------------------------------------------------------------- expressions */

bool same_expr(expr a, expr b) {
  if (a.kind != b.kind) return false;
  if (a.kind == EXPR_NUMBER) return a.number == b.number;
  return a.index == b.index && (a.kind != EXPR_STEP || a.node == b.node);
}

static expr operand_expr(draft_node *n, const ir_operand *o) {
  const ir_elementwise *e = n->ins.op;
  switch (o->source) {
    case IR_OPERAND_SOURCE_INPUT:
      return tensor_expr(e->inputs.items[o->index]);
    case IR_OPERAND_SOURCE_STEP:
      return (expr){.kind = EXPR_STEP, .index = o->index, .node = n};
    case IR_OPERAND_SOURCE_INT:
      return (expr){.kind = EXPR_NUMBER, .number = (double)o->i};
    case IR_OPERAND_SOURCE_FLOAT:
      return (expr){.kind = EXPR_NUMBER, .number = o->f};
    default:
      return (expr){.kind = EXPR_VALUE, .index = o->index};
  }
}

/* A tensor that an elementwise node writes as that node's last step. */
static expr as_step(const draft *d, expr e) {
  if (e.kind != EXPR_TENSOR || !draft_op(d, e.index, IR_OP_ELEMENTWISE)) return e;
  draft_node *n = d->slots[e.index].writer;
  const ir_elementwise *w = n->ins.op;
  return (expr){.kind = EXPR_STEP, .index = w->steps.count - 1, .node = n};
}

bool open_step(const draft *d, expr e, ir_step_kind *kind, expr args[MAX_STEP_ARITY], dtype *type) {
  e = as_step(d, e);
  if (e.kind != EXPR_STEP) return false;
  const ir_elementwise *w = e.node->ins.op;
  const ir_step *s = &w->steps.items[e.index];
  *kind = s->kind;
  *type = s->dtype;
  for (uint32_t i = 0; i < s->operands.count; i++)
    args[i] = operand_expr(e.node, &s->operands.items[i]);
  return true;
}

bool is_step(const draft *d, expr e, ir_step_kind kind) {
  expr args[MAX_STEP_ARITY];
  ir_step_kind is;
  dtype type;
  return open_step(d, e, &is, args, &type) && is == kind;
}

bool take_step(match *m, expr e, ir_step_kind kind, expr args[MAX_STEP_ARITY]) {
  ir_step_kind is;
  dtype type;
  if (!open_step(m->d, e, &is, args, &type) || is != kind || type != m->type) return false;
  return match_covers(m, as_step(m->d, e).node);
}

dtype expr_type(const draft *d, expr e) {
  if (e.kind == EXPR_TENSOR) return draft_type(d, e.index);
  const ir_elementwise *w = e.kind == EXPR_STEP ? e.node->ins.op : NULL;
  return w ? w->steps.items[e.index].dtype : DTYPE_COUNT;
}

uint32_t expr_readers(const draft *d, expr e) {
  if (e.kind != EXPR_TENSOR) return 1;
  return d->slots[e.index].n_readers + d->slots[e.index].kept;
}

bool expr_number(const draft *d, expr e, double *out) {
  tensor t;
  *out = e.number;
  if (e.kind == EXPR_NUMBER) return true;
  if (e.kind != EXPR_TENSOR || !draft_fixed(d, e.index, &t) || tensor_numel(&t) != 1) return false;
  return uniform_value(d, e.index, out);
}

bool close_numbers(double a, double b, dtype type) {
  double eps = type == DTYPE_F64 ? DBL_EPSILON : (double)FLT_EPSILON;
  return fabs(a - b) <= 2 * eps * fmax(fabs(a), fabs(b));
}

/* ---------------------------------------------------------------- products */

static bool multiply(match *m, expr e, bool over, bool first, product *p);

static bool add_factor(product *p, expr e, bool over) {
  int *n = over ? &p->n_over : &p->n_under;
  if (*n == MAX_FACTORS) return false;
  (over ? p->over : p->under)[(*n)++] = e;
  return true;
}

static bool multiply_operands(match *m, expr e, ir_step_kind kind, bool over, product *p) {
  expr args[MAX_STEP_ARITY];
  if (!take_step(m, e, kind, args)) return false;
  if (same_expr(args[0], args[1]))
    return kind == IR_STEP_KIND_MUL && args[0].kind != EXPR_NUMBER &&
           add_factor(p, args[0], over) && add_factor(p, args[0], over);
  return multiply(m, args[0], over, false, p) &&
         multiply(m, args[1], kind == IR_STEP_KIND_MUL ? over : !over, false, p);
}

static bool multiply(match *m, expr e, bool over, bool first, product *p) {
  double n;
  expr args[MAX_STEP_ARITY];
  ir_step_kind kind;
  dtype type;
  if (expr_number(m->d, e, &n)) {
    p->coefficient = over ? p->coefficient * n : p->coefficient / n;
    return n != 0;
  }
  bool inside = open_step(m->d, e, &kind, args, &type) && type == m->type &&
                (kind == IR_STEP_KIND_MUL || kind == IR_STEP_KIND_DIV);
  if (inside && (first || expr_readers(m->d, e) == 1))
    return multiply_operands(m, e, kind, over, p);
  return add_factor(p, e, over);
}

bool take_product(match *m, expr e, product *out) {
  *out = (product){.coefficient = 1};
  return multiply(m, e, true, true, out);
}

bool take_plus_number(match *m, expr e, expr *y, double *n) {
  expr args[MAX_STEP_ARITY];
  double other;
  if (!take_step(m, e, IR_STEP_KIND_ADD, args)) return false;
  for (int i = 0; i < 2; i++) {
    *y = args[i];
    if (expr_number(m->d, args[1 - i], n) && !expr_number(m->d, *y, &other)) return true;
  }
  return false;
}

bool take_square(match *m, expr e, expr *y) {
  expr args[MAX_STEP_ARITY];
  double n;
  if (take_step(m, e, IR_STEP_KIND_MUL, args)) {
    *y = args[0];
    return same_expr(args[0], args[1]);
  }
  if (!take_step(m, e, IR_STEP_KIND_POW, args)) return false;
  *y = args[0];
  return expr_number(m->d, args[1], &n) && n == 2;
}

/* ---------------------------------------------------------------- means */

/* None given are all. */
bool reduce_axes(const draft *d, const ir_reduce *r, unsigned *axes) {
  int rank = draft_rank(d, r->x);
  *axes = r->axes.count ? 0 : (1u << rank) - 1;
  for (uint32_t i = 0; i < r->axes.count; i++)
    *axes |= 1u << (r->axes.items[i] < 0 ? r->axes.items[i] + rank : r->axes.items[i]);
  return *axes != 0;
}

static bool take_reduce(match *m, expr e, ir_reduce_kind kind, uint32_t *y, unsigned *axes) {
  const ir_reduce *r = e.kind == EXPR_TENSOR ? draft_op(m->d, e.index, IR_OP_REDUCE) : NULL;
  if (!r || r->kind != kind || !r->keepdim || draft_type(m->d, r->out) != m->type) return false;
  *y = r->x;
  return reduce_axes(m->d, r, axes) && match_covers(m, m->d->slots[e.index].writer);
}

/* How many elements lie along these axes; 0: not known. */
static int64_t axes_count(const draft *d, uint32_t x, unsigned axes) {
  extent n = size_literal(1);
  for (int i = 0; i < draft_rank(d, x); i++)
    if (axes & (1u << i)) n = size_multiply(d->sizes, n, draft_size(d, x, i));
  return size_is_literal(n) ? n.literal : 0;
}

bool take_mean(match *m, expr e, uint32_t *y, unsigned *axes) {
  product p;
  if (take_reduce(m, e, IR_REDUCE_KIND_MEAN, y, axes)) return true;
  if (!take_product(m, e, &p) || p.n_over != 1 || p.n_under) return false;
  if (!take_reduce(m, p.over[0], IR_REDUCE_KIND_SUM, y, axes)) return false;
  int64_t n = axes_count(m->d, *y, *axes);
  return n > 0 && close_numbers(p.coefficient, 1 / (double)n, m->type);
}

/* e = sqrt(y). */
static bool take_root(match *m, expr e, expr *y) {
  expr args[MAX_STEP_ARITY];
  double n;
  bool is_root = take_step(m, e, IR_STEP_KIND_SQRT, args);
  if (!is_root && !take_step(m, e, IR_STEP_KIND_POW, args)) return false;
  *y = args[0];
  return is_root || (expr_number(m->d, args[1], &n) && n == 0.5);
}

/* e = 1 / sqrt(y). */
static bool take_inverse(match *m, expr e, expr *y) {
  expr args[MAX_STEP_ARITY];
  double n;
  if (take_step(m, e, IR_STEP_KIND_RSQRT, args)) {
    *y = args[0];
    return true;
  }
  if (take_step(m, e, IR_STEP_KIND_POW, args)) {
    *y = args[0];
    return expr_number(m->d, args[1], &n) && n == -0.5;
  }
  return take_step(m, e, IR_STEP_KIND_RECIPROCAL, args) && take_root(m, args[0], y);
}

bool take_inverse_root(match *m, const product *p, int k, expr *y, expr *rest, int *n_rest) {
  int covered = m->n_inner;
  for (int i = 0; i < p->n_over && !p->n_under; i++) {
    if (!take_inverse(m, p->over[i], y) || k-- > 0) {
      m->n_inner = covered;
      continue;
    }
    memcpy(rest, p->over, (size_t)i * sizeof *rest);
    memcpy(rest + i, p->over + i + 1, (size_t)(p->n_over - i - 1) * sizeof *rest);
    *n_rest = p->n_over - 1;
    return true;
  }
  memcpy(rest, p->over, (size_t)p->n_over * sizeof *rest);
  *n_rest = p->n_over;
  return p->n_under == 1 && k == 0 && take_root(m, p->under[0], y);
}

/* ---------------------------------------------------------------- tensors */

uint32_t draft_through(const draft *d, uint32_t x, unsigned what) {
  for (;;) {
    const ir_copy *c = draft_op(d, x, IR_OP_COPY);
    const ir_reshape *r = what & THROUGH_RESHAPE ? draft_op(d, x, IR_OP_RESHAPE) : NULL;
    const ir_expand *e = what & THROUGH_EXPAND ? draft_op(d, x, IR_OP_EXPAND) : NULL;
    if (!c && !r && !e) return x;
    x = c ? c->x : r ? r->x : e->x;
  }
}

uint32_t constant_behind(const draft *d, uint32_t x) {
  x = draft_through(d, x, THROUGH_RESHAPE);
  return d->slots[x].kind == SLOT_CONSTANT ? x : IR_NONE;
}

double element_of(dtype t, const void *data, int64_t i) {
  return element_number(t, (const char *)data + (size_t)i * dtype_size(t));
}

bool is_uniform(const tensor *t, const void *data) {
  size_t size = dtype_size(t->type);
  int64_t n = tensor_numel(t);
  for (int64_t i = 1; i < n; i++)
    if (memcmp(data, (const char *)data + (size_t)i * size, size) != 0) return false;
  return n > 0;
}

static bool uniform_constant(const draft *d, uint32_t x, double *out) {
  tensor t;
  const draft_slot *s = &d->slots[x];
  if (s->kind != SLOT_CONSTANT || !s->data || !draft_fixed(d, x, &t) || !is_uniform(&t, s->data))
    return false;
  *out = element_of(t.type, s->data, 0);
  return true;
}

bool uniform_value(const draft *d, uint32_t x, double *out) {
  x = draft_through(d, x, THROUGH_RESHAPE | THROUGH_EXPAND);
  const ir_full *f = draft_op(d, x, IR_OP_FULL);
  if (!f) return uniform_constant(d, x, out);
  if (f->value.present && f->value.vid == IR_NONE) {
    *out = f->value.literal;
    return true;
  }
  *out = (double)f->int_value.literal;
  return f->int_value.present && f->int_value.vid == IR_NONE;
}

uint32_t cast_of(const draft *d, uint32_t tid) {
  const ir_elementwise *e = draft_op(d, tid, IR_OP_ELEMENTWISE);
  if (!e || e->steps.count != 1 || e->inputs.count != 1) return IR_NONE;
  const ir_step *s = &e->steps.items[0];
  bool copies = s->kind == IR_STEP_KIND_CAST || s->kind == IR_STEP_KIND_COPY;
  return copies && s->operands.items[0].source == IR_OPERAND_SOURCE_INPUT &&
                 draft_same_shape(d, e->inputs.items[0], tid)
             ? e->inputs.items[0]
             : IR_NONE;
}
