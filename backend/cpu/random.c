/* Records random tensors. */
#include "ops/random.h"

#include "backend/cpu/kernels/random.h"
#include "cpu_ops.h"

static const krandom_kind kinds[IR_RANDOM_KIND_COUNT] = {
    [IR_RANDOM_KIND_UNIFORM] = KRANDOM_UNIFORM,
    [IR_RANDOM_KIND_NORMAL] = KRANDOM_NORMAL,
    [IR_RANDOM_KIND_INTEGER] = KRANDOM_INTEGER,
};

clave_status cpu_random(cpu_recorder *recorder, const node *node) {
  random_desc desc;
  describe_random(node, &desc);
  return cpu_launch(recorder, random,
                    &(random_args){.kind = kinds[desc.kind],
                                   .stream = desc.stream,
                                   .low = desc.low,
                                   .range = desc.range,
                                   .out = cpu_operand(recorder, desc.out).data,
                                   .type = desc.out->tensor.type,
                                   .n = desc.n});
}
