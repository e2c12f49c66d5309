/* Conv and ConvTranspose: fewer than three spatial dimensions become three. */
#include "backend/cpu/kernels/conv.h"

#include "cpu_ops.h"

/* The operands and what both ops have; the attributes' lists have one entry per dimension. */
typedef struct conv_fields {
  uint32_t x, weight, bias, out;
  const ir_i32s *stride, *padding, *dilation;
  int32_t groups;
  bool transposed;
} conv_fields;

static clave_status run_conv(cpu_stream *s, const node *n, const conv_fields *f) {
  ktensor x = cpu_tensor(n, f->x), weight = cpu_tensor(n, f->weight), out = cpu_tensor(n, f->out);
  conv p = {.x = x.data,
            .weight = weight.data,
            .y = out.data,
            .type = x.type,
            .weight_type = weight.type,
            .out_type = out.type,
            .transposed = f->transposed,
            .batch = x.dims[0],
            .channels = x.dims[1],
            .outputs = out.dims[1],
            .groups = f->groups};
  int spatial = x.rank - 2;
  cpu_align_dims(&x, spatial, p.in);
  cpu_align_dims(&weight, spatial, p.kernel);
  cpu_align_dims(&out, spatial, p.out);
  cpu_align_right(f->stride, spatial, 1, p.stride);
  cpu_align_right(f->padding, spatial, 0, p.padding);
  cpu_align_right(f->dilation, spatial, 1, p.dilation);
  if (f->bias != IR_NONE) {
    ktensor bias = cpu_tensor(n, f->bias);
    p.bias = bias.data;
    p.bias_type = bias.type;
  }
  return cpu_done(kernel_conv(&s->kernel, &p));
}

clave_status cpu_conv(cpu_stream *s, const node *n) {
  const ir_conv *op = n->instruction->op;
  return run_conv(s, n,
                  &(conv_fields){op->x, op->weight, op->bias, op->out, &op->stride, &op->padding,
                                 &op->dilation, op->groups, false});
}

clave_status cpu_conv_transpose(cpu_stream *s, const node *n) {
  const ir_conv_transpose *op = n->instruction->op;
  return run_conv(s, n,
                  &(conv_fields){op->x, op->weight, op->bias, op->out, &op->stride, &op->padding,
                                 &op->dilation, op->groups, true});
}
