/* Simplifies chains of views: merges reshapes of reshapes and permutations of permutations, drops
 * dimensions of size 1 from permutations, and removes copies and views that change nothing. */
#include <string.h>

#include "interp/passes/passes.h"

/* Reshapes x to the shape of the node's result, unless it already has that shape. */
static uint32_t reshaped(draft *draft, draft_node *node, uint32_t x) {
  const ir_int_or_vids *shape = &draft->slots[result_of(node)].tensor.shape;
  if (draft_same_shape(draft, x, result_of(node))) return x;
  return draft_reshape(draft, node, x, shape->items, (int)shape->count);
}

static uint32_t fold_reshape(draft *draft, draft_node *node) {
  const ir_reshape *op = node->ins.op, *inner = draft_op(draft, op->x, IR_OP_RESHAPE);
  if (inner) return reshaped(draft, node, inner->x);
  return draft_same_shape(draft, op->x, op->out) ? op->x : IR_NONE;
}

static void orders_of(const ir_permute *op, int *dims) {
  int rank = (int)op->dims.count;
  for (int i = 0; i < rank; i++)
    dims[i] = op->dims.items[i] < 0 ? op->dims.items[i] + rank : op->dims.items[i];
}

static bool is_identity(const int *dims, int rank) {
  for (int i = 0; i < rank; i++)
    if (dims[i] != i) return false;
  return true;
}

/* True if only reshapes and permutations read the slot. */
static bool is_viewed_only(const draft *draft, uint32_t tid) {
  const draft_slot *slot = &draft->slots[tid];
  for (uint32_t i = 0; i < slot->n_readers; i++) {
    ir_op op = slot->readers[i]->ins.op_type;
    if (op != IR_OP_RESHAPE && op != IR_OP_PERMUTE) return false;
  }
  return !slot->kept;
}

/* Permutes only dimensions of size > 1; a reshape suffices if these keep their order. */
static uint32_t without_ones(draft *draft, draft_node *node, const int *dims) {
  const ir_permute *op = node->ins.op;
  int rank = draft_rank(draft, op->x), place[MAX_RANK], order[MAX_RANK], kept = 0, m = 0;
  ir_int_or_vid shape[MAX_RANK];
  for (int i = 0; i < rank; i++) {
    place[i] = size_is(draft_size(draft, op->x, i), 1) ? -1 : kept;
    if (place[i] >= 0) shape[kept++] = *draft_dim(draft, op->x, i);
  }
  for (int i = 0; i < rank; i++)
    if (place[dims[i]] >= 0) order[m++] = place[dims[i]];
  if (is_identity(order, kept)) return reshaped(draft, node, op->x);
  if (kept == rank || !is_viewed_only(draft, op->out)) return IR_NONE;
  uint32_t squeezed = draft_reshape(draft, node, op->x, shape, kept);
  return squeezed == IR_NONE ? IR_NONE
                             : reshaped(draft, node, draft_permute(draft, node, squeezed, order));
}

static uint32_t fold_permute(draft *draft, draft_node *node) {
  const ir_permute *op = node->ins.op, *inner = draft_op(draft, op->x, IR_OP_PERMUTE);
  int dims[MAX_RANK], first[MAX_RANK], both[MAX_RANK], rank = draft_rank(draft, op->x);
  orders_of(op, dims);
  if (is_identity(dims, rank)) return op->x;
  if (!inner) return without_ones(draft, node, dims);
  orders_of(inner, first);
  for (int i = 0; i < rank; i++) both[i] = first[dims[i]];
  return is_identity(both, rank) ? inner->x : draft_permute(draft, node, inner->x, both);
}

static uint32_t fold_expand(const draft *draft, const draft_node *node) {
  const ir_expand *op = node->ins.op;
  return draft_same_shape(draft, op->x, op->out) ? op->x : IR_NONE;
}

static uint32_t fold_slice(const draft *draft, const draft_node *node) {
  const ir_slice *op = node->ins.op;
  bool whole = (!op->step.present || (op->step.vid == IR_NONE && op->step.literal == 1)) &&
               (!op->start.present || (op->start.vid == IR_NONE && op->start.literal == 0));
  return whole && draft_same_shape(draft, op->x, op->out) ? op->x : IR_NONE;
}

/* Returns a tensor that can replace the node's result; else IR_NONE. */
static uint32_t folded(draft *draft, draft_node *node) {
  switch (node->ins.op_type) {
    case IR_OP_RESHAPE:
      return fold_reshape(draft, node);
    case IR_OP_PERMUTE:
      return fold_permute(draft, node);
    case IR_OP_EXPAND:
      return fold_expand(draft, node);
    case IR_OP_SLICE:
      return fold_slice(draft, node);
    case IR_OP_COPY:
      return ((const ir_copy *)node->ins.op)->x;
    default:
      return IR_NONE;
  }
}

static uint32_t fold_in_chain(draft *draft, uint32_t chain) {
  uint32_t done = 0;
  for (draft_node *n = draft->chains[chain].first, *next; n && !draft->no_memory; n = next) {
    next = n->next;
    if (!draft_is_read(draft, result_of(n) == IR_NONE ? 0 : result_of(n))) continue;
    uint32_t to = folded(draft, n);
    if (to == IR_NONE || !draft_can_replace(draft, to, result_of(n))) continue;
    draft_replace(draft, result_of(n), to);
    done++;
  }
  return done;
}

uint32_t fold_views(draft *draft, const pass_env *env) {
  uint32_t done = 0, found = 1;
  (void)env;
  for (int round = 0; found && round < 8; round++) {
    found = 0;
    for (uint32_t c = 0; c < draft->ir.chains.count; c++) found += fold_in_chain(draft, c);
    done += found;
  }
  return done;
}
