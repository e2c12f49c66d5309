/* Random tensors: kernels_cl/random.cl. */
#include "ops/random.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

clave_status opencl_random(cl_recorder *recorder, const node *node) {
  random_desc desc;
  describe_random(node, &desc);
  launch launch;
  launch_begin(&launch, recorder, node);
  launch_dtype(&launch, "OUT_TYPE", desc.out->tensor.type);
  launch_compute(&launch, desc.out->tensor.type);
  launch_define(&launch, "KIND", (int)desc.kind);
  enum { LANES = 16 };
  bool vector = recorder_traits(recorder)->is_cpu && desc.per_block == 4;
  launch_define(&launch, "VECTOR", vector);
  launch_args(&launch, &(random_args){.out = buffer_arg(desc.out),
                                      .n = desc.n,
                                      .stream = desc.stream,
                                      .low = desc.low,
                                      .range = (int64_t)desc.range});
  int64_t per_item = desc.per_block * (vector ? LANES : 1);
  return launch_loops(&launch, ceil_div(desc.n, per_item), 1, 8 * per_item);
}
