/* Writing the attention op: operands under the scores' leading sizes, heads that are not repeated,
 * and masks. */
#include "interp/passes/attention.h"

#include <math.h>
#include <string.h>

#include "interp/passes/passes.h"

/* ---------------------------------------------------------------- leading sizes */

bool draft_same_lead(const draft *d, uint32_t a, uint32_t b) {
  int n = draft_rank(d, a) - 2;
  if (n != draft_rank(d, b) - 2) return false;
  for (int i = 0; i < n; i++)
    if (!same_size(draft_size(d, a, i), draft_size(d, b, i))) return false;
  return true;
}

bool draft_same_matrix(const draft *d, uint32_t a, uint32_t b) {
  if (draft_rank(d, a) < 2 || draft_rank(d, b) < 2) return false;
  return same_size(draft_size(d, a, -1), draft_size(d, b, -1)) &&
         same_size(draft_size(d, a, -2), draft_size(d, b, -2));
}

bool lead_fits(const draft *d, uint32_t x, uint32_t lead) {
  int n = draft_rank(d, lead) - 2;
  if (draft_rank(d, x) - 2 != n) return same_size(draft_numel(d, x, 2), draft_numel(d, lead, 2));
  for (int i = 0; i < n; i++) {
    extent mine = draft_size(d, x, i);
    if (!same_size(mine, draft_size(d, lead, i)) && !size_is(mine, 1)) return false;
  }
  return true;
}

/* The leading sizes of `lead` with the last two of x. */
static int joined_shape(const draft *d, uint32_t lead, uint32_t x, ir_int_or_vid *shape) {
  int n = draft_rank(d, lead) - 2;
  for (int i = 0; i < n; i++) shape[i] = *draft_dim(d, lead, i);
  shape[n] = *draft_dim(d, x, -2);
  shape[n + 1] = *draft_dim(d, x, -1);
  return n + 2;
}

/* x with as many leading sizes as `lead`. */
static uint32_t lifted(match *m, uint32_t x, uint32_t lead) {
  ir_int_or_vid shape[MAX_RANK];
  if (x == IR_NONE || draft_rank(m->d, x) == draft_rank(m->d, lead)) return x;
  int rank = joined_shape(m->d, lead, x, shape);
  return draft_reshape(m->d, m->root, x, shape, rank);
}

/* x repeated along the leading sizes of which it has 1. */
static uint32_t spread(match *m, uint32_t x, uint32_t lead) {
  ir_int_or_vid shape[MAX_RANK];
  if (x == IR_NONE || draft_same_lead(m->d, x, lead)) return x;
  int rank = joined_shape(m->d, lead, x, shape);
  return draft_expand(m->d, m->root, x, shape, rank);
}

/* ---------------------------------------------------------------- heads */

static bool is_grown(const draft *d, uint32_t y, uint32_t one, uint32_t wide, uint32_t x) {
  int rank = draft_rank(d, x), group = rank - 3; /* the axis of heads */
  for (int i = 0; i < rank; i++) {
    int to = i <= group ? i : i + 1;
    extent n = draft_size(d, y, i);
    if (!same_size(draft_size(d, one, to), n) || !same_size(draft_size(d, wide, to), n))
      return false;
    if (i != group && !same_size(draft_size(d, x, i), n)) return false;
  }
  extent heads = size_multiply(d->sizes, draft_size(d, y, group), draft_size(d, wide, group + 1));
  return size_is(draft_size(d, one, group + 1), 1) && same_size(draft_size(d, x, group), heads);
}

uint32_t ungrouped(const draft *d, uint32_t x) {
  uint32_t wide = draft_through(d, x, THROUGH_RESHAPE);
  const ir_expand *e = draft_op(d, wide, IR_OP_EXPAND);
  if (!e || draft_rank(d, x) < 3 || draft_rank(d, wide) != draft_rank(d, x) + 1) return IR_NONE;
  if (draft_rank(d, e->x) != draft_rank(d, wide)) return IR_NONE;
  uint32_t y = draft_through(d, e->x, 0);
  const ir_reshape *r = draft_op(d, y, IR_OP_RESHAPE);
  if (r) y = r->x;
  return draft_rank(d, y) == draft_rank(d, x) && is_grown(d, y, e->x, wide, x) ? y : IR_NONE;
}

/* Are all sizes but the last the same? */
static bool same_rows(const draft *d, uint32_t a, uint32_t b) {
  return draft_same_lead(d, a, b) && same_size(draft_size(d, a, -2), draft_size(d, b, -2));
}

/* k of k^T: what was transposed, if it is that, else k^T turned round. */
static uint32_t transposed(match *m, uint32_t kt, uint32_t lead) {
  const draft *d = m->d;
  int dims[MAX_RANK];
  for (uint32_t x = kt; x != IR_NONE;) {
    const ir_permute *p = draft_op(d, x, IR_OP_PERMUTE);
    if (p) {
      int rank = draft_rank(d, x);
      bool swaps = true;
      for (int i = 0; i < rank; i++) {
        int want = i < rank - 2 ? i : i == rank - 2 ? rank - 1 : rank - 2;
        int is = p->dims.items[i] < 0 ? p->dims.items[i] + rank : p->dims.items[i];
        swaps = swaps && is == want;
      }
      if (swaps && lead_fits(d, p->x, lead)) return lifted(m, p->x, lead);
      break;
    }
    const ir_reshape *r = draft_op(d, x, IR_OP_RESHAPE);
    const ir_copy *c = draft_op(d, x, IR_OP_COPY);
    x = r && draft_same_matrix(d, x, r->x) ? r->x : c ? c->x : IR_NONE;
  }
  uint32_t up = lifted(m, kt, lead);
  int rank = up == IR_NONE ? 0 : draft_rank(d, up);
  for (int i = 0; i < rank; i++) dims[i] = i;
  if (rank < 2) return IR_NONE;
  dims[rank - 2] = rank - 1;
  dims[rank - 1] = rank - 2;
  return draft_permute(m->d, m->root, up, dims);
}

/* ---------------------------------------------------------------- masks */

bool is_one_mask(const draft *d, uint32_t mask) {
  for (int i = 0; i < draft_rank(d, mask) - 2; i++)
    if (!size_is(draft_size(d, mask, i), 1)) return false;
  return true;
}

/* The mask as one for scores of the leading sizes `lead`. */
static uint32_t viewed(match *m, uint32_t mask, uint32_t at, uint32_t lead) {
  const draft *d = m->d;
  ir_int_or_vid shape[MAX_RANK];
  bool shared = is_one_mask(d, mask);
  if (draft_same_lead(d, at, lead) || (shared && draft_rank(d, mask) <= draft_rank(d, lead)))
    return mask;
  int rank = joined_shape(d, lead, mask, shape);
  for (int i = 0; shared && i < rank - 2; i++) shape[i] = literal_size(1);
  return draft_reshape(m->d, m->root, mask, shape, rank);
}

static uint32_t sum_of_added(match *m, const found_attention *f) {
  uint32_t total = IR_NONE;
  for (int i = 0; i < f->s.n_added && !m->d->no_memory; i++) {
    uint32_t next = viewed(m, f->s.added[i], f->s.added_at[i], f->probabilities);
    total = i ? draft_step(m->d, m->root, IR_STEP_KIND_ADD, (uint32_t[]){total, next}, 2) : next;
  }
  return total;
}

/* A BOOL constant that is true where a float one is 0. */
static uint32_t seen_constant(match *m, uint32_t bias) {
  tensor t;
  draft *d = m->d;
  uint32_t c = constant_behind(d, bias);
  if (c == IR_NONE || !draft_fixed(d, bias, &t)) return IR_NONE;
  int64_t n = tensor_numel(&t);
  uint8_t *bytes = draft_alloc(d, (size_t)n + 1, 1);
  if (!bytes) return IR_NONE;
  for (int64_t i = 0; i < n; i++) bytes[i] = element_of(t.type, d->slots[c].data, i) == 0;
  const ir_int_or_vids *shape = &d->slots[bias].t.shape;
  return draft_constant(d, DTYPE_BOOL, shape->items, t.rank, "mask", bytes);
}

/* Does this constant, BOOL or 0 where it would be true, show the keys up to the query's own place,
 * and no others? */
static bool is_lower_triangle(const draft *d, uint32_t mask) {
  tensor t;
  uint32_t c = constant_behind(d, mask);
  if (c == IR_NONE || !draft_fixed(d, mask, &t) || t.rank < 2) return false;
  bool is_bool = t.type == DTYPE_BOOL;
  int64_t n = tensor_numel(&t), columns = t.dims[t.rank - 1], rows = t.dims[t.rank - 2];
  for (int64_t i = 0; i < n; i++) {
    bool seen = (element_of(t.type, d->slots[c].data, i) == 0) != is_bool;
    if (seen != (i % columns <= i / columns % rows)) return false;
  }
  return n > 0;
}

static uint32_t add_mask(match *m, const found_attention *f) {
  uint32_t mask;
  switch (f->mask) {
    case MASK_NONE:
      return IR_NONE;
    case MASK_CONDITION:
      mask = viewed(m, f->s.condition, f->s.condition_at, f->probabilities);
      return f->s.hides ? draft_step(m->d, m->root, IR_STEP_KIND_LOGICAL_NOT, &mask, 1) : mask;
    case MASK_SEEN:
      return draft_type(m->d, f->seen) == DTYPE_BOOL ? f->seen : seen_constant(m, f->seen);
    default:
      return sum_of_added(m, f);
  }
}

/* ---------------------------------------------------------------- the op */

uint32_t add_attention(match *m, const found_attention *f) {
  draft *d = m->d;
  uint32_t lead = f->probabilities;
  ir_int_or_vid shape[MAX_RANK];
  uint32_t q = spread(m, lifted(m, f->s.q, lead), lead), v = lifted(m, f->v, lead);
  uint32_t k = transposed(m, f->s.kt, lead);
  if (q == IR_NONE || k == IR_NONE || v == IR_NONE) return IR_NONE;
  bool same_batch = true;
  for (int i = 0; i < draft_rank(d, lead) - 3; i++)
    same_batch = same_batch && same_size(draft_size(d, k, i), draft_size(d, lead, i));
  if (!draft_same_lead(d, k, v) || !same_batch) {
    k = spread(m, k, lead);
    v = spread(m, v, lead);
  }
  bool lower = f->mask == MASK_SEEN && is_lower_triangle(d, f->seen);
  uint32_t mask = lower ? IR_NONE : add_mask(m, f);
  if (d->no_memory) return IR_NONE;
  uint32_t few_k = ungrouped(d, k), few_v = ungrouped(d, v);
  if (few_k != IR_NONE && few_v != IR_NONE && same_rows(d, few_k, few_v)) {
    k = few_k;
    v = few_v;
  }
  int rank = joined_shape(d, lead, q, shape);
  shape[rank - 1] = *draft_dim(d, v, -1);
  uint32_t out = draft_slot_new(d, m->type, shape, rank, m->root->ins.name);
  ir_attention *o = draft_add(d, m->root, IR_OP_ATTENTION);
  *o = (ir_attention){.q = q, .k = k, .v = v, .mask = mask, .causal = lower, .out = out};
  o->scale = (ir_opt_f64){f->s.scale, true};
  o->masked = (ir_opt_f64){f->s.fill, !f->safe};
  draft_note(d, m->root);
  if (d->no_memory || draft_same_shape(d, out, m->out)) return out;
  const ir_int_or_vids *own = &d->slots[m->out].t.shape;
  return draft_reshape(d, m->root, out, own->items, (int)own->count);
}

/* ---------------------------------------------------------------- attention that is one op */

/* The op with other operands: a new one, like this. */
static uint32_t add_like(match *m, const ir_attention *like) {
  draft *d = m->d;
  uint32_t out = draft_slot_like(d, m->out, m->root->ins.name);
  ir_attention *o = draft_add(d, m->root, IR_OP_ATTENTION);
  *o = *like;
  o->out = out;
  draft_note(d, m->root);
  return out;
}

/* Attention over repeated key and value heads reads the heads themselves. */
bool find_repeated_heads(match *m, uint32_t *out) {
  if (m->root->ins.op_type != IR_OP_ATTENTION) return false;
  ir_attention o = *(const ir_attention *)m->root->ins.op;
  uint32_t k = ungrouped(m->d, o.k), v = ungrouped(m->d, o.v);
  if (k == IR_NONE || v == IR_NONE || !same_rows(m->d, k, v) || !draft_same_lead(m->d, o.q, o.k))
    return false;
  o.k = k;
  o.v = v;
  *out = add_like(m, &o);
  return true;
}

/* true: attend; of floats 0 is added. */
static bool hides_nothing(const draft *d, uint32_t mask) {
  double n;
  if (!uniform_value(d, mask, &n)) return false;
  return draft_type(d, mask) == DTYPE_BOOL ? n != 0 : n == 0;
}

static bool is_causal(const draft *d, const ir_attention *o) {
  if (draft_type(d, o->mask) != DTYPE_BOOL || draft_rank(d, o->mask) < 2) return false;
  return same_size(draft_size(d, o->mask, -2), draft_size(d, o->q, -2)) &&
         same_size(draft_size(d, o->mask, -1), draft_size(d, o->k, -2)) &&
         is_lower_triangle(d, o->mask);
}

/* A constant mask that hides nothing goes, one that hides later keys becomes the causal flag. */
bool find_simple_mask(match *m, uint32_t *out) {
  if (m->root->ins.op_type != IR_OP_ATTENTION) return false;
  ir_attention o = *(const ir_attention *)m->root->ins.op;
  if (o.mask == IR_NONE || o.causal || o.masked.present) return false;
  bool plain = hides_nothing(m->d, o.mask);
  if (!plain && !is_causal(m->d, &o)) return false;
  o.mask = IR_NONE;
  o.causal = !plain;
  *out = add_like(m, &o);
  return true;
}
