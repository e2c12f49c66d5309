/* Distance. */
#include "backend/cpu/kernels/distance.h"

#include "cpu_ops.h"

clave_status cpu_distance(cpu_stream *s, const node *n) {
  const ir_distance *op = n->instruction->op;
  ktensor a = cpu_tensor(n, op->a), b = cpu_tensor(n, op->b), out = cpu_tensor(n, op->out);
  kernel_distance(&s->kernel, op->p, &a, &b, &out);
  return NULL;
}
