/* Random tensors: kernels_cl/random.cl. */
#include "ops/random.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

clave_status opencl_random(cl_recorder *s, const node *n) {
  random_form f;
  describe_random(n, &f);
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "OUT_TYPE", f.out->t.type);
  launch_compute(&l, f.out->t.type);
  launch_define(&l, "KIND", (int)f.kind);
  enum { LANES = 16 };
  bool vector = recorder_traits(s)->is_cpu && f.per_block == 4;
  launch_define(&l, "VECTOR", vector);
  launch_args(&l, &(random_args){.out = buffer_arg(f.out),
                                 .n = f.n,
                                 .stream = f.stream,
                                 .low = f.low,
                                 .range = (int64_t)f.range});
  int64_t per_item = f.per_block * (vector ? LANES : 1);
  return launch_loops(&l, ceil_div(f.n, per_item), 1, 8 * per_item);
}
