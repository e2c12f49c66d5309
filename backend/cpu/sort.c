/* Sort along any axis. */
#include "backend/cpu/kernels/sort.h"

#include "cpu_ops.h"

clave_status cpu_sort(cpu_stream *s, const node *n) {
  const ir_sort *op = n->instruction->op;
  ktensor x = cpu_tensor(n, op->x), out = cpu_tensor(n, op->out), indices;
  int axis = cpu_axis(op->axis, x.rank);
  x = cpu_axis_last(&x, axis);
  out = cpu_axis_last(&out, axis);
  if (op->indices != IR_NONE) {
    indices = cpu_tensor(n, op->indices);
    indices = cpu_axis_last(&indices, axis);
  }
  return cpu_done(
      kernel_sort(&s->kernel, op->descending, &x, &out, op->indices != IR_NONE ? &indices : NULL));
}
