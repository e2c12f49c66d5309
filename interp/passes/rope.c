/* Replaces written-out rotary embeddings by Rope. Two forms match: x cos + rotated(x) sin, with
 * tables that contain each number twice, in halves or pairs; and a form that rotates the two parts
 * of x separately, like a product of complex numbers. Su et al., https://arxiv.org/abs/2104.09864.
 *
 * Pairs are elements 2k and 2k + 1, in memory order, of a tensor whose last axis is even. Reshapes
 * keep them. */
#include <string.h>

#include "interp/passes/passes.h"
#include "ops/ops.h"

enum { MAX_VISITS = 256 };

/* A match, which is replaced by a Rope of the elements of x, in the shape of `like` with a last
 * axis of 2 n_pairs. */
typedef struct rotation {
  uint32_t x, like;
  int64_t n_pairs;
  uint32_t cos, sin; /* broadcast to the Rope's shape */
  bool doubled;      /* the last axis of cos and sin is 2 n_pairs; else n_pairs */
  bool interleaved;
  int axis;   /* axis of the length: -2 or -3 */
  int n_lead; /* number of leading dimensions, before length and heads, that the tables have */
} rotation;

/* ---------------------------------------------------------------- sizes */

/* Returns a dimension if it is a number; else 0. */
static int64_t literal_dim(const draft *draft, uint32_t x, int axis) {
  extent extent = draft_rank(draft, x) >= -axis ? draft_size(draft, x, axis) : size_literal(0);
  return size_is_literal(extent) ? extent.literal : 0;
}

static bool rope_is_even(const draft *draft, uint32_t x) {
  int64_t n = literal_dim(draft, x, -1);
  return n > 0 && n % 2 == 0;
}

static bool rope_is_last(const draft *draft, uint32_t x, int axis) {
  return axis == -1 || axis == draft_rank(draft, x) - 1;
}

static bool same_last(const draft *draft, uint32_t a, uint32_t b) {
  return draft_rank(draft, a) > 0 && draft_rank(draft, b) > 0 &&
         same_size(draft_size(draft, a, -1), draft_size(draft, b, -1));
}

static bool rope_number_of(const ir_int_or_vid *value, int64_t absent, int64_t *out) {
  *out = value->present ? value->literal : absent;
  return !value->present || value->vid == IR_NONE;
}

/* ---------------------------------------------------------------- parts of x */

/* Returns the op that writes x if it has this type, and covers it; else NULL. */
static const void *rope_match(match *match, uint32_t x, ir_op type) {
  const void *op = draft_op(match->draft, x, type);
  return op && match_covers(match, match->draft->slots[x].writer) ? op : NULL;
}

static uint32_t match_reshapes(match *match, uint32_t x) {
  const ir_reshape *op;
  while ((op = rope_match(match, x, IR_OP_RESHAPE)) != NULL) x = op->x;
  return x;
}

/* Matches x[..., first::step] of op->x, whose last size is an even number. */
static bool rope_read_slice(const draft *draft, const ir_slice *op, int64_t *first, int64_t *step) {
  int64_t start, stop, last, size = literal_dim(draft, op->x, -1);
  if (!rope_is_last(draft, op->x, op->axis) || !rope_is_even(draft, op->x)) return false;
  if (!rope_number_of(&op->start, 0, &start) || !rope_number_of(&op->stop, 0, &stop)) return false;
  slice_bounds(size, start, op->stop.present, stop, first, &last);
  return rope_number_of(&op->step, 1, step);
}

/* Matches one element of each pair: every other element, or one along a last axis of 2. Sets
 * *values to the source and *which to 0 or 1. */
static bool match_half_of_pairs(match *match, uint32_t part, uint32_t *values, int64_t *which) {
  int64_t step;
  uint32_t picked = match_reshapes(match, part);
  const ir_select *one = rope_match(match, picked, IR_OP_SELECT);
  const ir_slice *some = rope_match(match, picked, IR_OP_SLICE);
  if (one) {
    *values = one->x;
    if (!rope_is_last(match->draft, *values, one->axis) || !rope_number_of(&one->index, 0, which))
      return false;
    *which += *which < 0 ? 2 : 0;
    return literal_dim(match->draft, *values, -1) == 2;
  }
  if (!some || !rope_read_slice(match->draft, some, which, &step)) return false;
  *values = some->x;
  int64_t n = literal_dim(match->draft, picked, -1), size = literal_dim(match->draft, *values, -1);
  return *which < 2 && 2 * n == size && (step == 2 || n == 1);
}

/* Matches one half of a last axis. Sets *values to the source and *which to 0 or 1. */
static bool match_half(match *match, uint32_t part, uint32_t *values, int64_t *which) {
  int64_t first, step;
  const ir_slice *op = rope_match(match, part, IR_OP_SLICE);
  if (!op || !rope_read_slice(match->draft, op, &first, &step) || step != 1) return false;
  int64_t half = literal_dim(match->draft, op->x, -1) / 2;
  *values = op->x;
  *which = first == half;
  return literal_dim(match->draft, part, -1) == half && (first == 0 || first == half);
}

/* True if `part` is part `which` of *values. If *values is IR_NONE, sets it to the source of
 * `part`, looking through reshapes that keep the pairs. */
static bool rope_match_part(match *match, uint32_t part, bool interleaved, int64_t which,
                            uint32_t *values) {
  uint32_t of;
  int64_t is;
  if (!(interleaved ? match_half_of_pairs : match_half)(match, part, &of, &is) || is != which)
    return false;
  of = draft_through(match->draft, of, interleaved ? THROUGH_RESHAPE : 0);
  if (*values == IR_NONE) *values = of;
  return *values == of;
}

/* Matches two parts that are concatenated along the last axis: parts of one element, or halves. */
static const ir_cat *match_joined(match *match, uint32_t x, bool *interleaved) {
  const ir_cat *op = rope_match(match, x, IR_OP_CAT);
  if (!op || op->xs.count != 2 || !rope_is_last(match->draft, x, op->axis)) return NULL;
  *interleaved = literal_dim(match->draft, op->xs.items[0], -1) == 1;
  return same_last(match->draft, op->xs.items[0], op->xs.items[1]) ? op : NULL;
}

/* ---------------------------------------------------------------- tables */

typedef struct doubling {
  const draft *draft;
  bool interleaved;
  int left; /* number of tensors that may still be visited */
} doubling;

static bool is_doubled(doubling *doubling, uint32_t x);

static bool are_doubled(doubling *doubling, const ir_u32s *xs) {
  bool good = true;
  for (uint32_t i = 0; i < xs->count && good; i++) good = is_doubled(doubling, xs->items[i]);
  return good;
}

static bool is_doubled_constant(const doubling *doubling, uint32_t x) {
  tensor tensor;
  const draft_slot *slot = &doubling->draft->slots[x];
  if (!slot->data || slot->tensor.encoding || !rope_is_even(doubling->draft, x) ||
      !draft_fixed(doubling->draft, x, &tensor))
    return false;
  size_t size = dtype_size(tensor.type) *
                (doubling->interleaved ? 1 : (size_t)tensor.dims[tensor.rank - 1] / 2);
  size_t n = (size_t)tensor_numel(&tensor) * dtype_size(tensor.type);
  for (const char *p = slot->data, *end = p + n; p < end; p += 2 * size)
    if (memcmp(p, p + size, size) != 0) return false;
  return true;
}

/* True if the last axis has one element, so that expanding the tensor repeats this element. */
static bool is_flat(const draft *draft, uint32_t x) {
  return draft_rank(draft, x) == 0 || literal_dim(draft, x, -1) == 1;
}

/* True if every input is doubled, because steps compute each element separately. */
static bool is_doubled_elementwise(doubling *doubling, const ir_elementwise *op) {
  bool good = true;
  for (uint32_t i = 0; i < op->inputs.count && good; i++)
    good =
        is_flat(doubling->draft, op->inputs.items[i]) || is_doubled(doubling, op->inputs.items[i]);
  return good;
}

static bool is_doubled_cat(doubling *doubling, const ir_cat *op) {
  const uint32_t *xs = op->xs.items;
  uint32_t half = op->xs.count / 2;
  if (!rope_is_last(doubling->draft, op->out, op->axis)) return are_doubled(doubling, &op->xs);
  bool repeats = op->xs.count % 2 == 0 && memcmp(xs, xs + half, half * sizeof *xs) == 0;
  if (!doubling->interleaved) return repeats;
  if (repeats && half == 1 && is_flat(doubling->draft, xs[0])) return true;
  for (uint32_t i = 0; i < op->xs.count; i++)
    if (!rope_is_even(doubling->draft, xs[i])) return false;
  return are_doubled(doubling, &op->xs);
}

/* True if x (..., 2 n) is a reshape of y (..., 2, n), whose size 2 was expanded from 1. */
static bool is_repeated(const draft *draft, uint32_t x, uint32_t y) {
  const ir_expand *expand = draft_op(draft, y, IR_OP_EXPAND);
  return expand && literal_dim(draft, y, -2) == 2 &&
         2 * literal_dim(draft, y, -1) == literal_dim(draft, x, -1) &&
         (draft_rank(draft, expand->x) == 1 || literal_dim(draft, expand->x, -2) == 1) &&
         same_last(draft, expand->x, y);
}

static bool is_doubled_reshape(doubling *doubling, const ir_reshape *op) {
  if (doubling->interleaved ? rope_is_even(doubling->draft, op->x)
                            : same_last(doubling->draft, op->x, op->out))
    return is_doubled(doubling, op->x);
  return !doubling->interleaved && is_repeated(doubling->draft, op->out, op->x);
}

static bool indexes_last(const draft *draft, const ir_index *op) {
  bool found = false;
  for (uint32_t i = 0; i < op->axes.count; i++)
    found = found || rope_is_last(draft, op->x, op->axes.items[i]);
  return found;
}

static bool is_doubled_permute(doubling *doubling, const ir_permute *op) {
  return rope_is_last(doubling->draft, op->x, op->dims.items[op->dims.count - 1]) &&
         is_doubled(doubling, op->x);
}

/* True if the last axis of x contains each number twice: equal halves, or equal neighbours. */
static bool is_doubled(doubling *doubling, uint32_t x) {
  const draft *draft = doubling->draft;
  const draft_node *node = draft->slots[x].writer;
  const void *op = node ? node->ins.op : NULL;
  if (doubling->left-- <= 0 || !rope_is_even(draft, x)) return false;
  if (!node) return draft->slots[x].kind == SLOT_CONSTANT && is_doubled_constant(doubling, x);
  const ir_slice *slice = op;
  const ir_expand *expand = op;
  switch (node->ins.op_type) {
    case IR_OP_ELEMENTWISE:
      return is_doubled_elementwise(doubling, op);
    case IR_OP_FULL:
      return true;
    case IR_OP_CAT:
      return is_doubled_cat(doubling, op);
    case IR_OP_RESHAPE:
      return is_doubled_reshape(doubling, op);
    case IR_OP_PERMUTE:
      return is_doubled_permute(doubling, op);
    case IR_OP_EXPAND:
      return is_flat(draft, expand->x) || is_doubled(doubling, expand->x);
    case IR_OP_COPY:
      return is_doubled(doubling, ((const ir_copy *)op)->x);
    case IR_OP_SLICE:
      return !rope_is_last(draft, slice->x, slice->axis) && is_doubled(doubling, slice->x);
    case IR_OP_SELECT:
      return !rope_is_last(draft, ((const ir_select *)op)->x, ((const ir_select *)op)->axis) &&
             is_doubled(doubling, ((const ir_select *)op)->x);
    case IR_OP_INDEX_SELECT:
      return !rope_is_last(draft, ((const ir_index_select *)op)->x,
                           ((const ir_index_select *)op)->axis) &&
             is_doubled(doubling, ((const ir_index_select *)op)->x);
    case IR_OP_INDEX:
      return !indexes_last(draft, op) && is_doubled(doubling, ((const ir_index *)op)->x);
    default:
      return false;
  }
}

static bool is_doubled_table(const draft *draft, uint32_t table, bool interleaved) {
  doubling doubling = {.draft = draft, .interleaved = interleaved, .left = MAX_VISITS};
  return is_doubled(&doubling, table);
}

/* Returns a dimension of the table, counted from the end; 1 if it has fewer. */
static extent table_size(const draft *draft, uint32_t table, int axis) {
  return draft_rank(draft, table) < -axis ? size_literal(1) : draft_size(draft, table, axis);
}

/* True if the table has x's rows along `axis`, -2 or -3, and size 1 along the other one. */
static bool is_along(const draft *draft, uint32_t table, uint32_t x, int axis) {
  return same_size(table_size(draft, table, axis), draft_size(draft, x, axis)) &&
         size_is(table_size(draft, table, -5 - axis), 1);
}

/* Returns the number of the table's dimensions before length and heads; -1 if x has others. */
static int lead_of(const draft *draft, uint32_t table, uint32_t x) {
  int n = 0;
  for (int i = -4; i >= -draft_rank(draft, table); i--)
    if (!size_is(table_size(draft, table, i), 1)) n = -3 - i;
  for (int i = 1; i <= n; i++)
    if (!same_size(table_size(draft, table, -3 - i), draft_size(draft, x, -3 - i))) return -1;
  return n;
}

static bool find_length(const draft *draft, rotation *rotation) {
  int rank = draft_rank(draft, rotation->like);
  if (rank < 3 || draft_rank(draft, rotation->cos) > rank ||
      draft_rank(draft, rotation->sin) > rank)
    return false;
  rotation->n_lead = lead_of(draft, rotation->cos, rotation->like);
  if (rotation->n_lead < 0 || lead_of(draft, rotation->sin, rotation->like) != rotation->n_lead)
    return false;
  for (rotation->axis = -2; rotation->axis >= -3; rotation->axis--)
    if (is_along(draft, rotation->cos, rotation->like, rotation->axis) &&
        is_along(draft, rotation->sin, rotation->like, rotation->axis))
      return true;
  return false;
}

/* True if all tensors have the root's dtype and the tables fit. */
static bool rope_fits(const match *match, rotation *rotation) {
  const draft *draft = match->draft;
  return rotation->n_pairs > 0 && draft_type(draft, rotation->x) == match->type &&
         draft_type(draft, rotation->cos) == match->type &&
         draft_type(draft, rotation->sin) == match->type &&
         same_last(draft, rotation->cos, rotation->like) &&
         same_last(draft, rotation->sin, rotation->like) && find_length(draft, rotation);
}

/* ---------------------------------------------------------------- writing */

static uint32_t with_shape(match *match, uint32_t x, const ir_int_or_vid *shape, int rank) {
  draft *draft = match->draft;
  bool same = draft_rank(draft, x) == rank;
  for (int i = 0; same && i < rank; i++)
    same = same_size(draft_size(draft, x, i), size_of(draft->sizes, &shape[i]));
  return same ? x : draft_reshape(draft, match->root, x, shape, rank);
}

/* Returns the table with only one of each two equal numbers along its last axis. */
static uint32_t add_halved(match *match, uint32_t table, bool interleaved) {
  draft *draft = match->draft;
  int rank = draft_rank(draft, table);
  int64_t size = literal_dim(draft, table, -1);
  ir_int_or_vid shape[MAX_RANK];
  memcpy(shape, draft->slots[table].tensor.shape.items, (size_t)rank * sizeof *shape);
  shape[rank - 1] = literal_size(size / 2);
  uint32_t out = draft_slot_new(draft, match->type, shape, rank, match->root->ins.name);
  ir_slice *op = draft_add(draft, match->root, IR_OP_SLICE);
  *op = (ir_slice){.x = table,
                   .axis = rank - 1,
                   .start = literal_size(0),
                   .stop = literal_size(interleaved ? size : size / 2),
                   .step = literal_size(interleaved ? 2 : 1),
                   .out = out};
  draft_note(draft, match->root);
  return out;
}

/* If x selects one of two parts that were concatenated to pairs, returns that part; else x. */
static uint32_t part_selected_by(const draft *draft, uint32_t x) {
  const ir_select *op = draft_op(draft, x, IR_OP_SELECT);
  if (!op || !rope_is_last(draft, op->x, op->axis) || op->index.vid != IR_NONE) return x;
  const ir_cat *cat = draft_op(draft, draft_through(draft, op->x, THROUGH_RESHAPE), IR_OP_CAT);
  bool fits = cat && cat->xs.count == 2 && rope_is_last(draft, cat->out, cat->axis) &&
              literal_dim(draft, op->x, -1) == 2 && literal_dim(draft, cat->xs.items[0], -1) == 1 &&
              literal_dim(draft, cat->xs.items[1], -1) == 1;
  return fits ? draft_through(draft, cat->xs.items[op->index.literal & 1], THROUGH_RESHAPE) : x;
}

/* Adds a table of shape (lead, L, n_pairs). */
static uint32_t add_table(match *match, const rotation *rotation, uint32_t table) {
  ir_int_or_vid shape[MAX_RANK];
  int rank = 0;
  while (rank < rotation->n_lead) {
    shape[rank] = *draft_dim(match->draft, table, -3 - rotation->n_lead + rank);
    rank++;
  }
  bool has_length = draft_rank(match->draft, table) >= -rotation->axis;
  shape[rank++] = has_length ? *draft_dim(match->draft, table, rotation->axis) : literal_size(1);
  shape[rank++] = literal_size(rotation->n_pairs);
  uint32_t half = rotation->doubled ? add_halved(match, table, rotation->interleaved)
                                    : part_selected_by(match->draft, table);
  return match->draft->no_memory ? IR_NONE : with_shape(match, half, shape, rank);
}

static uint32_t pass_rope_add_rope(match *match, const rotation *rotation, uint32_t x, uint32_t cos,
                                   uint32_t sin) {
  draft *draft = match->draft;
  uint32_t out = draft_slot_like(draft, x, match->root->ins.name);
  ir_rope *op = draft_add(draft, match->root, IR_OP_ROPE);
  *op = (ir_rope){.x = x, .cos = cos, .sin = sin, .interleaved = rotation->interleaved, .out = out};
  draft_note(draft, match->root);
  return out;
}

/* Adds the Rope. x is (..., L, H, D), as the op requires, or (..., H, L, D), which is permuted. */
static uint32_t add_rotation(match *match, const rotation *rotation) {
  draft *draft = match->draft;
  int rank = draft_rank(draft, rotation->like), swap[MAX_RANK];
  ir_int_or_vid shape[MAX_RANK];
  for (int i = 0; i < rank; i++) {
    shape[i] = *draft_dim(draft, rotation->like, i);
    swap[i] = i == rank - 2 ? rank - 3 : i == rank - 3 ? rank - 2 : i;
  }
  shape[rank - 1] = literal_size(2 * rotation->n_pairs);
  uint32_t x = with_shape(match, rotation->x, shape, rank);
  if (rotation->axis == -2 && !draft->no_memory) x = draft_permute(draft, match->root, x, swap);
  uint32_t cos = add_table(match, rotation, rotation->cos),
           sin = add_table(match, rotation, rotation->sin);
  if (draft->no_memory) return IR_NONE;
  uint32_t out = pass_rope_add_rope(match, rotation, x, cos, sin);
  if (rotation->axis == -2 && !draft->no_memory) out = draft_permute(draft, match->root, out, swap);
  const ir_int_or_vids *whole = &draft->slots[match->out].tensor.shape;
  return draft->no_memory ? IR_NONE : with_shape(match, out, whole->items, (int)whole->count);
}

static bool rope_finish(match *match, rotation *rotation, uint32_t *out) {
  if (!rope_fits(match, rotation) || !match_is_closed(match)) return false;
  *out = add_rotation(match, rotation);
  return true;
}

/* ---------------------------------------------------------------- x cos + rotated(x) sin */

/* Matches e = -values. */
static bool match_negated(match *match, uint32_t e, uint32_t *values) {
  expr args[MAX_STEP_ARITY];
  if (!match_step(match, tensor_expr(e), IR_STEP_KIND_NEG, args) || args[0].kind != EXPR_TENSOR)
    return false;
  *values = args[0].index;
  return draft_same_shape(match->draft, *values, e);
}

/* Matches the second parts of x, negated, followed by the first parts, in pairs or halves. */
static bool match_rotated(match *match, uint32_t rotated, uint32_t x, bool *interleaved) {
  uint32_t joined = match_reshapes(match, rotated), minus;
  const ir_cat *op = match_joined(match, joined, interleaved);
  if (!op || !draft_same_shape(match->draft, rotated, x)) return false;
  uint32_t first = *interleaved ? match_reshapes(match, op->xs.items[0]) : op->xs.items[0];
  x = draft_through(match->draft, x, *interleaved ? THROUGH_RESHAPE : 0);
  return (*interleaved || joined == rotated) && match_negated(match, first, &minus) &&
         rope_match_part(match, minus, *interleaved, 1, &x) &&
         rope_match_part(match, op->xs.items[1], *interleaved, 0, &x);
}

/* Matches plain = x cos and rotated = rotated(x) sin. i, k: operand numbers of x and rotated(x). */
static bool match_both(match *match, const expr *plain, const expr *rotated, int i, int k,
                       rotation *found) {
  for (int n = 0; n < 2; n++)
    if (plain[n].kind != EXPR_TENSOR || rotated[n].kind != EXPR_TENSOR) return false;
  *found = (rotation){.x = plain[i].index,
                      .like = plain[i].index,
                      .cos = plain[1 - i].index,
                      .sin = rotated[1 - k].index,
                      .doubled = true};
  found->n_pairs = literal_dim(match->draft, found->x, -1) / 2;
  return rope_is_even(match->draft, found->x) &&
         draft_same_shape(match->draft, found->x, match->out) &&
         match_rotated(match, rotated[k].index, found->x, &found->interleaved) &&
         is_doubled_table(match->draft, found->cos, found->interleaved) &&
         is_doubled_table(match->draft, found->sin, found->interleaved);
}

static bool find_sum(match *match, uint32_t *out) {
  expr sum[MAX_STEP_ARITY], expression[MAX_STEP_ARITY], factor[MAX_STEP_ARITY];
  rotation rotation;
  if (!match_step(match, tensor_expr(match->out), IR_STEP_KIND_ADD, sum) ||
      !match_step(match, sum[0], IR_STEP_KIND_MUL, expression) ||
      !match_step(match, sum[1], IR_STEP_KIND_MUL, factor))
    return false;
  int covered = match->n_inner;
  for (int i = 0; i < 8; i++, match->n_inner = covered) {
    const expr *plain = i & 4 ? factor : expression, *rotated = i & 4 ? expression : factor;
    if (match_both(match, plain, rotated, i & 1, i >> 1 & 1, &rotation))
      return rope_finish(match, &rotation, out);
  }
  return false;
}

/* ---------------------------------------------------------------- parts rotated one by one */

static bool match_product_of(match *match, expr expression, expr left, expr right) {
  expr args[MAX_STEP_ARITY];
  return match_step(match, expression, IR_STEP_KIND_MUL, args) &&
         ((same_expr(args[0], left) && same_expr(args[1], right)) ||
          (same_expr(args[0], right) && same_expr(args[1], left)));
}

/* Matches sum = left left_factor + right right_factor. */
static bool match_sum_of(match *match, uint32_t sum, expr left, expr left_factor, expr right,
                         expr right_factor) {
  expr args[MAX_STEP_ARITY];
  if (!match_step(match, tensor_expr(sum), IR_STEP_KIND_ADD, args)) return false;
  return (match_product_of(match, args[0], left, left_factor) &&
          match_product_of(match, args[1], right, right_factor)) ||
         (match_product_of(match, args[1], left, left_factor) &&
          match_product_of(match, args[0], right, right_factor));
}

/* Matches a_cos = a cos, b_sin = b sin and second = b cos + a sin, where a and b are the
 * parts of x. */
static bool match_separate_parts(match *match, const expr *a_cos, const expr *b_sin,
                                 uint32_t second, rotation *rotation) {
  for (int i = 0; i < 2; i++)
    if (a_cos[i].kind != EXPR_TENSOR || b_sin[i].kind != EXPR_TENSOR) return false;
  int covered = match->n_inner;
  for (int i = 0; i < 4; i++, match->n_inner = covered) {
    expr a = a_cos[i & 1], cos = a_cos[!(i & 1)], b = b_sin[i >> 1], sin = b_sin[!(i >> 1)];
    rotation->x = IR_NONE;
    rotation->like = a.index;
    rotation->cos = cos.index;
    rotation->sin = sin.index;
    rotation->n_pairs = literal_dim(match->draft, a.index, -1);
    if (match_sum_of(match, second, a, sin, b, cos) &&
        rope_match_part(match, a.index, rotation->interleaved, 0, &rotation->x) &&
        rope_match_part(match, b.index, rotation->interleaved, 1, &rotation->x))
      return draft_same_shape(match->draft, a.index, b.index) &&
             draft_same_shape(match->draft, a.index, second);
  }
  return false;
}

/* Matches a concatenation of a cos - b sin and b cos + a sin, in pairs or halves. */
static bool find_joined(match *match, uint32_t *out) {
  expr args[MAX_STEP_ARITY], a_cos[MAX_STEP_ARITY], b_sin[MAX_STEP_ARITY];
  rotation rotation = {0};
  const ir_cat *op = match_joined(match, match->out, &rotation.interleaved);
  if (!op) return false;
  uint32_t part[2] = {op->xs.items[0], op->xs.items[1]};
  for (int i = 0; i < 2 && rotation.interleaved; i++) part[i] = match_reshapes(match, part[i]);
  return match_step(match, tensor_expr(part[0]), IR_STEP_KIND_SUB, args) &&
         match_step(match, args[0], IR_STEP_KIND_MUL, a_cos) &&
         match_step(match, args[1], IR_STEP_KIND_MUL, b_sin) &&
         match_separate_parts(match, a_cos, b_sin, part[1], &rotation) &&
         draft_same_shape(match->draft, part[0], part[1]) && rope_finish(match, &rotation, out);
}

bool find_rope(match *match, uint32_t *out) {
  if (!dtype_is_float(match->type)) return false;
  return match->root->ins.op_type == IR_OP_CAT ? find_joined(match, out) : find_sum(match, out);
}
