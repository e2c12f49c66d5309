/* Reductions over bags of table rows: kernels_cl/embedding_bag.cl. */
#include "ops/embedding_bag.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

enum { CPU_CHUNK = 64 };

clave_status opencl_embedding_bag(cl_recorder *recorder, const node *node) {
  embedding_bag_desc desc;
  describe_embedding_bag(node, &desc);
  int chunk = recorder_traits(recorder)->is_cpu ? CPU_CHUNK : 1;
  int64_t items = desc.bags * ceil_div(desc.dim, chunk);
  launch launch;
  launch_begin(&launch, recorder, node);
  launch_dtype(&launch, "TYPE", desc.weight->tensor.type);
  launch_dtype(&launch, "INDEX_TYPE", desc.indices->tensor.type);
  launch_dtype(&launch, "OFFSET_TYPE", desc.offsets->tensor.type);
  launch_compute(&launch, desc.weight->tensor.type);
  launch_define(&launch, "KIND", (int)desc.kind);
  launch_define(&launch, "CHUNK", chunk);
  launch_define(&launch, "SKIP", desc.skips);
  launch_define(&launch, "FACTORS", desc.factors != NULL);
  launch_args(&launch, &(embedding_bag_args){
                           .weight = buffer_arg(desc.weight),
                           .indices = buffer_arg(desc.indices),
                           .offsets = buffer_arg(desc.offsets),
                           .factors = optional_arg(desc.factors),
                           .out = buffer_arg(desc.out),
                           .items = items,
                           .dim = desc.dim,
                           .rows = desc.rows,
                           .n = desc.n,
                           .n_offsets = desc.n_offsets,
                           .row_stride = desc.weight->tensor.strides[0],
                           .column_stride = desc.weight->tensor.strides[1],
                           .index_stride = desc.indices->tensor.strides[0],
                           .offset_stride = desc.offsets->tensor.strides[0],
                           .factor_stride = desc.factors ? desc.factors->tensor.strides[0] : 0,
                           .skipped = desc.skipped});
  return launch_loops(&launch, items, 1, (desc.n / max_i64(desc.bags, 1) + 1) * chunk);
}
