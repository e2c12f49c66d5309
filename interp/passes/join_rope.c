/* Joins rotary embeddings of adjacent columns of one tensor, such as queries and keys in a joined
 * product, into one rotary embedding of all heads and slices of its result.
 *
 * The heads, (..., L, n_heads, head_dim), may be views that keep the order of elements. Results
 * with a reader that would have to copy its slice of the heads are not joined. */
#include <string.h>

#include "interp/passes/passes.h"

/* The operand of a Rope: columns [start, start + n_heads * head_dim) of `from`. */
typedef struct rotated {
  draft_node *node;
  uint32_t from;
  int64_t start, n_heads, head_dim;
} rotated;

/* ---------------------------------------------------------------- views */

/* The dimensions of a tensor other than those of size 1, by their position in another tensor that
 * views it. */
typedef struct dim_order {
  int n, at[MAX_RANK];
} dim_order;

static bool join_rope_is_one(const draft *draft, uint32_t tid, int axis) {
  return size_is(draft_size(draft, tid, axis), 1);
}

static dim_order own_order(const draft *draft, uint32_t tid) {
  dim_order order = {0};
  for (int i = 0; i < draft_rank(draft, tid); i++)
    if (!join_rope_is_one(draft, tid, i)) {
      order.at[order.n] = order.n;
      order.n++;
    }
  return order;
}

static bool is_in_order(const dim_order *order) {
  for (int i = 1; i < order->n; i++)
    if (order->at[i] < order->at[i - 1]) return false;
  return true;
}

/* Converts the order of dimensions of a Permute's result to the order of its operand. */
static dim_order before_permute(const draft *draft, const ir_permute *permute,
                                const dim_order *after) {
  int place[MAX_RANK], rank = draft_rank(draft, permute->x), k = 0;
  dim_order order = {0};
  for (int i = 0; i < rank; i++) {
    int axis = permute->dims.items[i] < 0 ? permute->dims.items[i] + rank : permute->dims.items[i];
    place[axis] = join_rope_is_one(draft, permute->out, i) ? -1 : after->at[k++];
  }
  for (int i = 0; i < rank; i++)
    if (place[i] >= 0) order.at[order.n++] = place[i];
  return order;
}

/* Returns the tensor that x views, through all views, if the element order is equal; or IR_NONE. */
static uint32_t source_of_views(const draft *draft, uint32_t x) {
  dim_order order = own_order(draft, x);
  for (;;) {
    const ir_reshape *reshape = draft_op(draft, x, IR_OP_RESHAPE);
    const ir_permute *permute = draft_op(draft, x, IR_OP_PERMUTE);
    if (reshape && is_in_order(&order))
      order = own_order(draft, reshape->x);
    else if (reshape && !draft_same_but_ones(draft, reshape->x, x))
      return IR_NONE;
    else if (permute)
      order = before_permute(draft, permute, &order);
    else if (!reshape)
      return is_in_order(&order) ? x : IR_NONE;
    x = reshape ? reshape->x : permute->x;
  }
}

/* ---------------------------------------------------------------- rotated results */

static bool literal_of(const ir_int_or_vid *value, int64_t *out) {
  *out = value->literal;
  return value->present && value->vid == IR_NONE;
}

/* True for a slice of consecutive columns with a literal start, which is stored in *start. */
static bool accepts_columns(const draft *draft, const ir_slice *slice, int64_t *start) {
  int64_t step = 1;
  int rank = draft_rank(draft, slice->x), axis = slice->axis < 0 ? slice->axis + rank : slice->axis;
  *start = 0;
  if (axis != rank - 1 || (slice->step.present && !literal_of(&slice->step, &step))) return false;
  return step == 1 && (!slice->start.present || literal_of(&slice->start, start)) && *start >= 0;
}

static bool join_rope_match_rotated(const draft *draft, draft_node *node, rotated *out) {
  const ir_rope *op = node->ins.op;
  if (node->ins.op_type != IR_OP_ROPE) return false;
  uint32_t columns = source_of_views(draft, op->x);
  const ir_slice *slice = columns == IR_NONE ? NULL : draft_op(draft, columns, IR_OP_SLICE);
  *out = (rotated){.node = node};
  if (!slice || !accepts_columns(draft, slice, &out->start)) return false;
  out->from = slice->x;
  return literal_of(draft_dim(draft, op->x, -2), &out->n_heads) &&
         literal_of(draft_dim(draft, op->x, -1), &out->head_dim) && out->n_heads > 0 &&
         size_is(draft_size(draft, columns, -1), out->n_heads * out->head_dim) &&
         draft_can_be_strided(draft, op->out, false);
}

/* True if all sizes except the number of heads are equal. */
static bool same_but_heads(const draft *draft, uint32_t a, uint32_t b) {
  int rank = draft_rank(draft, a);
  if (draft_rank(draft, b) != rank) return false;
  for (int i = 0; i < rank; i++)
    if (i != rank - 2 && !same_size(draft_size(draft, a, i), draft_size(draft, b, i))) return false;
  return true;
}

/* True if right's columns directly follow left's, and both use the same angles. */
static bool join_rope_follows(const draft *draft, const rotated *left, const rotated *right) {
  const ir_rope *left_op = left->node->ins.op, *right_op = right->node->ins.op;
  return left->node->chain == right->node->chain && left->from == right->from &&
         left->start + left->n_heads * left->head_dim == right->start &&
         left_op->cos == right_op->cos && left_op->sin == right_op->sin &&
         left_op->interleaved == right_op->interleaved &&
         same_but_heads(draft, left_op->x, right_op->x);
}

/* Finds the Rope, with the same tables, whose columns directly follow those of `first`. */
static bool find_next(const draft *draft, const rotated *first, rotated *next) {
  const draft_slot *cos = &draft->slots[((const ir_rope *)first->node->ins.op)->cos];
  for (uint32_t i = 0; i < cos->n_readers; i++)
    if (join_rope_match_rotated(draft, cos->readers[i], next) &&
        join_rope_follows(draft, first, next))
      return true;
  return false;
}

/* ---------------------------------------------------------------- replacing */

static uint32_t add_slice(draft *draft, draft_node *before, uint32_t x, int axis, int64_t start,
                          int64_t n) {
  ir_int_or_vid shape[MAX_RANK];
  int rank = draft_rank(draft, x);
  memcpy(shape, draft->slots[x].tensor.shape.items, (size_t)rank * sizeof *shape);
  shape[axis] = literal_size(n);
  uint32_t out = draft_slot_new(draft, draft_type(draft, x), shape, rank, before->ins.name);
  ir_slice *op = draft_add(draft, before, IR_OP_SLICE);
  op->x = x;
  op->axis = axis;
  op->start = literal_size(start);
  op->stop = literal_size(start + n);
  op->out = out;
  draft_note(draft, before);
  return out;
}

/* Adds a Rope of the heads of both, before the earlier node. */
static uint32_t join_rope_add_rope(draft *draft, draft_node *before, const rotated *left,
                                   const rotated *right) {
  const ir_rope like = *(const ir_rope *)left->node->ins.op;
  int64_t n_heads = left->n_heads + right->n_heads;
  ir_int_or_vid shape[MAX_RANK];
  int rank = draft_rank(draft, like.x);
  memcpy(shape, draft->slots[like.x].tensor.shape.items, (size_t)rank * sizeof *shape);
  shape[rank - 2] = literal_size(n_heads);
  uint32_t x = add_slice(draft, before, left->from, draft_rank(draft, left->from) - 1, left->start,
                         n_heads * left->head_dim);
  if (!draft->no_memory) x = draft_reshape(draft, before, x, shape, rank);
  if (draft->no_memory) return IR_NONE;
  uint32_t out = draft_slot_like(draft, x, before->ins.name);
  ir_rope *op = draft_add(draft, before, IR_OP_ROPE);
  *op = like;
  op->x = x;
  op->out = out;
  draft_note(draft, before);
  return out;
}

static bool join_rotations(draft *draft, const rotated *left, const rotated *right) {
  draft_node *before = left->node->order < right->node->order ? left->node : right->node;
  uint32_t out = join_rope_add_rope(draft, before, left, right);
  if (draft->no_memory) return false;
  before->prev->order = before->order;
  int axis = draft_rank(draft, out) - 2;
  uint32_t first = add_slice(draft, before, out, axis, 0, left->n_heads);
  uint32_t second = draft->no_memory
                        ? IR_NONE
                        : add_slice(draft, before, out, axis, left->n_heads, right->n_heads);
  if (draft->no_memory) return false;
  uint32_t old[] = {result_of(left->node), result_of(right->node)};
  draft_replace(draft, old[0], first);
  draft_replace(draft, old[1], second);
  return true;
}

uint32_t join_ropes(draft *draft, const pass_env *env) {
  rotated first, next;
  uint32_t order = 0, done = 0;
  (void)env;
  for (draft_node *n = draft_first(draft, 0); n; n = draft_next(draft, n)) n->order = order++;
  for (draft_node *n = draft_first(draft, 0); n && !draft->no_memory;) {
    /* Joining may erase following nodes, so start again. */
    bool joined = join_rope_match_rotated(draft, n, &first) && find_next(draft, &first, &next) &&
                  join_rotations(draft, &first, &next);
    done += joined;
    n = joined ? draft_first(draft, 0) : draft_next(draft, n);
  }
  return done;
}
