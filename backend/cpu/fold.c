/* Records Im2col and Col2im. */
#include "ops/fold.h"

#include "backend/cpu/kernels/fold.h"
#include "cpu_ops.h"

static fold_args args_of(cpu_recorder *recorder, const fold_desc *desc) {
  return (fold_args){.x = cpu_operand(recorder, desc->x).data,
                     .out = cpu_operand(recorder, desc->out).data,
                     .type = desc->x->tensor.type,
                     .planes = desc->planes,
                     .size = {desc->size[0], desc->size[1]},
                     .positions = {desc->positions[0], desc->positions[1]},
                     .kernel = {desc->kernel[0], desc->kernel[1]},
                     .stride = {desc->stride[0], desc->stride[1]},
                     .padding = {desc->padding[0], desc->padding[1]},
                     .dilation = {desc->dilation[0], desc->dilation[1]}};
}

clave_status cpu_im2col(cpu_recorder *recorder, const node *node) {
  fold_desc desc;
  describe_im2col(node, &desc);
  const fold_args args = args_of(recorder, &desc);
  return cpu_launch(recorder, im2col, &args);
}

clave_status cpu_col2im(cpu_recorder *recorder, const node *node) {
  fold_desc desc;
  describe_col2im(node, &desc);
  const fold_args args = args_of(recorder, &desc);
  return cpu_launch(recorder, col2im, &args);
}
