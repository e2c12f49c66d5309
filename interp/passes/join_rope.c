/* Rotary embeddings of columns of one tensor that lie side by side, as those of queries and keys
 * within a joined product, become one rotary embedding of all their heads, and slices of its
 * result.
 *
 * The heads are (..., L, n_heads, head_dim) behind views that do not change the order of the
 * elements. A result that something reads which would copy a part of the heads is left. */
#include <string.h>

#include "interp/passes/passes.h"

/* The heads of a Rope: columns [start, start + n_heads * head_dim) of `from`. */
typedef struct part {
  draft_node *node;
  uint32_t from;
  int64_t start, n_heads, head_dim;
} part;

/* ---------------------------------------------------------------- views */

/* The dimensions of a tensor that are not 1, by what they are counted as in another tensor that
 * views it. */
typedef struct dim_order {
  int n, at[MAX_RANK];
} dim_order;

static bool is_one(const draft *d, uint32_t tid, int axis) {
  return size_is(draft_size(d, tid, axis), 1);
}

static dim_order own_order(const draft *d, uint32_t tid) {
  dim_order o = {0};
  for (int i = 0; i < draft_rank(d, tid); i++)
    if (!is_one(d, tid, i)) {
      o.at[o.n] = o.n;
      o.n++;
    }
  return o;
}

static bool is_in_order(const dim_order *o) {
  for (int i = 1; i < o->n; i++)
    if (o->at[i] < o->at[i - 1]) return false;
  return true;
}

/* From the order of a Permute's result to that of its operand. */
static dim_order before_permute(const draft *d, const ir_permute *p, const dim_order *after) {
  int place[MAX_RANK], rank = draft_rank(d, p->x), k = 0;
  dim_order o = {0};
  for (int i = 0; i < rank; i++) {
    int axis = p->dims.items[i] < 0 ? p->dims.items[i] + rank : p->dims.items[i];
    place[axis] = is_one(d, p->out, i) ? -1 : after->at[k++];
  }
  for (int i = 0; i < rank; i++)
    if (place[i] >= 0) o.at[o.n++] = place[i];
  return o;
}

/* What x views with all its elements in the same order, behind as many views as there are; IR_NONE:
 * they are in another order there. */
static uint32_t behind_views(const draft *d, uint32_t x) {
  dim_order o = own_order(d, x);
  for (;;) {
    const ir_reshape *r = draft_op(d, x, IR_OP_RESHAPE);
    const ir_permute *p = draft_op(d, x, IR_OP_PERMUTE);
    if (r && is_in_order(&o))
      o = own_order(d, r->x);
    else if (r && !draft_same_but_ones(d, r->x, x))
      return IR_NONE;
    else if (p)
      o = before_permute(d, p, &o);
    else if (!r)
      return is_in_order(&o) ? x : IR_NONE;
    x = r ? r->x : p->x;
  }
}

/* ---------------------------------------------------------------- parts */

static bool literal_of(const ir_int_or_vid *v, int64_t *out) {
  *out = v->literal;
  return v->present && v->vid == IR_NONE;
}

/* Columns from *start on, step by step, as far as a literal number. */
static bool takes_columns(const draft *d, const ir_slice *s, int64_t *start) {
  int64_t step = 1;
  int rank = draft_rank(d, s->x), axis = s->axis < 0 ? s->axis + rank : s->axis;
  *start = 0;
  if (axis != rank - 1 || (s->step.present && !literal_of(&s->step, &step))) return false;
  return step == 1 && (!s->start.present || literal_of(&s->start, start)) && *start >= 0;
}

static bool take_part(const draft *d, draft_node *n, part *p) {
  const ir_rope *o = n->ins.op;
  if (n->ins.op_type != IR_OP_ROPE) return false;
  uint32_t columns = behind_views(d, o->x);
  const ir_slice *s = columns == IR_NONE ? NULL : draft_op(d, columns, IR_OP_SLICE);
  *p = (part){.node = n};
  if (!s || !takes_columns(d, s, &p->start)) return false;
  p->from = s->x;
  return literal_of(draft_dim(d, o->x, -2), &p->n_heads) &&
         literal_of(draft_dim(d, o->x, -1), &p->head_dim) && p->n_heads > 0 &&
         size_is(draft_size(d, columns, -1), p->n_heads * p->head_dim) &&
         draft_can_be_strided(d, o->out, false);
}

/* Are all sizes but that of the heads the same? */
static bool same_but_heads(const draft *d, uint32_t a, uint32_t b) {
  int rank = draft_rank(d, a);
  if (draft_rank(d, b) != rank) return false;
  for (int i = 0; i < rank; i++)
    if (i != rank - 2 && !same_size(draft_size(d, a, i), draft_size(d, b, i))) return false;
  return true;
}

/* Does b lie behind a, and are its heads turned by the same angles? */
static bool follows(const draft *d, const part *a, const part *b) {
  const ir_rope *x = a->node->ins.op, *y = b->node->ins.op;
  return a->node->chain == b->node->chain && a->from == b->from &&
         a->start + a->n_heads * a->head_dim == b->start && x->cos == y->cos && x->sin == y->sin &&
         x->interleaved == y->interleaved && same_but_heads(d, x->x, y->x);
}

/* The Rope whose heads lie behind those of p: one of those with its tables. */
static bool find_next(const draft *d, const part *p, part *next) {
  const draft_slot *cos = &d->slots[((const ir_rope *)p->node->ins.op)->cos];
  for (uint32_t i = 0; i < cos->n_readers; i++)
    if (take_part(d, cos->readers[i], next) && follows(d, p, next)) return true;
  return false;
}

/* ---------------------------------------------------------------- replacing */

static uint32_t add_slice(draft *d, draft_node *before, uint32_t x, int axis, int64_t start,
                          int64_t n) {
  ir_int_or_vid shape[MAX_RANK];
  int rank = draft_rank(d, x);
  memcpy(shape, d->slots[x].t.shape.items, (size_t)rank * sizeof *shape);
  shape[axis] = literal_size(n);
  uint32_t out = draft_slot_new(d, draft_type(d, x), shape, rank, before->ins.name);
  ir_slice *o = draft_add(d, before, IR_OP_SLICE);
  o->x = x;
  o->axis = axis;
  o->start = literal_size(start);
  o->stop = literal_size(start + n);
  o->out = out;
  draft_note(d, before);
  return out;
}

/* The heads of both, turned; before the first of the two. */
static uint32_t add_rope(draft *d, draft_node *before, const part *a, const part *b) {
  const ir_rope like = *(const ir_rope *)a->node->ins.op;
  int64_t n_heads = a->n_heads + b->n_heads;
  ir_int_or_vid shape[MAX_RANK];
  int rank = draft_rank(d, like.x);
  memcpy(shape, d->slots[like.x].t.shape.items, (size_t)rank * sizeof *shape);
  shape[rank - 2] = literal_size(n_heads);
  uint32_t x =
      add_slice(d, before, a->from, draft_rank(d, a->from) - 1, a->start, n_heads * a->head_dim);
  if (!d->no_memory) x = draft_reshape(d, before, x, shape, rank);
  if (d->no_memory) return IR_NONE;
  uint32_t out = draft_slot_like(d, x, before->ins.name);
  ir_rope *o = draft_add(d, before, IR_OP_ROPE);
  *o = like;
  o->x = x;
  o->out = out;
  draft_note(d, before);
  return out;
}

static bool join(draft *d, const part *a, const part *b) {
  draft_node *before = a->node->order < b->node->order ? a->node : b->node;
  uint32_t out = add_rope(d, before, a, b);
  if (d->no_memory) return false;
  before->prev->order = before->order;
  int axis = draft_rank(d, out) - 2;
  uint32_t first = add_slice(d, before, out, axis, 0, a->n_heads);
  uint32_t second =
      d->no_memory ? IR_NONE : add_slice(d, before, out, axis, a->n_heads, b->n_heads);
  if (d->no_memory) return false;
  uint32_t old[] = {result_of(a->node), result_of(b->node)};
  draft_replace(d, old[0], first);
  draft_replace(d, old[1], second);
  return true;
}

uint32_t join_ropes(draft *d, const pass_env *env) {
  part a, b;
  uint32_t order = 0, done = 0;
  (void)env;
  for (draft_node *n = draft_first(d, 0); n; n = draft_next(d, n)) n->order = order++;
  for (draft_node *n = draft_first(d, 0); n && !d->no_memory;) {
    /* With it may go what follows: from the first node again. */
    bool joined = take_part(d, n, &a) && find_next(d, &a, &b) && join(d, &a, &b);
    done += joined;
    n = joined ? draft_first(d, 0) : draft_next(d, n);
  }
  return done;
}
