/* Random tensors. */
#include "ops/random.h"

#include "backend/cpu/kernels/random.h"
#include "cpu_ops.h"

static const krandom_kind kinds[IR_RANDOM_KIND_COUNT] = {
    [IR_RANDOM_KIND_UNIFORM] = KRANDOM_UNIFORM,
    [IR_RANDOM_KIND_NORMAL] = KRANDOM_NORMAL,
    [IR_RANDOM_KIND_INTEGER] = KRANDOM_INTEGER,
};

clave_status cpu_random(cpu_recorder *r, const node *n) {
  random_form f;
  describe_random(n, &f);
  return cpu_launch(r, random,
                    &(random_args){.kind = kinds[f.kind],
                                   .stream = f.stream,
                                   .low = f.low,
                                   .range = f.range,
                                   .out = cpu_operand(r, f.out).data,
                                   .type = f.out->t.type,
                                   .n = f.n});
}
