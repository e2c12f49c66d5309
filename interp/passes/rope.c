/* Rotary embeddings written out become Rope: x cos + rotated(x) sin with tables that hold each
 * number twice, by halves or pairs; and the turned parts written one by one, as the product of
 * complex numbers is. Su et al., https://arxiv.org/abs/2104.09864.
 *
 * Pairs are told by where their elements lie in memory order, which reshapes keep: the elements 2k
 * and 2k + 1 of a tensor whose last axis is even. */
#include <string.h>

#include "interp/passes/passes.h"
#include "ops/ops.h"

enum { MAX_VISITS = 256 };

/* What becomes a Rope of the elements of x, in the shape of `like` with a last axis of 2 n_pairs.
 */
typedef struct rotation {
  uint32_t x, like;
  int64_t n_pairs;
  uint32_t cos, sin; /* they broadcast to that shape */
  bool doubled;      /* their last axis is 2 n_pairs, too; else n_pairs */
  bool interleaved;
  int axis;   /* of the length: -2 or -3 */
  int n_lead; /* how many dimensions ahead of length and heads the tables have, too */
} rotation;

/* ---------------------------------------------------------------- sizes */

/* A dimension if it is a number, else 0. */
static int64_t literal_dim(const draft *d, uint32_t x, int axis) {
  extent n = draft_rank(d, x) >= -axis ? draft_size(d, x, axis) : size_literal(0);
  return size_is_literal(n) ? n.literal : 0;
}

static bool is_even(const draft *d, uint32_t x) {
  int64_t n = literal_dim(d, x, -1);
  return n > 0 && n % 2 == 0;
}

static bool is_last(const draft *d, uint32_t x, int axis) {
  return axis == -1 || axis == draft_rank(d, x) - 1;
}

static bool same_last(const draft *d, uint32_t a, uint32_t b) {
  return draft_rank(d, a) > 0 && draft_rank(d, b) > 0 &&
         same_size(draft_size(d, a, -1), draft_size(d, b, -1));
}

static bool number_of(const ir_int_or_vid *v, int64_t absent, int64_t *out) {
  *out = v->present ? v->literal : absent;
  return !v->present || v->vid == IR_NONE;
}

/* ---------------------------------------------------------------- parts of x */

/* The op of this type that writes x, which is covered; else NULL. */
static const void *take(match *m, uint32_t x, ir_op type) {
  const void *op = draft_op(m->d, x, type);
  return op && match_covers(m, m->d->slots[x].writer) ? op : NULL;
}

static uint32_t take_reshapes(match *m, uint32_t x) {
  const ir_reshape *o;
  while ((o = take(m, x, IR_OP_RESHAPE)) != NULL) x = o->x;
  return x;
}

/* out = x[..., first::step], where both sizes are numbers. */
static bool read_slice(const draft *d, const ir_slice *o, int64_t *first, int64_t *step) {
  int64_t start, stop, last, size = literal_dim(d, o->x, -1);
  if (!is_last(d, o->x, o->axis) || !is_even(d, o->x)) return false;
  if (!number_of(&o->start, 0, &start) || !number_of(&o->stop, 0, &stop)) return false;
  slice_bounds(size, start, o->stop.present, stop, first, &last);
  return number_of(&o->step, 1, step);
}

/* x and which of each two elements: every other one, or one of a last axis of 2. */
static bool take_of_pairs(match *m, uint32_t part, uint32_t *x, int64_t *which) {
  int64_t step;
  uint32_t picked = take_reshapes(m, part);
  const ir_select *one = take(m, picked, IR_OP_SELECT);
  const ir_slice *some = take(m, picked, IR_OP_SLICE);
  if (one) {
    *x = one->x;
    if (!is_last(m->d, *x, one->axis) || !number_of(&one->index, 0, which)) return false;
    *which += *which < 0 ? 2 : 0;
    return literal_dim(m->d, *x, -1) == 2;
  }
  if (!some || !read_slice(m->d, some, which, &step)) return false;
  *x = some->x;
  int64_t n = literal_dim(m->d, picked, -1), size = literal_dim(m->d, *x, -1);
  return *which < 2 && 2 * n == size && (step == 2 || n == 1);
}

/* x and which of its halves. */
static bool take_half(match *m, uint32_t part, uint32_t *x, int64_t *which) {
  int64_t first, step;
  const ir_slice *o = take(m, part, IR_OP_SLICE);
  if (!o || !read_slice(m->d, o, &first, &step) || step != 1) return false;
  int64_t half = literal_dim(m->d, o->x, -1) / 2;
  *x = o->x;
  *which = first == half;
  return literal_dim(m->d, part, -1) == half && (first == 0 || first == half);
}

/* Is it this part of x? The first one that is asked for tells x: behind reshapes where those keep
 * the pairs. */
static bool take_part(match *m, uint32_t part, bool interleaved, int64_t which, uint32_t *x) {
  uint32_t of;
  int64_t is;
  if (!(interleaved ? take_of_pairs : take_half)(m, part, &of, &is) || is != which) return false;
  of = draft_through(m->d, of, interleaved ? THROUGH_RESHAPE : 0);
  if (*x == IR_NONE) *x = of;
  return *x == of;
}

/* The two parts that are joined along the last axis: each of one element, or halves. */
static const ir_cat *take_joined(match *m, uint32_t x, bool *interleaved) {
  const ir_cat *o = take(m, x, IR_OP_CAT);
  if (!o || o->xs.count != 2 || !is_last(m->d, x, o->axis)) return NULL;
  *interleaved = literal_dim(m->d, o->xs.items[0], -1) == 1;
  return same_last(m->d, o->xs.items[0], o->xs.items[1]) ? o : NULL;
}

/* ---------------------------------------------------------------- tables */

typedef struct doubling {
  const draft *d;
  bool interleaved;
  int left; /* how many tensors may still be looked at */
} doubling;

static bool is_doubled(doubling *w, uint32_t x);

static bool are_doubled(doubling *w, const ir_u32s *xs) {
  bool good = true;
  for (uint32_t i = 0; i < xs->count && good; i++) good = is_doubled(w, xs->items[i]);
  return good;
}

static bool is_doubled_constant(const doubling *w, uint32_t x) {
  tensor t;
  const draft_slot *s = &w->d->slots[x];
  if (!s->data || s->t.encoding || !is_even(w->d, x) || !draft_fixed(w->d, x, &t)) return false;
  size_t size = dtype_size(t.type) * (w->interleaved ? 1 : (size_t)t.dims[t.rank - 1] / 2);
  size_t n = (size_t)tensor_numel(&t) * dtype_size(t.type);
  for (const char *p = s->data, *end = p + n; p < end; p += 2 * size)
    if (memcmp(p, p + size, size) != 0) return false;
  return true;
}

/* Is it the same along the last axis, whatever that is expanded to? */
static bool is_flat(const draft *d, uint32_t x) {
  return draft_rank(d, x) == 0 || literal_dim(d, x, -1) == 1;
}

/* Steps compute each element alone. */
static bool is_doubled_elementwise(doubling *w, const ir_elementwise *o) {
  bool good = true;
  for (uint32_t i = 0; i < o->inputs.count && good; i++)
    good = is_flat(w->d, o->inputs.items[i]) || is_doubled(w, o->inputs.items[i]);
  return good;
}

static bool is_doubled_cat(doubling *w, const ir_cat *o) {
  const uint32_t *xs = o->xs.items;
  uint32_t half = o->xs.count / 2;
  if (!is_last(w->d, o->out, o->axis)) return are_doubled(w, &o->xs);
  bool repeats = o->xs.count % 2 == 0 && memcmp(xs, xs + half, half * sizeof *xs) == 0;
  if (!w->interleaved) return repeats;
  if (repeats && half == 1 && is_flat(w->d, xs[0])) return true;
  for (uint32_t i = 0; i < o->xs.count; i++)
    if (!is_even(w->d, xs[i])) return false;
  return are_doubled(w, &o->xs);
}

/* x = y as (..., 2 n) of (..., 2, n), where the 2 is an expanded 1. */
static bool is_repeated(const draft *d, uint32_t x, uint32_t y) {
  const ir_expand *e = draft_op(d, y, IR_OP_EXPAND);
  return e && literal_dim(d, y, -2) == 2 && 2 * literal_dim(d, y, -1) == literal_dim(d, x, -1) &&
         (draft_rank(d, e->x) == 1 || literal_dim(d, e->x, -2) == 1) && same_last(d, e->x, y);
}

static bool is_doubled_reshape(doubling *w, const ir_reshape *o) {
  if (w->interleaved ? is_even(w->d, o->x) : same_last(w->d, o->x, o->out))
    return is_doubled(w, o->x);
  return !w->interleaved && is_repeated(w->d, o->out, o->x);
}

static bool indexes_last(const draft *d, const ir_index *o) {
  bool found = false;
  for (uint32_t i = 0; i < o->axes.count; i++) found = found || is_last(d, o->x, o->axes.items[i]);
  return found;
}

static bool is_doubled_permute(doubling *w, const ir_permute *o) {
  return is_last(w->d, o->x, o->dims.items[o->dims.count - 1]) && is_doubled(w, o->x);
}

/* Does the last axis of x hold each of its numbers twice: are its halves equal, or neighbours? */
static bool is_doubled(doubling *w, uint32_t x) {
  const draft *d = w->d;
  const draft_node *n = d->slots[x].writer;
  const void *op = n ? n->ins.op : NULL;
  if (w->left-- <= 0 || !is_even(d, x)) return false;
  if (!n) return d->slots[x].kind == SLOT_CONSTANT && is_doubled_constant(w, x);
  const ir_slice *s = op;
  const ir_expand *e = op;
  switch (n->ins.op_type) {
    case IR_OP_ELEMENTWISE:
      return is_doubled_elementwise(w, op);
    case IR_OP_FULL:
      return true;
    case IR_OP_CAT:
      return is_doubled_cat(w, op);
    case IR_OP_RESHAPE:
      return is_doubled_reshape(w, op);
    case IR_OP_PERMUTE:
      return is_doubled_permute(w, op);
    case IR_OP_EXPAND:
      return is_flat(d, e->x) || is_doubled(w, e->x);
    case IR_OP_COPY:
      return is_doubled(w, ((const ir_copy *)op)->x);
    case IR_OP_SLICE:
      return !is_last(d, s->x, s->axis) && is_doubled(w, s->x);
    case IR_OP_SELECT:
      return !is_last(d, ((const ir_select *)op)->x, ((const ir_select *)op)->axis) &&
             is_doubled(w, ((const ir_select *)op)->x);
    case IR_OP_INDEX_SELECT:
      return !is_last(d, ((const ir_index_select *)op)->x, ((const ir_index_select *)op)->axis) &&
             is_doubled(w, ((const ir_index_select *)op)->x);
    case IR_OP_INDEX:
      return !indexes_last(d, op) && is_doubled(w, ((const ir_index *)op)->x);
    default:
      return false;
  }
}

static bool is_doubled_table(const draft *d, uint32_t table, bool interleaved) {
  doubling w = {.d = d, .interleaved = interleaved, .left = MAX_VISITS};
  return is_doubled(&w, table);
}

/* A dimension of the table, counted from the end; 1 ahead of the first. */
static extent table_size(const draft *d, uint32_t table, int axis) {
  return draft_rank(d, table) < -axis ? size_literal(1) : draft_size(d, table, axis);
}

/* Do the table's rows lie along this one of the axes -2 and -3 of x, and is it 1 along the other?
 */
static bool lies_along(const draft *d, uint32_t table, uint32_t x, int axis) {
  return same_size(table_size(d, table, axis), draft_size(d, x, axis)) &&
         size_is(table_size(d, table, -5 - axis), 1);
}

/* How many dimensions ahead of length and heads the table has, of x's sizes; -1: others. */
static int lead_of(const draft *d, uint32_t table, uint32_t x) {
  int n = 0;
  for (int i = -4; i >= -draft_rank(d, table); i--)
    if (!size_is(table_size(d, table, i), 1)) n = -3 - i;
  for (int i = 1; i <= n; i++)
    if (!same_size(table_size(d, table, -3 - i), draft_size(d, x, -3 - i))) return -1;
  return n;
}

static bool find_length(const draft *d, rotation *r) {
  int rank = draft_rank(d, r->like);
  if (rank < 3 || draft_rank(d, r->cos) > rank || draft_rank(d, r->sin) > rank) return false;
  r->n_lead = lead_of(d, r->cos, r->like);
  if (r->n_lead < 0 || lead_of(d, r->sin, r->like) != r->n_lead) return false;
  for (r->axis = -2; r->axis >= -3; r->axis--)
    if (lies_along(d, r->cos, r->like, r->axis) && lies_along(d, r->sin, r->like, r->axis))
      return true;
  return false;
}

/* Are all tensors of the root's dtype, and do the tables fit? */
static bool fits(const match *m, rotation *r) {
  const draft *d = m->d;
  return r->n_pairs > 0 && draft_type(d, r->x) == m->type && draft_type(d, r->cos) == m->type &&
         draft_type(d, r->sin) == m->type && same_last(d, r->cos, r->like) &&
         same_last(d, r->sin, r->like) && find_length(d, r);
}

/* ---------------------------------------------------------------- writing */

static uint32_t with_shape(match *m, uint32_t x, const ir_int_or_vid *shape, int rank) {
  draft *d = m->d;
  bool same = draft_rank(d, x) == rank;
  for (int i = 0; same && i < rank; i++)
    same = same_size(draft_size(d, x, i), size_of(d->sizes, &shape[i]));
  return same ? x : draft_reshape(d, m->root, x, shape, rank);
}

/* The first of each two numbers that are the same along the last axis. */
static uint32_t add_halved(match *m, uint32_t table, bool interleaved) {
  draft *d = m->d;
  int rank = draft_rank(d, table);
  int64_t size = literal_dim(d, table, -1);
  ir_int_or_vid shape[MAX_RANK];
  memcpy(shape, d->slots[table].t.shape.items, (size_t)rank * sizeof *shape);
  shape[rank - 1] = literal_size(size / 2);
  uint32_t out = draft_slot_new(d, m->type, shape, rank, m->root->ins.name);
  ir_slice *o = draft_add(d, m->root, IR_OP_SLICE);
  *o = (ir_slice){.x = table,
                  .axis = rank - 1,
                  .start = literal_size(0),
                  .stop = literal_size(interleaved ? size : size / 2),
                  .step = literal_size(interleaved ? 2 : 1),
                  .out = out};
  draft_note(d, m->root);
  return out;
}

/* One of two parts that are joined to pairs, if it is picked out of those; else x itself. */
static uint32_t part_behind(const draft *d, uint32_t x) {
  const ir_select *o = draft_op(d, x, IR_OP_SELECT);
  if (!o || !is_last(d, o->x, o->axis) || o->index.vid != IR_NONE) return x;
  const ir_cat *c = draft_op(d, draft_through(d, o->x, THROUGH_RESHAPE), IR_OP_CAT);
  bool fits = c && c->xs.count == 2 && is_last(d, c->out, c->axis) &&
              literal_dim(d, o->x, -1) == 2 && literal_dim(d, c->xs.items[0], -1) == 1 &&
              literal_dim(d, c->xs.items[1], -1) == 1;
  return fits ? draft_through(d, c->xs.items[o->index.literal & 1], THROUGH_RESHAPE) : x;
}

/* (lead, L, n_pairs) of a table. */
static uint32_t add_table(match *m, const rotation *r, uint32_t table) {
  ir_int_or_vid shape[MAX_RANK];
  int rank = 0;
  while (rank < r->n_lead) {
    shape[rank] = *draft_dim(m->d, table, -3 - r->n_lead + rank);
    rank++;
  }
  bool has_length = draft_rank(m->d, table) >= -r->axis;
  shape[rank++] = has_length ? *draft_dim(m->d, table, r->axis) : literal_size(1);
  shape[rank++] = literal_size(r->n_pairs);
  uint32_t half = r->doubled ? add_halved(m, table, r->interleaved) : part_behind(m->d, table);
  return m->d->no_memory ? IR_NONE : with_shape(m, half, shape, rank);
}

static uint32_t add_rope(match *m, const rotation *r, uint32_t x, uint32_t cos, uint32_t sin) {
  draft *d = m->d;
  uint32_t out = draft_slot_like(d, x, m->root->ins.name);
  ir_rope *o = draft_add(d, m->root, IR_OP_ROPE);
  *o = (ir_rope){.x = x, .cos = cos, .sin = sin, .interleaved = r->interleaved, .out = out};
  draft_note(d, m->root);
  return out;
}

/* x: (..., H, L, D) or (..., L, H, D) by the axis of the length; the op wants the second. */
static uint32_t add_rotation(match *m, const rotation *r) {
  draft *d = m->d;
  int rank = draft_rank(d, r->like), swap[MAX_RANK];
  ir_int_or_vid shape[MAX_RANK];
  for (int i = 0; i < rank; i++) {
    shape[i] = *draft_dim(d, r->like, i);
    swap[i] = i == rank - 2 ? rank - 3 : i == rank - 3 ? rank - 2 : i;
  }
  shape[rank - 1] = literal_size(2 * r->n_pairs);
  uint32_t x = with_shape(m, r->x, shape, rank);
  if (r->axis == -2 && !d->no_memory) x = draft_permute(d, m->root, x, swap);
  uint32_t cos = add_table(m, r, r->cos), sin = add_table(m, r, r->sin);
  if (d->no_memory) return IR_NONE;
  uint32_t out = add_rope(m, r, x, cos, sin);
  if (r->axis == -2 && !d->no_memory) out = draft_permute(d, m->root, out, swap);
  const ir_int_or_vids *whole = &d->slots[m->out].t.shape;
  return d->no_memory ? IR_NONE : with_shape(m, out, whole->items, (int)whole->count);
}

static bool finish(match *m, rotation *r, uint32_t *out) {
  if (!fits(m, r) || !match_is_closed(m)) return false;
  *out = add_rotation(m, r);
  return true;
}

/* ---------------------------------------------------------------- x cos + rotated(x) sin */

/* e = -x */
static bool take_negated(match *m, uint32_t e, uint32_t *x) {
  expr args[MAX_STEP_ARITY];
  if (!take_step(m, tensor_expr(e), IR_STEP_KIND_NEG, args) || args[0].kind != EXPR_TENSOR)
    return false;
  *x = args[0].index;
  return draft_same_shape(m->d, *x, e);
}

/* rotated = the second parts of x, negated, and the first ones, in turns or by halves. */
static bool take_rotated(match *m, uint32_t rotated, uint32_t x, bool *interleaved) {
  uint32_t joined = take_reshapes(m, rotated), minus;
  const ir_cat *o = take_joined(m, joined, interleaved);
  if (!o || !draft_same_shape(m->d, rotated, x)) return false;
  uint32_t first = *interleaved ? take_reshapes(m, o->xs.items[0]) : o->xs.items[0];
  x = draft_through(m->d, x, *interleaved ? THROUGH_RESHAPE : 0);
  return (*interleaved || joined == rotated) && take_negated(m, first, &minus) &&
         take_part(m, minus, *interleaved, 1, &x) &&
         take_part(m, o->xs.items[1], *interleaved, 0, &x);
}

/* plain = x cos and turned = rotated(x) sin; i and k: which operands x and rotated(x) are. */
static bool take_both(match *m, const expr *plain, const expr *turned, int i, int k, rotation *r) {
  for (int n = 0; n < 2; n++)
    if (plain[n].kind != EXPR_TENSOR || turned[n].kind != EXPR_TENSOR) return false;
  *r = (rotation){.x = plain[i].index,
                  .like = plain[i].index,
                  .cos = plain[1 - i].index,
                  .sin = turned[1 - k].index,
                  .doubled = true};
  r->n_pairs = literal_dim(m->d, r->x, -1) / 2;
  return is_even(m->d, r->x) && draft_same_shape(m->d, r->x, m->out) &&
         take_rotated(m, turned[k].index, r->x, &r->interleaved) &&
         is_doubled_table(m->d, r->cos, r->interleaved) &&
         is_doubled_table(m->d, r->sin, r->interleaved);
}

static bool find_sum(match *m, uint32_t *out) {
  expr sum[MAX_STEP_ARITY], a[MAX_STEP_ARITY], b[MAX_STEP_ARITY];
  rotation r;
  if (!take_step(m, tensor_expr(m->out), IR_STEP_KIND_ADD, sum) ||
      !take_step(m, sum[0], IR_STEP_KIND_MUL, a) || !take_step(m, sum[1], IR_STEP_KIND_MUL, b))
    return false;
  int covered = m->n_inner;
  for (int i = 0; i < 8; i++, m->n_inner = covered) {
    const expr *plain = i & 4 ? b : a, *turned = i & 4 ? a : b;
    if (take_both(m, plain, turned, i & 1, i >> 1 & 1, &r)) return finish(m, &r, out);
  }
  return false;
}

/* ---------------------------------------------------------------- parts turned one by one */

static bool take_product_of(match *m, expr e, expr x, expr y) {
  expr args[MAX_STEP_ARITY];
  return take_step(m, e, IR_STEP_KIND_MUL, args) &&
         ((same_expr(args[0], x) && same_expr(args[1], y)) ||
          (same_expr(args[0], y) && same_expr(args[1], x)));
}

/* e = a x + b y */
static bool take_sum_of(match *m, uint32_t e, expr a, expr x, expr b, expr y) {
  expr args[MAX_STEP_ARITY];
  if (!take_step(m, tensor_expr(e), IR_STEP_KIND_ADD, args)) return false;
  return (take_product_of(m, args[0], a, x) && take_product_of(m, args[1], b, y)) ||
         (take_product_of(m, args[1], a, x) && take_product_of(m, args[0], b, y));
}

/* p = a cos and q = b sin, with the parts a and b of x; second = b cos + a sin. */
static bool take_turned(match *m, const expr *p, const expr *q, uint32_t second, rotation *r) {
  for (int i = 0; i < 2; i++)
    if (p[i].kind != EXPR_TENSOR || q[i].kind != EXPR_TENSOR) return false;
  int covered = m->n_inner;
  for (int i = 0; i < 4; i++, m->n_inner = covered) {
    expr a = p[i & 1], cos = p[!(i & 1)], b = q[i >> 1], sin = q[!(i >> 1)];
    r->x = IR_NONE;
    r->like = a.index;
    r->cos = cos.index;
    r->sin = sin.index;
    r->n_pairs = literal_dim(m->d, a.index, -1);
    if (take_sum_of(m, second, a, sin, b, cos) && take_part(m, a.index, r->interleaved, 0, &r->x) &&
        take_part(m, b.index, r->interleaved, 1, &r->x))
      return draft_same_shape(m->d, a.index, b.index) && draft_same_shape(m->d, a.index, second);
  }
  return false;
}

/* The parts a cos - b sin and b cos + a sin, in turns or by halves. */
static bool find_joined(match *m, uint32_t *out) {
  expr args[MAX_STEP_ARITY], p[MAX_STEP_ARITY], q[MAX_STEP_ARITY];
  rotation r = {0};
  const ir_cat *o = take_joined(m, m->out, &r.interleaved);
  if (!o) return false;
  uint32_t part[2] = {o->xs.items[0], o->xs.items[1]};
  for (int i = 0; i < 2 && r.interleaved; i++) part[i] = take_reshapes(m, part[i]);
  return take_step(m, tensor_expr(part[0]), IR_STEP_KIND_SUB, args) &&
         take_step(m, args[0], IR_STEP_KIND_MUL, p) && take_step(m, args[1], IR_STEP_KIND_MUL, q) &&
         take_turned(m, p, q, part[1], &r) && draft_same_shape(m->d, part[0], part[1]) &&
         finish(m, &r, out);
}

bool find_rope(match *m, uint32_t *out) {
  if (!dtype_is_float(m->type)) return false;
  return m->root->ins.op_type == IR_OP_CAT ? find_joined(m, out) : find_sum(m, out);
}
