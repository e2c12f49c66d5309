/* Grid sampling: kernels_cl/grid_sample.cl. */
#include "backend/opencl/families.h"
#include "opencl_ops.h"

clave_status opencl_grid_sample(cl_recorder *s, const node *n) {
  const ir_grid_sample *op = n->instruction->op;
  const bound_tensor *x = &n->tensors[op->x], *grid = &n->tensors[op->grid],
                     *out = &n->tensors[op->out];
  int rank = x->t.rank;
  int64_t channels = x->t.dims[1], points = 1, items;
  for (int d = 2; d < rank; d++) points *= out->t.dims[d];
  items = channels == 0 ? 0 : x->t.dims[0] * points;
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "TYPE", x->t.type);
  launch_compute(&l, x->t.type);
  launch_define(&l, "MODE", (int)op->mode);
  launch_define(&l, "PADDING", (int)op->padding);
  launch_define(&l, "ALIGN", op->align_corners);
  launch_define(&l, "N_DIMS", rank - 2);
  launch_args(&l, &(grid_sample_args){.x = buffer_arg(x),
                                      .grid = buffer_arg(grid),
                                      .out = buffer_arg(out),
                                      .items = items,
                                      .points = points,
                                      .channels = channels,
                                      .in0 = x->t.dims[rank - 1],
                                      .in1 = x->t.dims[rank - 2],
                                      .in2 = rank == 5 ? x->t.dims[2] : 1});
  return launch_loops(&l, items, 1, 16 + 8 * channels);
}
