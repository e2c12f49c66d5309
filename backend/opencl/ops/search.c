/* Binary search: kernels_cl/search.cl. */
#include "ops/search.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

clave_status opencl_search_sorted(cl_recorder *s, const node *n) {
  search_form f;
  describe_search_sorted(n, &f);
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "X_TYPE", f.x->t.type);
  launch_dtype(&l, "OUT_TYPE", f.out->t.type);
  launch_compute(&l, f.x->t.type);
  launch_define(&l, "RIGHT", f.right);
  launch_define(&l, "SHARED", f.shared);
  launch_define(&l, "SORTER", f.sorter != NULL);
  launch_args(&l, &(search_sorted_args){.boundaries = buffer_arg(f.boundaries),
                                        .x = buffer_arg(f.x),
                                        .sorter = optional_arg(f.sorter),
                                        .out = buffer_arg(f.out),
                                        .items = f.n_x,
                                        .n = f.n,
                                        .per_row = f.per_row});
  return launch_loops(&l, f.n_x, 1, 64);
}
