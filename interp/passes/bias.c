/* Makes a vector that is added to a product the product's bias. Exporters to ONNX write linear
 * layers as a product and a sum. */
#include "interp/passes/passes.h"

/* True for a constant with one element for each column of `out`, all other sizes being 1. */
static bool is_row(const draft *draft, uint32_t tid, uint32_t out) {
  tensor row;
  if (draft->slots[tid].kind != SLOT_CONSTANT || !draft_fixed(draft, tid, &row)) return false;
  return row.rank >= 1 && row.rank <= draft_rank(draft, out) &&
         tensor_numel(&row) == row.dims[row.rank - 1] &&
         size_is(draft_size(draft, out, -1), row.dims[row.rank - 1]);
}

/* Returns the product that only this sum reads, and that has no bias yet; else NULL. */
static const ir_matmul *plain_product(const match *match, expr operand) {
  const draft *draft = match->draft;
  if (operand.kind != EXPR_TENSOR || expr_readers(draft, operand) != 1) return NULL;
  const ir_matmul *op = draft_op(draft, operand.index, IR_OP_MATMUL);
  const bool plain = op && op->bias == IR_NONE && op->epilogue.count == 0;
  return plain && draft_same_shape(draft, operand.index, match->out) ? op : NULL;
}

bool find_bias(match *match, uint32_t *out) {
  draft *draft = match->draft;
  const ir_elementwise *sum = match->root->ins.op;
  expr args[MAX_STEP_ARITY];
  if (match->root->ins.op_type != IR_OP_ELEMENTWISE || sum->steps.count != 1 ||
      !dtype_is_float(match->type) ||
      !match_step(match, tensor_expr(match->out), IR_STEP_KIND_ADD, args))
    return false;
  for (int i = 0; i < 2; i++) {
    const ir_matmul *op = plain_product(match, args[i]);
    if (!op || args[1 - i].kind != EXPR_TENSOR || !is_row(draft, args[1 - i].index, match->out))
      continue;
    if (!match_covers(match, draft->slots[op->out].writer) || !match_is_closed(match)) return false;
    *out = draft_slot_like(draft, op->out, match->root->ins.name);
    ir_matmul *made = draft_add(draft, match->root, IR_OP_MATMUL);
    *made = *op;
    made->bias = args[1 - i].index;
    made->beta = 1;
    made->out = *out;
    draft_note(draft, match->root);
    return true;
  }
  return false;
}
