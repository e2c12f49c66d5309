/* Pad: host scalars and the pad value for the kernel. */
#include "backend/cpu/kernels/pad.h"

#include "backend/cpu/kernels/rows.h"
#include "cpu_ops.h"

static const kpad_mode modes[IR_PAD_MODE_COUNT] = {[IR_PAD_MODE_CONSTANT] = KPAD_CONSTANT,
                                                   [IR_PAD_MODE_REFLECT] = KPAD_REFLECT,
                                                   [IR_PAD_MODE_REPLICATE] = KPAD_REPLICATE,
                                                   [IR_PAD_MODE_CIRCULAR] = KPAD_CIRCULAR};

clave_status cpu_pad(cpu_stream *s, const node *n) {
  const ir_pad *op = n->instruction->op;
  ktensor x = cpu_tensor(n, op->x), out = cpu_tensor(n, op->out);
  int64_t before[KERNEL_MAX_RANK] = {0};
  for (uint32_t d = 0; d < op->before.count && d < KERNEL_MAX_RANK; d++)
    before[d] = cpu_int(n, &op->before.items[d]);
  uint64_t value = 0; /* room for one element of any dtype */
  store_row(COMPUTE_F64, x.type, &value, 1, 1, &op->value);
  kernel_pad(&s->kernel, &x, before, modes[op->mode], &value, &out);
  return NULL;
}
