/* Arange and Full: tensors made of numbers alone. */
#include "ops/arange.h"

#include "opencl_ops.h"

static void begin(launch *l, cl_recorder *s, const node *n, const arange_form *f) {
  launch_begin(l, s, n);
  launch_dtype(l, "OUT_TYPE", f->out->t.type);
  launch_compute(l, f->out->t.type);
}

clave_status opencl_arange(cl_recorder *s, const node *n) {
  arange_form f;
  describe_arange(n, &f);
  launch l;
  begin(&l, s, n, &f);
  launch_args(&l, &(arange_args){.out = buffer_arg(f.out),
                                 .n = f.n,
                                 .start = f.start,
                                 .step = f.step,
                                 .int_start = f.int_start,
                                 .int_step = f.int_step});
  return launch_items(&l, f.n);
}

clave_status opencl_full(cl_recorder *s, const node *n) {
  arange_form f;
  describe_full(n, &f);
  launch l;
  begin(&l, s, n, &f);
  launch_args(
      &l,
      &(full_args){.out = buffer_arg(f.out), .n = f.n, .value = f.start, .int_value = f.int_start});
  return launch_items(&l, f.n);
}
