/* Matmul: broadcasts the operands to one rank. */
#include "backend/cpu/kernels/matmul.h"

#include "cpu_ops.h"

/* x broadcast over out's leading dimensions, its last two kept. */
static ktensor broadcast_batch(const bound_tensor *x, const tensor *out) {
  tensor shape = *out;
  shape.dims[out->rank - 2] = x->t.dims[x->t.rank - 2];
  shape.dims[out->rank - 1] = x->t.dims[x->t.rank - 1];
  tensor t = cpu_broadcast(x, &shape);
  return cpu_bound_view(x, &t);
}

clave_status cpu_matmul(cpu_stream *s, const node *n) {
  const ir_matmul *op = n->instruction->op;
  const bound_tensor *out = &n->tensors[op->out];
  ktensor a = broadcast_batch(&n->tensors[op->a], &out->t),
          b = broadcast_batch(&n->tensors[op->b], &out->t);
  ktensor c = cpu_bound_ktensor(out), bias;
  matmul p = {.a = &a, .b = &b, .out = &c, .alpha = op->alpha, .beta = op->beta};
  if (op->bias != IR_NONE) {
    tensor t = cpu_broadcast(&n->tensors[op->bias], &out->t);
    bias = cpu_bound_view(&n->tensors[op->bias], &t);
    p.bias = &bias;
  }
  return cpu_done(kernel_matmul(&s->kernel, &p));
}
