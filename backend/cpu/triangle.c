/* Triangle: tril and triu. */
#include "backend/cpu/kernels/triangle.h"

#include "cpu_ops.h"

clave_status cpu_triangle(cpu_stream *s, const node *n) {
  const ir_triangle *op = n->instruction->op;
  ktensor x = cpu_tensor(n, op->x), out = cpu_tensor(n, op->out);
  kernel_triangle(&s->kernel, &x, op->diagonal, op->upper, &out);
  return NULL;
}
