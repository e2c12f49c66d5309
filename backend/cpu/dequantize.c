/* Dequantize, and IndexSelect of encoded constants. */
#include "ops/dequantize.h"

#include "backend/cpu/dequantize.h"
#include "backend/cpu/kernels/dequantize.h"
#include "cpu_ops.h"

static clave_status launch_rows(cpu_recorder *r, const dequantize_form *f) {
  return cpu_launch(
      r, dequantize,
      &(dequantize_args){.x = cpu_operand(r, f->x).data,
                         .index = f->index ? cpu_view(r, f->index, &f->places) : (ktensor){0},
                         .out = cpu_operand(r, f->out).data,
                         .type = f->out->t.type,
                         .encoding = f->x->t.encoding,
                         .rows = f->rows,
                         .row = f->row,
                         .n_picks = f->n_picks});
}

clave_status cpu_dequantize(cpu_recorder *r, const node *n) {
  dequantize_form f;
  describe_dequantize(n, &f);
  return launch_rows(r, &f);
}

clave_status cpu_pick_rows(cpu_recorder *r, const node *n) {
  dequantize_form f;
  describe_picked_rows(n, &f);
  return launch_rows(r, &f);
}
