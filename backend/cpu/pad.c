/* Pad. */
#include "ops/pad.h"

#include <string.h>

#include "backend/cpu/kernels/pad.h"
#include "cpu_ops.h"

static const kpad_mode modes[IR_PAD_MODE_COUNT] = {[IR_PAD_MODE_CONSTANT] = KPAD_CONSTANT,
                                                   [IR_PAD_MODE_REFLECT] = KPAD_REFLECT,
                                                   [IR_PAD_MODE_REPLICATE] = KPAD_REPLICATE,
                                                   [IR_PAD_MODE_CIRCULAR] = KPAD_CIRCULAR};

clave_status cpu_pad(cpu_recorder *r, const node *n) {
  pad_form f;
  describe_pad(n, &f);
  pad_args args = {.mode = modes[f.mode],
                   .x = cpu_operand(r, &f.x),
                   .out = cpu_operand(r, &f.out),
                   .value = f.value};
  memcpy(args.before, f.before, sizeof args.before);
  return cpu_launch(r, pad, &args);
}
