/* Who would copy a tensor that were a part of a wider one. */
#include "interp/passes/match.h"

/* Are the last dimensions of a reshape of x those that its last is split into? */
static bool splits_last(const draft *d, uint32_t x, uint32_t out) {
  extent n = size_literal(1);
  for (int i = 1; i <= draft_rank(d, out); i++) {
    n = size_multiply(d->sizes, n, draft_size(d, out, -i));
    if (same_size(n, draft_size(d, x, -1))) return true;
  }
  return false;
}

/* The next dimension that is not 1; the rank if there is none. */
static int past_ones(const draft *d, uint32_t tid, int axis) {
  while (axis < draft_rank(d, tid) && size_is(draft_size(d, tid, axis), 1)) axis++;
  return axis;
}

bool draft_same_but_ones(const draft *d, uint32_t x, uint32_t out) {
  int i = past_ones(d, x, 0), k = past_ones(d, out, 0);
  while (i < draft_rank(d, x) && k < draft_rank(d, out) &&
         same_size(draft_size(d, x, i), draft_size(d, out, k))) {
    i = past_ones(d, x, i + 1);
    k = past_ones(d, out, k + 1);
  }
  return i == draft_rank(d, x) && k == draft_rank(d, out);
}

static bool takes_strides(const draft_node *n, uint32_t tid) {
  for (operand_iter i = operands_of(&n->ins); next_operand(&i);)
    if (i.o.tid == tid && !(i.o.flags & IR_OUT) && (i.o.flags & IR_DENSE)) return false;
  return !op_table[n->ins.op_type].is_control;
}

bool draft_can_be_strided(const draft *d, uint32_t tid, bool in_order) {
  const draft_slot *s = &d->slots[tid];
  bool can = !s->kept;
  for (uint32_t i = 0; i < s->n_readers && can; i++) {
    const draft_node *n = s->readers[i];
    uint32_t out = result_of(n);
    if (!op_table[n->ins.op_type].is_view) {
      can = takes_strides(n, tid);
    } else {
      bool ones = n->ins.op_type == IR_OP_RESHAPE && draft_same_but_ones(d, tid, out);
      can = (n->ins.op_type != IR_OP_RESHAPE || ones || (in_order && splits_last(d, tid, out))) &&
            draft_can_be_strided(d, out, ones && in_order);
    }
  }
  return can;
}
