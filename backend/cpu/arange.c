/* Arange and Full. */
#include "ops/arange.h"

#include "backend/cpu/kernels/arange.h"
#include "cpu_ops.h"

static clave_status launch_arange(cpu_recorder *r, const arange_form *f) {
  return cpu_launch(r, arange,
                    &(arange_args){.out = cpu_operand(r, f->out).data,
                                   .type = f->out->t.type,
                                   .n = f->n,
                                   .start = f->start,
                                   .step = f->step,
                                   .int_start = f->int_start,
                                   .int_step = f->int_step});
}

clave_status cpu_arange(cpu_recorder *r, const node *n) {
  arange_form f;
  describe_arange(n, &f);
  return launch_arange(r, &f);
}

clave_status cpu_full(cpu_recorder *r, const node *n) {
  arange_form f;
  describe_full(n, &f);
  return launch_arange(r, &f);
}
