/* Binary search: kernels_cl/search.cl. */
#include "ops/search.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

clave_status opencl_search_sorted(cl_recorder *recorder, const node *node) {
  search_desc desc;
  describe_search_sorted(node, &desc);
  launch launch;
  launch_begin(&launch, recorder, node);
  launch_dtype(&launch, "X_TYPE", desc.x->tensor.type);
  launch_dtype(&launch, "OUT_TYPE", desc.out->tensor.type);
  launch_compute(&launch, desc.x->tensor.type);
  launch_define(&launch, "RIGHT", desc.right);
  launch_define(&launch, "SHARED", desc.shared);
  launch_define(&launch, "SORTER", desc.sorter != NULL);
  launch_args(&launch, &(search_sorted_args){.boundaries = buffer_arg(desc.boundaries),
                                             .x = buffer_arg(desc.x),
                                             .sorter = optional_arg(desc.sorter),
                                             .out = buffer_arg(desc.out),
                                             .items = desc.n_x,
                                             .n = desc.n,
                                             .per_row = desc.per_row});
  return launch_loops(&launch, desc.n_x, 1, 64);
}
