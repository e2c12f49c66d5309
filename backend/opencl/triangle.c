/* Lower and upper triangles: kernels_cl/triangle.cl. */
#include "backend/opencl/families.h"
#include "opencl_ops.h"

enum { CPU_CHUNK = 64 };

clave_status opencl_triangle(cl_recorder *s, const node *n) {
  const ir_triangle *op = n->instruction->op;
  const bound_tensor *x = &n->tensors[op->x], *out = &n->tensors[op->out];
  int last = x->t.rank - 1, chunk = recorder_traits(s)->is_cpu ? CPU_CHUNK : 1;
  tensor rows = take_dims(&x->t, 0, last);
  int64_t columns = x->t.dims[last], items = tensor_numel(&rows) * ceil_div(columns, chunk);
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "TYPE", moved_type(x->t.type));
  launch_define(&l, "CHUNK", chunk);
  launch_define(&l, "UPPER", op->upper);
  launch_args(&l, &(triangle_args){.x = buffer_arg(x),
                                   .out = buffer_arg(out),
                                   .dims = dims_arg(&rows),
                                   .strides = strides_arg(&rows),
                                   .items = items,
                                   .columns = columns,
                                   .step = x->t.strides[last],
                                   .diagonal = op->diagonal});
  return launch_loops(&l, items, 1, min_i64(columns, chunk));
}
