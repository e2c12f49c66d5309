/* Rotary embedding: kernels_cl/rope.cl. */
#include "ops/rope.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

enum { CPU_CHUNK = 64 };

clave_status opencl_rope(cl_recorder *s, const node *n) {
  rope_form f;
  describe_rope(n, &f);
  int chunk = recorder_traits(s)->is_cpu ? CPU_CHUNK : 1;
  int64_t items = f.n_rows * ceil_div(f.n_pairs, chunk);
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "X_TYPE", f.x->t.type);
  launch_dtype(&l, "TABLE_TYPE", f.cos->t.type);
  launch_compute(&l, f.x->t.type);
  launch_define(&l, "INTERLEAVED", f.interleaved);
  launch_define(&l, "CHUNK", chunk);
  launch_args(&l, &(rope_args){.x = buffer_arg(f.x),
                               .cosines = buffer_arg(f.cos),
                               .sines = buffer_arg(f.sin),
                               .out = buffer_arg(f.out),
                               .dims = dims_arg(&f.rows),
                               .strides = strides_arg(&f.rows),
                               .items = items,
                               .n_heads = f.n_heads,
                               .n_angles = f.n_angles,
                               .n_pairs = f.n_pairs});
  return launch_loops(&l, items, 1, 2 * min_i64(f.n_pairs, chunk));
}
