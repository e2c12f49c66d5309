/* Cat: each operand is copied to its place along the axis. */
#include "backend/cpu/kernels/copy.h"
#include "cpu_ops.h"

clave_status cpu_cat(cpu_stream *s, const node *n) {
  const ir_cat *op = n->instruction->op;
  const bound_tensor *out = &n->tensors[op->out];
  int axis = cpu_axis(op->axis, out->t.rank);
  tensor part = out->t;
  for (uint32_t k = 0; k < op->xs.count; k++) {
    const bound_tensor *x = &n->tensors[op->xs.items[k]];
    if (tensor_numel(&x->t) == 0) continue;
    part.dims[axis] = x->t.dims[axis];
    ktensor from = cpu_bound_ktensor(x), to = cpu_bound_view(out, &part);
    kernel_copy(&s->kernel, &from, &to);
    part.offset += part.dims[axis] * part.strides[axis];
  }
  return NULL;
}
