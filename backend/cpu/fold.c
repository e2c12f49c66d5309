/* Im2col and Col2im: operands for the kernels. */
#include "backend/cpu/kernels/fold.h"

#include "cpu_ops.h"

static void set_window(fold *p, const ir_i32s *kernel, const ir_i32s *stride,
                       const ir_i32s *padding, const ir_i32s *dilation) {
  for (int d = 0; d < 2; d++) {
    p->kernel[d] = kernel->items[d];
    p->stride[d] = stride->items[d];
    p->padding[d] = padding->items[d];
    p->dilation[d] = dilation->items[d];
    int64_t extent = p->dilation[d] * (p->kernel[d] - 1) + 1;
    p->positions[d] = (p->size[d] + 2 * p->padding[d] - extent) / p->stride[d] + 1;
  }
}

static fold bind_planes(const node *n, uint32_t x, uint32_t out, uint32_t planes) {
  const tensor *t = &n->tensors[planes].t;
  return (fold){.x = cpu_tensor(n, x).data,
                .y = cpu_tensor(n, out).data,
                .type = t->type,
                .planes = t->dims[0] * t->dims[1],
                .size = {t->dims[2], t->dims[3]}};
}

clave_status cpu_im2col(cpu_stream *s, const node *n) {
  const ir_im2col *op = n->instruction->op;
  fold p = bind_planes(n, op->x, op->out, op->x);
  set_window(&p, &op->kernel, &op->stride, &op->padding, &op->dilation);
  kernel_im2col(&s->kernel, &p);
  return NULL;
}

clave_status cpu_col2im(cpu_stream *s, const node *n) {
  const ir_col2im *op = n->instruction->op;
  fold p = bind_planes(n, op->x, op->out, op->out);
  set_window(&p, &op->kernel, &op->stride, &op->padding, &op->dilation);
  kernel_col2im(&s->kernel, &p);
  return NULL;
}
