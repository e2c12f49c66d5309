/* Chains of views become one: reshapes of reshapes, permutations of permutations, and of dimensions
 * that are 1; copies and views that change nothing go. */
#include <string.h>

#include "interp/passes/passes.h"

/* x under the node's own shape: x itself where that is its shape. */
static uint32_t reshaped(draft *d, draft_node *n, uint32_t x) {
  const ir_int_or_vids *shape = &d->slots[result_of(n)].t.shape;
  if (draft_same_shape(d, x, result_of(n))) return x;
  return draft_reshape(d, n, x, shape->items, (int)shape->count);
}

static uint32_t fold_reshape(draft *d, draft_node *n) {
  const ir_reshape *o = n->ins.op, *inner = draft_op(d, o->x, IR_OP_RESHAPE);
  if (inner) return reshaped(d, n, inner->x);
  return draft_same_shape(d, o->x, o->out) ? o->x : IR_NONE;
}

static void orders_of(const ir_permute *o, int *dims) {
  int rank = (int)o->dims.count;
  for (int i = 0; i < rank; i++)
    dims[i] = o->dims.items[i] < 0 ? o->dims.items[i] + rank : o->dims.items[i];
}

static bool is_identity(const int *dims, int rank) {
  for (int i = 0; i < rank; i++)
    if (dims[i] != i) return false;
  return true;
}

/* Does everything that reads it give it another shape or order anyway? */
static bool is_viewed_only(const draft *d, uint32_t tid) {
  const draft_slot *s = &d->slots[tid];
  for (uint32_t i = 0; i < s->n_readers; i++) {
    ir_op op = s->readers[i]->ins.op_type;
    if (op != IR_OP_RESHAPE && op != IR_OP_PERMUTE) return false;
  }
  return !s->kept;
}

/* The permutation on the dimensions that are not 1; where those keep their order, a reshape. */
static uint32_t without_ones(draft *d, draft_node *n, const int *dims) {
  const ir_permute *o = n->ins.op;
  int rank = draft_rank(d, o->x), place[MAX_RANK], order[MAX_RANK], kept = 0, m = 0;
  ir_int_or_vid shape[MAX_RANK];
  for (int i = 0; i < rank; i++) {
    place[i] = size_is(draft_size(d, o->x, i), 1) ? -1 : kept;
    if (place[i] >= 0) shape[kept++] = *draft_dim(d, o->x, i);
  }
  for (int i = 0; i < rank; i++)
    if (place[dims[i]] >= 0) order[m++] = place[dims[i]];
  if (is_identity(order, kept)) return reshaped(d, n, o->x);
  if (kept == rank || !is_viewed_only(d, o->out)) return IR_NONE;
  uint32_t squeezed = draft_reshape(d, n, o->x, shape, kept);
  return squeezed == IR_NONE ? IR_NONE : reshaped(d, n, draft_permute(d, n, squeezed, order));
}

static uint32_t fold_permute(draft *d, draft_node *n) {
  const ir_permute *o = n->ins.op, *inner = draft_op(d, o->x, IR_OP_PERMUTE);
  int dims[MAX_RANK], first[MAX_RANK], both[MAX_RANK], rank = draft_rank(d, o->x);
  orders_of(o, dims);
  if (is_identity(dims, rank)) return o->x;
  if (!inner) return without_ones(d, n, dims);
  orders_of(inner, first);
  for (int i = 0; i < rank; i++) both[i] = first[dims[i]];
  return is_identity(both, rank) ? inner->x : draft_permute(d, n, inner->x, both);
}

static uint32_t fold_expand(const draft *d, const draft_node *n) {
  const ir_expand *o = n->ins.op;
  return draft_same_shape(d, o->x, o->out) ? o->x : IR_NONE;
}

static uint32_t fold_slice(const draft *d, const draft_node *n) {
  const ir_slice *o = n->ins.op;
  bool whole = (!o->step.present || (o->step.vid == IR_NONE && o->step.literal == 1)) &&
               (!o->start.present || (o->start.vid == IR_NONE && o->start.literal == 0));
  return whole && draft_same_shape(d, o->x, o->out) ? o->x : IR_NONE;
}

/* What can stand for the node's result; IR_NONE: nothing else. */
static uint32_t folded(draft *d, draft_node *n) {
  switch (n->ins.op_type) {
    case IR_OP_RESHAPE:
      return fold_reshape(d, n);
    case IR_OP_PERMUTE:
      return fold_permute(d, n);
    case IR_OP_EXPAND:
      return fold_expand(d, n);
    case IR_OP_SLICE:
      return fold_slice(d, n);
    case IR_OP_COPY:
      return ((const ir_copy *)n->ins.op)->x;
    default:
      return IR_NONE;
  }
}

static uint32_t fold_in_chain(draft *d, uint32_t chain) {
  uint32_t done = 0;
  for (draft_node *n = d->chains[chain].first, *next; n && !d->no_memory; n = next) {
    next = n->next;
    if (!draft_is_read(d, result_of(n) == IR_NONE ? 0 : result_of(n))) continue;
    uint32_t to = folded(d, n);
    if (to == IR_NONE || !draft_can_stand_for(d, to, result_of(n))) continue;
    draft_replace(d, result_of(n), to);
    done++;
  }
  return done;
}

uint32_t fold_views(draft *d, const pass_env *env) {
  uint32_t done = 0, found = 1;
  (void)env;
  for (int round = 0; found && round < 8; round++) {
    found = 0;
    for (uint32_t c = 0; c < d->ir.chains.count; c++) found += fold_in_chain(d, c);
    done += found;
  }
  return done;
}
