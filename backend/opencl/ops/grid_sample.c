/* Grid sampling: kernels_cl/grid_sample.cl. */
#include "ops/grid_sample.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

clave_status opencl_grid_sample(cl_recorder *s, const node *n) {
  grid_sample_form f;
  describe_grid_sample(n, &f);
  int64_t items = f.channels == 0 ? 0 : f.batch * f.points;
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "TYPE", f.x->t.type);
  launch_compute(&l, f.x->t.type);
  launch_define(&l, "MODE", (int)f.mode);
  launch_define(&l, "PADDING", (int)f.padding);
  launch_define(&l, "ALIGN", f.align_corners);
  launch_define(&l, "N_DIMS", f.n_dims);
  launch_args(&l, &(grid_sample_args){.x = buffer_arg(f.x),
                                      .grid = buffer_arg(f.grid),
                                      .out = buffer_arg(f.out),
                                      .items = items,
                                      .points = f.points,
                                      .channels = f.channels,
                                      .in0 = f.in[0],
                                      .in1 = f.in[1],
                                      .in2 = f.in[2]});
  return launch_loops(&l, items, 1, 16 + 8 * f.channels);
}
