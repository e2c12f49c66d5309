/* Decides whether the readers of a tensor could read a slice of a wider tensor without a copy. */
#include "interp/passes/match.h"

/* True if a reshape splits the last dimension of x into the last dimensions of `out`. */
static bool splits_last(const draft *draft, uint32_t x, uint32_t out) {
  extent extent = size_literal(1);
  for (int i = 1; i <= draft_rank(draft, out); i++) {
    extent = size_multiply(draft->sizes, extent, draft_size(draft, out, -i));
    if (same_size(extent, draft_size(draft, x, -1))) return true;
  }
  return false;
}

/* Returns the first dimension from `axis` on whose size is not 1; the rank if none exists. */
static int past_ones(const draft *draft, uint32_t tid, int axis) {
  while (axis < draft_rank(draft, tid) && size_is(draft_size(draft, tid, axis), 1)) axis++;
  return axis;
}

bool draft_same_but_ones(const draft *draft, uint32_t x, uint32_t out) {
  int i = past_ones(draft, x, 0), k = past_ones(draft, out, 0);
  while (i < draft_rank(draft, x) && k < draft_rank(draft, out) &&
         same_size(draft_size(draft, x, i), draft_size(draft, out, k))) {
    i = past_ones(draft, x, i + 1);
    k = past_ones(draft, out, k + 1);
  }
  return i == draft_rank(draft, x) && k == draft_rank(draft, out);
}

static bool accepts_strides(const draft_node *node, uint32_t tid) {
  for (operand_iter i = operands_of(&node->ins); next_operand(&i);)
    if (i.operand.tid == tid && !(i.operand.flags & IR_OUT) && (i.operand.flags & IR_DENSE))
      return false;
  return !op_table[node->ins.op_type].is_control;
}

bool draft_can_be_strided(const draft *draft, uint32_t tid, bool in_order) {
  const draft_slot *slot = &draft->slots[tid];
  bool can = !slot->kept;
  for (uint32_t i = 0; i < slot->n_readers && can; i++) {
    const draft_node *node = slot->readers[i];
    uint32_t out = result_of(node);
    if (!op_table[node->ins.op_type].is_view) {
      can = accepts_strides(node, tid);
    } else {
      bool ones = node->ins.op_type == IR_OP_RESHAPE && draft_same_but_ones(draft, tid, out);
      can = (node->ins.op_type != IR_OP_RESHAPE || ones ||
             (in_order && splits_last(draft, tid, out))) &&
            draft_can_be_strided(draft, out, ones && in_order);
    }
  }
  return can;
}
