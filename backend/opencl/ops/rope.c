/* Rotary embedding: kernels_cl/rope.cl. */
#include "ops/rope.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

enum { CPU_CHUNK = 64 };

clave_status opencl_rope(cl_recorder *recorder, const node *node) {
  rope_desc desc;
  describe_rope(node, &desc);
  int chunk = recorder_traits(recorder)->is_cpu ? CPU_CHUNK : 1;
  int64_t items = desc.n_rows * ceil_div(desc.n_pairs, chunk);
  launch launch;
  launch_begin(&launch, recorder, node);
  launch_dtype(&launch, "X_TYPE", desc.x->tensor.type);
  launch_dtype(&launch, "TABLE_TYPE", desc.cos->tensor.type);
  launch_compute(&launch, desc.x->tensor.type);
  launch_define(&launch, "INTERLEAVED", desc.interleaved);
  launch_define(&launch, "CHUNK", chunk);
  launch_args(&launch, &(rope_args){.x = buffer_arg(desc.x),
                                    .cosines = buffer_arg(desc.cos),
                                    .sines = buffer_arg(desc.sin),
                                    .out = buffer_arg(desc.out),
                                    .dims = dims_arg(&desc.rows),
                                    .strides = strides_arg(&desc.rows),
                                    .items = items,
                                    .n_heads = desc.n_heads,
                                    .n_angles = desc.n_angles,
                                    .n_pairs = desc.n_pairs});
  return launch_loops(&launch, items, 1, 2 * min_i64(desc.n_pairs, chunk));
}
