/* Removes the cast of an F16 or BF16 operand b of an F32 product: the product itself widens b. So a
 * 16-bit weight is stored only once and is not cast in each run. */
#include "interp/passes/passes.h"

/* Returns the operand of the cast, before or after a Permute; IR_NONE if b is not such a cast. */
static uint32_t narrow_of(draft *draft, draft_node *at, uint32_t b) {
  const ir_permute *permute = draft_op(draft, b, IR_OP_PERMUTE);
  uint32_t narrow = cast_of(draft, permute ? permute->x : b);
  int dims[MAX_RANK];
  if (narrow == IR_NONE) return IR_NONE;
  if (draft_type(draft, narrow) != DTYPE_F16 && draft_type(draft, narrow) != DTYPE_BF16)
    return IR_NONE;
  if (!permute) return narrow;
  for (uint32_t i = 0; i < permute->dims.count; i++) dims[i] = permute->dims.items[i];
  return draft_permute(draft, at, narrow, dims);
}

bool find_narrow_b(match *match, uint32_t *out) {
  const ir_matmul *op = match->root->ins.op;
  if (match->root->ins.op_type != IR_OP_MATMUL || match->type != DTYPE_F32 || op->b_transposed)
    return false;
  uint32_t b = narrow_of(match->draft, match->root, op->b);
  if (b == IR_NONE) return false;
  *out = draft_slot_like(match->draft, op->out, match->root->ins.name);
  ir_matmul *made = draft_add(match->draft, match->root, IR_OP_MATMUL);
  *made = *op;
  made->b = b;
  made->out = *out;
  draft_note(match->draft, match->root);
  return true;
}
