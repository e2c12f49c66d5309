/* Concatenation, and the strided move that it is made of: kernels_cl/cat.cl. */
#include "ops/cat.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"
#include "ops/copy.h"

enum { CPU_CHUNK = 64 };

clave_status move_elements(cl_recorder *s, const node *n, const bound_tensor *x,
                           const bound_tensor *out) {
  if (tensor_numel(&x->t) == 0) return NULL;
  const copy_form f = copy_between(x, out);
  const tensor *from = &f.x.t, *to = &f.out.t;
  int last = from->rank - 1;
  int64_t size = last < 0 ? 1 : from->dims[last];
  int64_t x_step = last < 0 ? 1 : from->strides[last], out_step = last < 0 ? 1 : to->strides[last];
  int chunk = recorder_traits(s)->is_cpu ? CPU_CHUNK : 1;
  tensor x_rows = take_dims(from, 0, last < 0 ? 0 : last),
         out_rows = take_dims(to, 0, last < 0 ? 0 : last);
  int64_t items = tensor_numel(&x_rows) * ceil_div(size, chunk);
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "TYPE", moved_type(x->t.type));
  launch_define(&l, "CHUNK", chunk);
  launch_define(&l, "DENSE", x_step == 1 && out_step == 1);
  launch_args(&l, &(cat_part_args){.x = buffer_arg(x),
                                   .out = buffer_arg(out),
                                   .dims = dims_arg(&x_rows),
                                   .x_strides = strides_arg(&x_rows),
                                   .out_strides = strides_arg(&out_rows),
                                   .items = items,
                                   .n = size,
                                   .x_step = x_step,
                                   .out_step = out_step});
  return launch_loops(&l, items, 1, min_i64(size, chunk));
}

clave_status opencl_cat(cl_recorder *s, const node *n) {
  cat_form f;
  describe_cat(n, &f);
  while (next_part(&f)) TRY(move_elements(s, n, f.x, &f.part));
  return NULL;
}
