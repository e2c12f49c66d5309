/* Cumulate: running sums and products along any axis. */
#include "backend/cpu/kernels/cumulate.h"

#include "cpu_ops.h"

clave_status cpu_cumulate(cpu_stream *s, const node *n) {
  const ir_cumulate *op = n->instruction->op;
  ktensor x = cpu_tensor(n, op->x), out = cpu_tensor(n, op->out);
  int axis = cpu_axis(op->axis, x.rank);
  x = cpu_axis_last(&x, axis);
  out = cpu_axis_last(&out, axis);
  kernel_cumulate(&s->kernel, op->kind == IR_CUMULATE_KIND_PROD, &x, &out);
  return NULL;
}
