/* Pool and AdaptivePool: fewer than three spatial dimensions become three. */
#include "backend/cpu/kernels/pool.h"

#include "backend/cpu/kernels/walk.h"
#include "cpu_ops.h"

/* The operands of both ops: planes of the last `spatial` dimensions. */
static pool bind_planes(const node *n, uint32_t x_tid, uint32_t out_tid, uint32_t indices_tid,
                        int spatial) {
  ktensor x = cpu_tensor(n, x_tid), out = cpu_tensor(n, out_tid);
  pool p = {.x = x.data, .y = out.data, .type = x.type};
  p.planes = product_of(x.dims, x.rank - spatial);
  cpu_align_dims(&x, spatial, p.in);
  cpu_align_dims(&out, spatial, p.out);
  if (indices_tid != IR_NONE) p.indices = cpu_tensor(n, indices_tid).data;
  return p;
}

clave_status cpu_pool(cpu_stream *s, const node *n) {
  const ir_pool *op = n->instruction->op;
  int spatial = (int)op->kernel.count;
  pool p = bind_planes(n, op->x, op->out, op->indices, spatial);
  p.average = op->kind == IR_POOL_KIND_AVG;
  cpu_align_right(&op->kernel, spatial, 1, p.kernel);
  cpu_align_right(op->stride.count > 0 ? &op->stride : &op->kernel, spatial, 1, p.stride);
  cpu_align_right(&op->padding, spatial, 0, p.padding);
  cpu_align_right(&op->dilation, spatial, 1, p.dilation);
  p.count_include_pad = op->count_include_pad;
  p.divisor = op->divisor.present ? op->divisor.value : 0;
  return cpu_done(kernel_pool(&s->kernel, &p));
}

clave_status cpu_adaptive_pool(cpu_stream *s, const node *n) {
  const ir_adaptive_pool *op = n->instruction->op;
  int spatial = n->tensors[op->x].t.rank - 2;
  pool p = bind_planes(n, op->x, op->out, op->indices, spatial);
  p.average = op->kind == IR_POOL_KIND_AVG;
  p.adaptive = true;
  return cpu_done(kernel_pool(&s->kernel, &p));
}
