/* Random tensors. */
#include "backend/cpu/kernels/random.h"

#include "cpu_ops.h"

static const krandom_kind kinds[IR_RANDOM_KIND_COUNT] = {
    [IR_RANDOM_KIND_UNIFORM] = KRANDOM_UNIFORM,
    [IR_RANDOM_KIND_NORMAL] = KRANDOM_NORMAL,
    [IR_RANDOM_KIND_INTEGER] = KRANDOM_INTEGER,
};

clave_status cpu_random(cpu_stream *s, const node *n) {
  const ir_random *op = n->instruction->op;
  ktensor out = cpu_tensor(n, op->out);
  krandom r = {.kind = kinds[op->kind],
               .seed = s->kernel.seed,
               .stream = op->stream,
               .run = (uint32_t)s->kernel.stretch};
  if (r.kind == KRANDOM_INTEGER) {
    r.low = cpu_int(n, &op->low);
    r.range = (uint64_t)cpu_int(n, &op->high) - (uint64_t)r.low;
  }
  kernel_random(&s->kernel, &r, &out);
  return NULL;
}
