/* Rope: rotary position embedding. */
#include "backend/cpu/kernels/rope.h"

#include "cpu_ops.h"

clave_status cpu_rope(cpu_stream *s, const node *n) {
  const ir_rope *op = n->instruction->op;
  ktensor x = cpu_tensor(n, op->x), out = cpu_tensor(n, op->out);
  ktensor cos = cpu_tensor(n, op->cos), sin = cpu_tensor(n, op->sin);
  kernel_rope(&s->kernel, &x, &cos, &sin, op->interleaved, &out);
  return NULL;
}
