/* A product whose b is F16 or BF16 and cast to F32 first: b is read as it is, and widened where it
 * is multiplied. A weight of 16 bits with F32 rows is one in memory then, and no cast in each run.
 */
#include "interp/passes/passes.h"

/* What is cast, before or behind a Permute; IR_NONE: b is something else. */
static uint32_t narrow_of(draft *d, draft_node *at, uint32_t b) {
  const ir_permute *turned = draft_op(d, b, IR_OP_PERMUTE);
  uint32_t narrow = cast_of(d, turned ? turned->x : b);
  int dims[MAX_RANK];
  if (narrow == IR_NONE) return IR_NONE;
  if (draft_type(d, narrow) != DTYPE_F16 && draft_type(d, narrow) != DTYPE_BF16) return IR_NONE;
  if (!turned) return narrow;
  for (uint32_t i = 0; i < turned->dims.count; i++) dims[i] = turned->dims.items[i];
  return draft_permute(d, at, narrow, dims);
}

bool find_narrow_b(match *m, uint32_t *out) {
  const ir_matmul *o = m->root->ins.op;
  if (m->root->ins.op_type != IR_OP_MATMUL || m->type != DTYPE_F32 || o->b_transposed) return false;
  uint32_t b = narrow_of(m->d, m->root, o->b);
  if (b == IR_NONE) return false;
  *out = draft_slot_like(m->d, o->out, m->root->ins.name);
  ir_matmul *made = draft_add(m->d, m->root, IR_OP_MATMUL);
  *made = *o;
  made->b = b;
  made->out = *out;
  draft_note(m->d, m->root);
  return true;
}
