/* Padding: kernels_cl/pad.cl. */
#include "ops/pad.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

enum { CPU_CHUNK = 64 };

clave_status opencl_pad(cl_recorder *recorder, const node *node) {
  pad_desc desc;
  describe_pad(node, &desc);
  const tensor *x = &desc.x.tensor, *out = &desc.out.tensor;
  int chunk = recorder_traits(recorder)->is_cpu ? CPU_CHUNK : 1;
  int64_t before[MAX_RANK] = {0}; /* innermost first */
  for (int i = 0; i < x->rank; i++) before[i] = desc.before[x->rank - 1 - i];
  int64_t row = out->dims[out->rank - 1],
          items = row ? tensor_numel(out) / row * ceil_div(row, chunk) : 0;
  launch launch;
  launch_begin(&launch, recorder, node);
  launch_dtype(&launch, "TYPE", moved_type(x->type));
  launch_define(&launch, "CHUNK", chunk);
  launch_define(&launch, "MODE", (int)desc.mode);
  launch_args(&launch, &(pad_args){.x = buffer_arg(&desc.x),
                                   .out = buffer_arg(&desc.out),
                                   .dims = dims_arg(out),
                                   .before = index8_arg(before),
                                   .sizes = dims_arg(x),
                                   .strides = strides_arg(x),
                                   .n_dims = x->rank,
                                   .items = items,
                                   .value = (int64_t)desc.value});
  return launch_loops(&launch, items, 1, min_i64(row, chunk));
}
