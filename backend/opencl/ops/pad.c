/* Padding: kernels_cl/pad.cl. */
#include "ops/pad.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

enum { CPU_CHUNK = 64 };

clave_status opencl_pad(cl_recorder *s, const node *n) {
  pad_form f;
  describe_pad(n, &f);
  const tensor *x = &f.x.t, *out = &f.out.t;
  int chunk = recorder_traits(s)->is_cpu ? CPU_CHUNK : 1;
  int64_t before[MAX_RANK] = {0}; /* innermost first */
  for (int i = 0; i < x->rank; i++) before[i] = f.before[x->rank - 1 - i];
  int64_t row = out->dims[out->rank - 1],
          items = row ? tensor_numel(out) / row * ceil_div(row, chunk) : 0;
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "TYPE", moved_type(x->type));
  launch_define(&l, "CHUNK", chunk);
  launch_define(&l, "MODE", (int)f.mode);
  launch_args(&l, &(pad_args){.x = buffer_arg(&f.x),
                              .out = buffer_arg(&f.out),
                              .dims = dims_arg(out),
                              .before = index8_arg(before),
                              .sizes = dims_arg(x),
                              .strides = strides_arg(x),
                              .n_dims = x->rank,
                              .items = items,
                              .value = (int64_t)f.value});
  return launch_loops(&l, items, 1, min_i64(row, chunk));
}
