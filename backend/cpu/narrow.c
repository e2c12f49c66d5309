/* Which ops take operands as BF16 that the program has as F32, in fast precision. */
#include "backend/cpu/kernels/support/narrow.h"

#include "backend/cpu/cpu.h"

bool cpu_takes_narrow(backend *b, const node *n, uint32_t slot) {
  static const struct {
    ir_op op;
    cpu_taking takes;
  } rows[] = {{IR_OP_ADAPTIVE_POOL, adaptive_pool_takes_narrow},
              {IR_OP_CAT, cat_takes_narrow},
              {IR_OP_CONV, conv_takes_narrow},
              {IR_OP_CONV_TRANSPOSE, conv_transpose_takes_narrow},
              {IR_OP_ELEMENTWISE, elementwise_takes_narrow},
              {IR_OP_GROUP_NORM, group_norm_takes_narrow},
              {IR_OP_LAYER_NORM, layer_norm_takes_narrow},
              {IR_OP_MATMUL, matmul_takes_narrow},
              {IR_OP_POOL, pool_takes_narrow},
              {IR_OP_REDUCE, reduce_takes_narrow},
              {IR_OP_RMS_NORM, rms_norm_takes_narrow},
              {IR_OP_UPSAMPLE, upsample_takes_narrow}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].op == n->instruction->op_type)
      return narrow_pays() && cpu_would_take(b, rows[i].takes, n, slot);
  return false;
}
