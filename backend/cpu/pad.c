/* Records Pad. */
#include "ops/pad.h"

#include <string.h>

#include "backend/cpu/kernels/pad.h"
#include "cpu_ops.h"

static const kpad_mode modes[IR_PAD_MODE_COUNT] = {[IR_PAD_MODE_CONSTANT] = KPAD_CONSTANT,
                                                   [IR_PAD_MODE_REFLECT] = KPAD_REFLECT,
                                                   [IR_PAD_MODE_REPLICATE] = KPAD_REPLICATE,
                                                   [IR_PAD_MODE_CIRCULAR] = KPAD_CIRCULAR};

/* Merges a last dimension that is not padded into the one before, which makes rows longer. */
static void merge_last(pad_args *args) {
  ktensor *x = &args->x, *out = &args->out;
  while (args->mode == KPAD_CONSTANT && x->rank > 1) {
    const int last = x->rank - 1;
    const int64_t n = x->dims[last];
    if (args->before[last] != 0 || out->dims[last] != n ||
        x->strides[last - 1] != n * x->strides[last])
      return;
    x->dims[last - 1] *= n;
    x->strides[last - 1] = x->strides[last];
    out->dims[last - 1] *= n;
    out->strides[last - 1] = out->strides[last];
    args->before[last - 1] *= n;
    x->rank = out->rank = last;
  }
}

clave_status cpu_pad(cpu_recorder *recorder, const node *node) {
  pad_desc desc;
  describe_pad(node, &desc);
  pad_args args = {.mode = modes[desc.mode],
                   .x = cpu_operand(recorder, &desc.x),
                   .out = cpu_operand(recorder, &desc.out),
                   .value = desc.value};
  memcpy(args.before, desc.before, sizeof args.before);
  merge_last(&args);
  return cpu_launch(recorder, pad, &args);
}
