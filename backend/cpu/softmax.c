/* Softmax and log-softmax along any axis. */
#include "backend/cpu/kernels/softmax.h"

#include "cpu_ops.h"

clave_status cpu_softmax(cpu_stream *s, const node *n) {
  const ir_softmax *op = n->instruction->op;
  ktensor x = cpu_tensor(n, op->x), out = cpu_tensor(n, op->out);
  int axis = cpu_axis(op->axis, x.rank);
  x = cpu_axis_last(&x, axis);
  out = cpu_axis_last(&out, axis);
  kernel_softmax(&s->kernel, op->log, &x, &out);
  return NULL;
}
