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
  launch_begin(&l, s, n, "grid_sample", "grid_sample");
  launch_dtype(&l, "TYPE", x->t.type);
  launch_compute(&l, x->t.type);
  launch_define(&l, "MODE", (int)op->mode);
  launch_define(&l, "PADDING", (int)op->padding);
  launch_define(&l, "ALIGN", op->align_corners);
  launch_define(&l, "N_DIMS", rank - 2);
  launch_buffer(&l, x);
  launch_buffer(&l, grid);
  launch_buffer(&l, out);
  launch_int(&l, items);
  launch_int(&l, points);
  launch_int(&l, channels);
  launch_int(&l, x->t.dims[rank - 1]);
  launch_int(&l, x->t.dims[rank - 2]);
  launch_int(&l, rank == 5 ? x->t.dims[2] : 1);
  return launch_loops(&l, items, 1, 16 + 8 * channels);
}
