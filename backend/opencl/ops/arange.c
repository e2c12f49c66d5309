/* Arange and Full: tensors filled from numbers alone. */
#include "ops/arange.h"

#include "opencl_ops.h"

static void opencl_arange_begin(launch *launch, cl_recorder *recorder, const node *node,
                                const arange_desc *desc) {
  launch_begin(launch, recorder, node);
  launch_dtype(launch, "OUT_TYPE", desc->out->tensor.type);
  launch_compute(launch, desc->out->tensor.type);
}

clave_status opencl_arange(cl_recorder *recorder, const node *node) {
  arange_desc desc;
  describe_arange(node, &desc);
  launch launch;
  opencl_arange_begin(&launch, recorder, node, &desc);
  launch_args(&launch, &(arange_args){.out = buffer_arg(desc.out),
                                      .n = desc.n,
                                      .start = desc.start,
                                      .step = desc.step,
                                      .int_start = desc.int_start,
                                      .int_step = desc.int_step});
  return launch_items(&launch, desc.n);
}

clave_status opencl_full(cl_recorder *recorder, const node *node) {
  arange_desc desc;
  describe_full(node, &desc);
  launch launch;
  opencl_arange_begin(&launch, recorder, node, &desc);
  launch_args(&launch, &(full_args){.out = buffer_arg(desc.out),
                                    .n = desc.n,
                                    .value = desc.start,
                                    .int_value = desc.int_start});
  return launch_items(&launch, desc.n);
}
