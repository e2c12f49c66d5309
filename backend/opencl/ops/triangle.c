/* Lower and upper triangles: kernels_cl/triangle.cl. */
#include "ops/triangle.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

enum { CPU_CHUNK = 64 };

clave_status opencl_triangle(cl_recorder *s, const node *n) {
  triangle_form f;
  describe_triangle(n, &f);
  int chunk = recorder_traits(s)->is_cpu ? CPU_CHUNK : 1;
  int64_t items = f.n_rows * ceil_div(f.columns, chunk);
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "TYPE", moved_type(f.x->t.type));
  launch_define(&l, "CHUNK", chunk);
  launch_define(&l, "UPPER", f.upper);
  launch_args(&l, &(triangle_args){.x = buffer_arg(f.x),
                                   .out = buffer_arg(f.out),
                                   .dims = dims_arg(&f.rows),
                                   .strides = strides_arg(&f.rows),
                                   .items = items,
                                   .columns = f.columns,
                                   .step = f.step,
                                   .diagonal = f.diagonal});
  return launch_loops(&l, items, 1, min_i64(f.columns, chunk));
}
