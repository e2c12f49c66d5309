/* Moves a slice of rows before the op that computes the rows, so that the other rows are not
 * computed: the logits of the last token only, or the last layer of the first token only. */
#include <string.h>

#include "interp/passes/passes.h"

/* Returns the slice of an operand along `axis`; IR_NONE if memory runs out. */
static uint32_t slice_operand(const match *match, uint32_t x, int axis) {
  draft *draft = match->draft;
  const ir_slice *root = match->root->ins.op;
  ir_int_or_vid shape[MAX_RANK];
  const int rank = draft_rank(draft, x), outer = draft_rank(draft, match->out);
  for (int i = 0; i < rank; i++) shape[i] = *draft_dim(draft, x, i);
  shape[axis] = *draft_dim(draft, match->out, axis + outer - rank);
  const uint32_t out = draft_slot_new(draft, draft_type(draft, x), shape, rank, "");
  ir_slice *made = draft_add(draft, match->root, IR_OP_SLICE);
  *made = *root;
  made->x = x;
  made->axis = axis;
  made->out = out;
  draft_note(draft, match->root);
  return out;
}

/* Adds a copy of the op, whose operands and result the caller sets. */
static void *early_slice_copy(const match *match, ir_op type, const void *op, size_t size,
                              uint32_t *out) {
  *out = draft_slot_like(match->draft, match->out, match->root->ins.name);
  return memcpy(draft_add(match->draft, match->root, type), op, size);
}

/* True if an elementwise op has one element of this operand for each index of the axis, or, in
 * *repeats, one for all. */
static bool early_slice_reads(const draft *draft, uint32_t tid, int axis, uint32_t out,
                              bool *repeats) {
  const int own = axis - (draft_rank(draft, out) - draft_rank(draft, tid));
  *repeats = own < 0 || size_is(draft_size(draft, tid, own), 1);
  return *repeats || same_size(draft_size(draft, tid, own), draft_size(draft, out, axis));
}

static bool slice_elementwise(const match *match, const ir_elementwise *op, int axis,
                              uint32_t *out) {
  draft *draft = match->draft;
  const uint32_t *inputs = op->inputs.items;
  bool repeats, all_repeat = true;
  for (uint32_t i = 0; i < op->inputs.count; i++) {
    if (!early_slice_reads(draft, inputs[i], axis, op->out, &repeats)) return false;
    all_repeat = all_repeat && repeats;
  }
  if (all_repeat) return false;
  uint32_t *sliced = draft_alloc(draft, op->inputs.count, sizeof *sliced);
  for (uint32_t i = 0; sliced && i < op->inputs.count; i++) {
    (void)early_slice_reads(draft, inputs[i], axis, op->out, &repeats);
    const int own = axis - (draft_rank(draft, op->out) - draft_rank(draft, inputs[i]));
    sliced[i] = repeats ? inputs[i] : slice_operand(match, inputs[i], own);
  }
  ir_elementwise *made = early_slice_copy(match, IR_OP_ELEMENTWISE, op, sizeof *op, out);
  if (sliced) made->inputs.items = sliced;
  made->out = *out;
  draft_note(draft, match->root);
  return true;
}

static bool slice_product(const match *match, const ir_matmul *op, int axis, uint32_t *out) {
  draft *draft = match->draft;
  if (axis + 1 >= draft_rank(draft, op->a) || draft_rank(draft, op->b) != 2 || op->epilogue.count ||
      (op->bias != IR_NONE && draft_rank(draft, op->bias) != 1))
    return false;
  const uint32_t rows = slice_operand(match, op->a, axis);
  ir_matmul *made = early_slice_copy(match, IR_OP_MATMUL, op, sizeof *op, out);
  made->a = rows;
  made->out = *out;
  draft_note(draft, match->root);
  return true;
}

/* Returns the slice of a norm's operand; IR_NONE if the axis is normalised or steps follow. */
static uint32_t slice_rows(const match *match, uint32_t x, int n_axes, uint32_t n_steps, int axis) {
  if (axis + n_axes >= draft_rank(match->draft, x) || n_steps) return IR_NONE;
  return slice_operand(match, x, axis);
}

static bool slice_rms_norm(const match *match, const ir_rms_norm *op, int axis, uint32_t *out) {
  const uint32_t rows = slice_rows(match, op->x, op->n_axes, op->epilogue.count, axis);
  if (rows == IR_NONE) return false;
  ir_rms_norm *made = early_slice_copy(match, IR_OP_RMS_NORM, op, sizeof *op, out);
  made->x = rows;
  made->out = *out;
  draft_note(match->draft, match->root);
  return true;
}

static bool slice_layer_norm(const match *match, const ir_layer_norm *op, int axis, uint32_t *out) {
  const uint32_t rows = slice_rows(match, op->x, op->n_axes, op->epilogue.count, axis);
  if (rows == IR_NONE) return false;
  ir_layer_norm *made = early_slice_copy(match, IR_OP_LAYER_NORM, op, sizeof *op, out);
  made->x = rows;
  made->out = *out;
  draft_note(match->draft, match->root);
  return true;
}

bool find_early_slice(match *match, uint32_t *out) {
  const draft *draft = match->draft;
  const ir_slice *slice = match->root->ins.op;
  if (match->root->ins.op_type != IR_OP_SLICE) return false;
  const draft_slot *rows = &draft->slots[slice->x];
  const int axis = slice->axis < 0 ? slice->axis + draft_rank(draft, slice->x) : slice->axis;
  if (rows->n_readers != 1 || rows->kept || !rows->writer ||
      rows->writer->chain != match->root->chain ||
      /* a copy or a reversal, which leaves no rows out */
      same_size(draft_size(draft, slice->x, axis), draft_size(draft, slice->out, axis)))
    return false;
  const void *op = rows->writer->ins.op;
  switch (rows->writer->ins.op_type) {
    case IR_OP_ELEMENTWISE:
      return slice_elementwise(match, op, axis, out);
    case IR_OP_MATMUL:
      return slice_product(match, op, axis, out);
    case IR_OP_RMS_NORM:
      return slice_rms_norm(match, op, axis, out);
    case IR_OP_LAYER_NORM:
      return slice_layer_norm(match, op, axis, out);
    default:
      return false;
  }
}
