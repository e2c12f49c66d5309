/* Records Pad. */
#include "ops/pad.h"

#include <string.h>

#include "backend/cpu/kernels/pad.h"
#include "cpu_ops.h"

static const kpad_mode modes[IR_PAD_MODE_COUNT] = {[IR_PAD_MODE_CONSTANT] = KPAD_CONSTANT,
                                                   [IR_PAD_MODE_REFLECT] = KPAD_REFLECT,
                                                   [IR_PAD_MODE_REPLICATE] = KPAD_REPLICATE,
                                                   [IR_PAD_MODE_CIRCULAR] = KPAD_CIRCULAR};

clave_status cpu_pad(cpu_recorder *recorder, const node *node) {
  pad_desc desc;
  describe_pad(node, &desc);
  pad_args args = {.mode = modes[desc.mode],
                   .x = cpu_operand(recorder, &desc.x),
                   .out = cpu_operand(recorder, &desc.out),
                   .value = desc.value};
  memcpy(args.before, desc.before, sizeof args.before);
  return cpu_launch(recorder, pad, &args);
}
