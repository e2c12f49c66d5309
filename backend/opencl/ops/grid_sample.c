/* Grid sampling: kernels_cl/grid_sample.cl. */
#include "ops/grid_sample.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

clave_status opencl_grid_sample(cl_recorder *recorder, const node *node) {
  grid_sample_desc desc;
  describe_grid_sample(node, &desc);
  int64_t items = desc.channels == 0 ? 0 : desc.batch * desc.points;
  launch launch;
  launch_begin(&launch, recorder, node);
  launch_dtype(&launch, "TYPE", desc.x->tensor.type);
  launch_compute(&launch, desc.x->tensor.type);
  launch_define(&launch, "MODE", (int)desc.mode);
  launch_define(&launch, "PADDING", (int)desc.padding);
  launch_define(&launch, "ALIGN", desc.align_corners);
  launch_define(&launch, "N_DIMS", desc.n_dims);
  launch_args(&launch, &(grid_sample_args){.x = buffer_arg(desc.x),
                                           .grid = buffer_arg(desc.grid),
                                           .out = buffer_arg(desc.out),
                                           .items = items,
                                           .points = desc.points,
                                           .channels = desc.channels,
                                           .in0 = desc.in[0],
                                           .in1 = desc.in[1],
                                           .in2 = desc.in[2]});
  return launch_loops(&launch, items, 1, 16 + 8 * desc.channels);
}
