/* Nonzero. */
#include "backend/cpu/kernels/nonzero.h"

#include "cpu_ops.h"

clave_status cpu_nonzero(cpu_stream *s, const node *n) {
  const ir_nonzero *op = n->instruction->op;
  ktensor x = cpu_tensor(n, op->x), out = cpu_tensor(n, op->out), count = cpu_tensor(n, op->count);
  return cpu_done(kernel_nonzero(&s->kernel, &x, out.data, count.data));
}
