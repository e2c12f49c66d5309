/* Im2col and Col2im. */
#include "ops/fold.h"

#include "backend/cpu/kernels/fold.h"
#include "cpu_ops.h"

static fold_args args_of(cpu_recorder *r, const fold_form *f) {
  return (fold_args){.x = cpu_operand(r, f->x).data,
                     .out = cpu_operand(r, f->out).data,
                     .type = f->x->t.type,
                     .planes = f->planes,
                     .size = {f->size[0], f->size[1]},
                     .positions = {f->positions[0], f->positions[1]},
                     .kernel = {f->kernel[0], f->kernel[1]},
                     .stride = {f->stride[0], f->stride[1]},
                     .padding = {f->padding[0], f->padding[1]},
                     .dilation = {f->dilation[0], f->dilation[1]}};
}

clave_status cpu_im2col(cpu_recorder *r, const node *n) {
  fold_form f;
  describe_im2col(n, &f);
  const fold_args args = args_of(r, &f);
  return cpu_launch(r, im2col, &args);
}

clave_status cpu_col2im(cpu_recorder *r, const node *n) {
  fold_form f;
  describe_col2im(n, &f);
  const fold_args args = args_of(r, &f);
  return cpu_launch(r, col2im, &args);
}
