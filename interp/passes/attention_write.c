/* Writes the attention op: expands operands to the scores' leading sizes, removes repetition of
 * heads, and builds the mask. */
#include "interp/passes/attention.h"

#include <math.h>
#include <string.h>

#include "interp/passes/passes.h"

/* ---------------------------------------------------------------- leading sizes */

bool draft_same_lead(const draft *draft, uint32_t a, uint32_t b) {
  int n = draft_rank(draft, a) - 2;
  if (n != draft_rank(draft, b) - 2) return false;
  for (int i = 0; i < n; i++)
    if (!same_size(draft_size(draft, a, i), draft_size(draft, b, i))) return false;
  return true;
}

bool draft_same_matrix(const draft *draft, uint32_t a, uint32_t b) {
  if (draft_rank(draft, a) < 2 || draft_rank(draft, b) < 2) return false;
  return same_size(draft_size(draft, a, -1), draft_size(draft, b, -1)) &&
         same_size(draft_size(draft, a, -2), draft_size(draft, b, -2));
}

bool lead_fits(const draft *draft, uint32_t x, uint32_t lead) {
  int n = draft_rank(draft, lead) - 2;
  if (draft_rank(draft, x) - 2 != n)
    return same_size(draft_numel(draft, x, 2), draft_numel(draft, lead, 2));
  for (int i = 0; i < n; i++) {
    extent mine = draft_size(draft, x, i);
    if (!same_size(mine, draft_size(draft, lead, i)) && !size_is(mine, 1)) return false;
  }
  return true;
}

/* Sets shape to the leading sizes of `lead` and the last two of x. Returns the rank. */
static int joined_shape(const draft *draft, uint32_t lead, uint32_t x, ir_int_or_vid *shape) {
  int n = draft_rank(draft, lead) - 2;
  for (int i = 0; i < n; i++) shape[i] = *draft_dim(draft, lead, i);
  shape[n] = *draft_dim(draft, x, -2);
  shape[n + 1] = *draft_dim(draft, x, -1);
  return n + 2;
}

/* Reshapes x to the number of leading sizes that `lead` has. */
static uint32_t reshape_lead(match *match, uint32_t x, uint32_t lead) {
  ir_int_or_vid shape[MAX_RANK];
  if (x == IR_NONE || draft_rank(match->draft, x) == draft_rank(match->draft, lead)) return x;
  int rank = joined_shape(match->draft, lead, x, shape);
  return draft_reshape(match->draft, match->root, x, shape, rank);
}

/* Repeats x along leading sizes that are 1. */
static uint32_t expand_lead(match *match, uint32_t x, uint32_t lead) {
  ir_int_or_vid shape[MAX_RANK];
  if (x == IR_NONE || draft_same_lead(match->draft, x, lead)) return x;
  int rank = joined_shape(match->draft, lead, x, shape);
  return draft_expand(match->draft, match->root, x, shape, rank);
}

/* ---------------------------------------------------------------- heads */

static bool is_grown(const draft *draft, uint32_t y, uint32_t one, uint32_t wide, uint32_t x) {
  int rank = draft_rank(draft, x), group = rank - 3; /* axis of the heads */
  for (int i = 0; i < rank; i++) {
    int to = i <= group ? i : i + 1;
    extent extent = draft_size(draft, y, i);
    if (!same_size(draft_size(draft, one, to), extent) ||
        !same_size(draft_size(draft, wide, to), extent))
      return false;
    if (i != group && !same_size(draft_size(draft, x, i), extent)) return false;
  }
  extent heads =
      size_multiply(draft->sizes, draft_size(draft, y, group), draft_size(draft, wide, group + 1));
  return size_is(draft_size(draft, one, group + 1), 1) &&
         same_size(draft_size(draft, x, group), heads);
}

uint32_t ungrouped(const draft *draft, uint32_t x) {
  uint32_t wide = draft_through(draft, x, THROUGH_RESHAPE);
  const ir_expand *expand = draft_op(draft, wide, IR_OP_EXPAND);
  if (!expand || draft_rank(draft, x) < 3 || draft_rank(draft, wide) != draft_rank(draft, x) + 1)
    return IR_NONE;
  if (draft_rank(draft, expand->x) != draft_rank(draft, wide)) return IR_NONE;
  uint32_t y = draft_through(draft, expand->x, 0);
  const ir_reshape *reshape = draft_op(draft, y, IR_OP_RESHAPE);
  if (reshape) y = reshape->x;
  return draft_rank(draft, y) == draft_rank(draft, x) && is_grown(draft, y, expand->x, wide, x)
             ? y
             : IR_NONE;
}

/* True if all sizes except the last are equal. */
static bool same_rows(const draft *draft, uint32_t a, uint32_t b) {
  return draft_same_lead(draft, a, b) &&
         same_size(draft_size(draft, a, -2), draft_size(draft, b, -2));
}

/* Returns k for k^T: the operand of the existing transposition, or else the result of a new one. */
static uint32_t transposed(match *match, uint32_t kt, uint32_t lead) {
  const draft *draft = match->draft;
  int dims[MAX_RANK];
  for (uint32_t x = kt; x != IR_NONE;) {
    const ir_permute *permute = draft_op(draft, x, IR_OP_PERMUTE);
    if (permute) {
      int rank = draft_rank(draft, x);
      bool swaps = true;
      for (int i = 0; i < rank; i++) {
        int want = i < rank - 2 ? i : i == rank - 2 ? rank - 1 : rank - 2;
        int is =
            permute->dims.items[i] < 0 ? permute->dims.items[i] + rank : permute->dims.items[i];
        swaps = swaps && is == want;
      }
      if (swaps && lead_fits(draft, permute->x, lead)) return reshape_lead(match, permute->x, lead);
      break;
    }
    const ir_reshape *reshape = draft_op(draft, x, IR_OP_RESHAPE);
    const ir_copy *copy = draft_op(draft, x, IR_OP_COPY);
    x = reshape && draft_same_matrix(draft, x, reshape->x) ? reshape->x : copy ? copy->x : IR_NONE;
  }
  uint32_t up = reshape_lead(match, kt, lead);
  int rank = up == IR_NONE ? 0 : draft_rank(draft, up);
  for (int i = 0; i < rank; i++) dims[i] = i;
  if (rank < 2) return IR_NONE;
  dims[rank - 2] = rank - 1;
  dims[rank - 1] = rank - 2;
  return draft_permute(match->draft, match->root, up, dims);
}

/* ---------------------------------------------------------------- masks */

bool is_one_mask(const draft *draft, uint32_t mask) {
  for (int i = 0; i < draft_rank(draft, mask) - 2; i++)
    if (!size_is(draft_size(draft, mask, i), 1)) return false;
  return true;
}

/* Returns the mask with the leading sizes of `lead`, or unchanged if it already fits them. */
static uint32_t viewed(match *match, uint32_t mask, uint32_t at, uint32_t lead) {
  const draft *draft = match->draft;
  ir_int_or_vid shape[MAX_RANK];
  bool shared = is_one_mask(draft, mask);
  if (draft_same_lead(draft, at, lead) ||
      (shared && draft_rank(draft, mask) <= draft_rank(draft, lead)))
    return mask;
  int rank = joined_shape(draft, lead, mask, shape);
  for (int i = 0; shared && i < rank - 2; i++) shape[i] = literal_size(1);
  return draft_reshape(match->draft, match->root, mask, shape, rank);
}

static uint32_t sum_of_added(match *match, const found_attention *attention) {
  uint32_t total = IR_NONE;
  for (int i = 0; i < attention->scores.n_added && !match->draft->no_memory; i++) {
    uint32_t next = viewed(match, attention->scores.added[i], attention->scores.added_at[i],
                           attention->probabilities);
    total =
        i ? draft_step(match->draft, match->root, IR_STEP_KIND_ADD, (uint32_t[]){total, next}, 2)
          : next;
  }
  return total;
}

/* Adds a BOOL constant that is true where a float constant is 0. */
static uint32_t seen_constant(match *match, uint32_t bias) {
  tensor tensor;
  draft *draft = match->draft;
  uint32_t c = constant_origin(draft, bias);
  if (c == IR_NONE || !draft_fixed(draft, bias, &tensor)) return IR_NONE;
  int64_t n = tensor_numel(&tensor);
  uint8_t *bytes = draft_alloc(draft, (size_t)n + 1, 1);
  if (!bytes) return IR_NONE;
  for (int64_t i = 0; i < n; i++) bytes[i] = element_of(tensor.type, draft->slots[c].data, i) == 0;
  const ir_int_or_vids *shape = &draft->slots[bias].tensor.shape;
  return draft_constant(draft, DTYPE_BOOL, shape->items, tensor.rank, "mask", bytes);
}

/* True if the constant shows each query exactly the keys up to its own position. A key is visible
 * where the constant is true (BOOL) or 0 (float). */
static bool is_lower_triangle(const draft *draft, uint32_t mask) {
  tensor tensor;
  uint32_t c = constant_origin(draft, mask);
  if (c == IR_NONE || !draft_fixed(draft, mask, &tensor) || tensor.rank < 2) return false;
  bool is_bool = tensor.type == DTYPE_BOOL;
  int64_t n = tensor_numel(&tensor), columns = tensor.dims[tensor.rank - 1],
          rows = tensor.dims[tensor.rank - 2];
  for (int64_t i = 0; i < n; i++) {
    bool seen = (element_of(tensor.type, draft->slots[c].data, i) == 0) != is_bool;
    if (seen != (i % columns <= i / columns % rows)) return false;
  }
  return n > 0;
}

static uint32_t add_mask(match *match, const found_attention *attention) {
  uint32_t mask;
  switch (attention->mask) {
    case MASK_NONE:
      return IR_NONE;
    case MASK_CONDITION:
      mask = viewed(match, attention->scores.condition, attention->scores.condition_at,
                    attention->probabilities);
      return attention->scores.hides
                 ? draft_step(match->draft, match->root, IR_STEP_KIND_LOGICAL_NOT, &mask, 1)
                 : mask;
    case MASK_SEEN:
      return draft_type(match->draft, attention->seen) == DTYPE_BOOL
                 ? attention->seen
                 : seen_constant(match, attention->seen);
    default:
      return sum_of_added(match, attention);
  }
}

/* ---------------------------------------------------------------- the op */

uint32_t add_attention(match *match, const found_attention *attention) {
  draft *draft = match->draft;
  uint32_t lead = attention->probabilities;
  ir_int_or_vid shape[MAX_RANK];
  uint32_t q = expand_lead(match, reshape_lead(match, attention->scores.q, lead), lead),
           v = reshape_lead(match, attention->v, lead);
  uint32_t k = transposed(match, attention->scores.kt, lead);
  if (q == IR_NONE || k == IR_NONE || v == IR_NONE) return IR_NONE;
  bool same_batch = true;
  for (int i = 0; i < draft_rank(draft, lead) - 3; i++)
    same_batch = same_batch && same_size(draft_size(draft, k, i), draft_size(draft, lead, i));
  if (!draft_same_lead(draft, k, v) || !same_batch) {
    k = expand_lead(match, k, lead);
    v = expand_lead(match, v, lead);
  }
  bool lower = attention->mask == MASK_SEEN && is_lower_triangle(draft, attention->seen);
  uint32_t mask = lower ? IR_NONE : add_mask(match, attention);
  if (draft->no_memory) return IR_NONE;
  uint32_t few_k = ungrouped(draft, k), few_v = ungrouped(draft, v);
  if (few_k != IR_NONE && few_v != IR_NONE && same_rows(draft, few_k, few_v)) {
    k = few_k;
    v = few_v;
  }
  int rank = joined_shape(draft, lead, q, shape);
  shape[rank - 1] = *draft_dim(draft, v, -1);
  uint32_t out = draft_slot_new(draft, match->type, shape, rank, match->root->ins.name);
  ir_attention *op = draft_add(draft, match->root, IR_OP_ATTENTION);
  *op = (ir_attention){.q = q, .k = k, .v = v, .mask = mask, .causal = lower, .out = out};
  op->scale = (ir_opt_f64){attention->scores.scale, true};
  op->masked = (ir_opt_f64){attention->scores.fill, !attention->safe};
  draft_note(draft, match->root);
  if (draft->no_memory || draft_same_shape(draft, out, match->out)) return out;
  const ir_int_or_vids *own = &draft->slots[match->out].tensor.shape;
  return draft_reshape(draft, match->root, out, own->items, (int)own->count);
}

/* ---------------------------------------------------------------- existing attention ops */

/* Adds an op with the same attributes as `like` and other operands. */
static uint32_t add_like(match *match, const ir_attention *like) {
  draft *draft = match->draft;
  uint32_t out = draft_slot_like(draft, match->out, match->root->ins.name);
  ir_attention *op = draft_add(draft, match->root, IR_OP_ATTENTION);
  *op = *like;
  op->out = out;
  draft_note(draft, match->root);
  return out;
}

/* Makes attention over repeated key and value heads read the original heads. */
bool find_repeated_heads(match *match, uint32_t *out) {
  if (match->root->ins.op_type != IR_OP_ATTENTION) return false;
  ir_attention o = *(const ir_attention *)match->root->ins.op;
  uint32_t k = ungrouped(match->draft, o.k), v = ungrouped(match->draft, o.v);
  if (k == IR_NONE || v == IR_NONE || !same_rows(match->draft, k, v) ||
      !draft_same_lead(match->draft, o.q, o.k))
    return false;
  o.k = k;
  o.v = v;
  *out = add_like(match, &o);
  return true;
}

/* True if the mask is true everywhere, or adds 0. */
static bool hides_nothing(const draft *draft, uint32_t mask) {
  double n;
  if (!uniform_value(draft, mask, &n)) return false;
  return draft_type(draft, mask) == DTYPE_BOOL ? n != 0 : n == 0;
}

static bool is_causal(const draft *draft, const ir_attention *op) {
  if (draft_type(draft, op->mask) != DTYPE_BOOL || draft_rank(draft, op->mask) < 2) return false;
  return same_size(draft_size(draft, op->mask, -2), draft_size(draft, op->q, -2)) &&
         same_size(draft_size(draft, op->mask, -1), draft_size(draft, op->k, -2)) &&
         is_lower_triangle(draft, op->mask);
}

/* Removes a constant mask that hides nothing; replaces one that hides later keys by `causal`. */
bool find_simple_mask(match *match, uint32_t *out) {
  if (match->root->ins.op_type != IR_OP_ATTENTION) return false;
  ir_attention o = *(const ir_attention *)match->root->ins.op;
  if (o.mask == IR_NONE || o.causal || o.masked.present) return false;
  bool plain = hides_nothing(match->draft, o.mask);
  if (!plain && !is_causal(match->draft, &o)) return false;
  o.mask = IR_NONE;
  o.causal = !plain;
  *out = add_like(match, &o);
  return true;
}
