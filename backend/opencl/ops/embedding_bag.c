/* Reductions over groups of table rows: kernels_cl/embedding_bag.cl. */
#include "ops/embedding_bag.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

enum { CPU_CHUNK = 64 };

clave_status opencl_embedding_bag(cl_recorder *s, const node *n) {
  embedding_bag_form f;
  describe_embedding_bag(n, &f);
  int chunk = recorder_traits(s)->is_cpu ? CPU_CHUNK : 1;
  int64_t items = f.bags * ceil_div(f.dim, chunk);
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "TYPE", f.weight->t.type);
  launch_dtype(&l, "INDEX_TYPE", f.indices->t.type);
  launch_dtype(&l, "OFFSET_TYPE", f.offsets->t.type);
  launch_compute(&l, f.weight->t.type);
  launch_define(&l, "KIND", (int)f.kind);
  launch_define(&l, "CHUNK", chunk);
  launch_define(&l, "SKIP", f.skips);
  launch_define(&l, "FACTORS", f.factors != NULL);
  launch_args(&l, &(embedding_bag_args){.weight = buffer_arg(f.weight),
                                        .indices = buffer_arg(f.indices),
                                        .offsets = buffer_arg(f.offsets),
                                        .factors = optional_arg(f.factors),
                                        .out = buffer_arg(f.out),
                                        .items = items,
                                        .dim = f.dim,
                                        .rows = f.rows,
                                        .n = f.n,
                                        .n_offsets = f.n_offsets,
                                        .row_step = f.weight->t.strides[0],
                                        .column_step = f.weight->t.strides[1],
                                        .index_step = f.indices->t.strides[0],
                                        .offset_step = f.offsets->t.strides[0],
                                        .factor_step = f.factors ? f.factors->t.strides[0] : 0,
                                        .skipped = f.skipped});
  return launch_loops(&l, items, 1, (f.n / max_i64(f.bags, 1) + 1) * chunk);
}
