/* Lower and upper triangles: kernels_cl/triangle.cl. */
#include "ops/triangle.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

enum { CPU_CHUNK = 64 };

clave_status opencl_triangle(cl_recorder *recorder, const node *node) {
  triangle_desc desc;
  describe_triangle(node, &desc);
  int chunk = recorder_traits(recorder)->is_cpu ? CPU_CHUNK : 1;
  int64_t items = desc.n_rows * ceil_div(desc.columns, chunk);
  launch launch;
  launch_begin(&launch, recorder, node);
  launch_dtype(&launch, "TYPE", moved_type(desc.x->tensor.type));
  launch_define(&launch, "CHUNK", chunk);
  launch_define(&launch, "UPPER", desc.upper);
  launch_args(&launch, &(triangle_args){.x = buffer_arg(desc.x),
                                        .out = buffer_arg(desc.out),
                                        .dims = dims_arg(&desc.rows),
                                        .strides = strides_arg(&desc.rows),
                                        .items = items,
                                        .columns = desc.columns,
                                        .step = desc.stride,
                                        .diagonal = desc.diagonal});
  return launch_loops(&launch, items, 1, min_i64(desc.columns, chunk));
}
