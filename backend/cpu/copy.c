/* Copy: a contiguous copy of a strided operand. */
#include "backend/cpu/kernels/copy.h"

#include "cpu_ops.h"

clave_status cpu_copy(cpu_stream *s, const node *n) {
  const ir_copy *op = n->instruction->op;
  ktensor x = cpu_tensor(n, op->x), out = cpu_tensor(n, op->out);
  kernel_copy(&s->kernel, &x, &out);
  return NULL;
}
