/* Conv: one spatial dimension becomes two. */
#include "backend/cpu/kernels/conv.h"

#include "cpu_ops.h"

static void align_dims(const ktensor *t, int n, int64_t out[2]) {
  out[0] = 1;
  for (int k = 0; k < n; k++) out[2 - n + k] = t->dims[2 + k];
}

clave_status cpu_conv(cpu_stream *s, const node *n) {
  const ir_conv *op = n->instruction->op;
  ktensor x = cpu_tensor(n, op->x), weight = cpu_tensor(n, op->weight),
          out = cpu_tensor(n, op->out);
  conv p = {.x = x.data,
            .weight = weight.data,
            .y = out.data,
            .type = x.type,
            .weight_type = weight.type,
            .out_type = out.type,
            .batch = x.dims[0],
            .channels = x.dims[1],
            .outputs = out.dims[1],
            .groups = op->groups};
  int spatial = x.rank - 2;
  align_dims(&x, spatial, p.in);
  align_dims(&weight, spatial, p.kernel);
  align_dims(&out, spatial, p.out);
  cpu_align_right(&op->stride, spatial, 1, p.stride);
  cpu_align_right(&op->padding, spatial, 0, p.padding);
  cpu_align_right(&op->dilation, spatial, 1, p.dilation);
  if (op->bias != IR_NONE) {
    ktensor bias = cpu_tensor(n, op->bias);
    p.bias = bias.data;
    p.bias_type = bias.type;
  }
  return cpu_done(kernel_conv(&s->kernel, &p));
}
