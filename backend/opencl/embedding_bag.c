/* Reductions over groups of table rows: kernels_cl/embedding_bag.cl. */
#include "backend/opencl/families.h"
#include "opencl_ops.h"

enum { CPU_CHUNK = 64 };

clave_status opencl_embedding_bag(cl_recorder *s, const node *n) {
  const ir_embedding_bag *op = n->instruction->op;
  const bound_tensor *weight = &n->tensors[op->weight], *indices = &n->tensors[op->indices],
                     *offsets = &n->tensors[op->offsets], *factors = operand_of(n, op->weights),
                     *out = &n->tensors[op->out];
  int chunk = recorder_traits(s)->is_cpu ? CPU_CHUNK : 1;
  int64_t dim = out->t.dims[1], items = out->t.dims[0] * ceil_div(dim, chunk);
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "TYPE", weight->t.type);
  launch_dtype(&l, "INDEX_TYPE", indices->t.type);
  launch_dtype(&l, "OFFSET_TYPE", offsets->t.type);
  launch_compute(&l, weight->t.type);
  launch_define(&l, "KIND", (int)op->kind);
  launch_define(&l, "CHUNK", chunk);
  launch_define(&l, "SKIP", op->padding_idx.present);
  launch_define(&l, "FACTORS", factors != NULL);
  launch_args(&l, &(embedding_bag_args){.weight = buffer_arg(weight),
                                        .indices = buffer_arg(indices),
                                        .offsets = buffer_arg(offsets),
                                        .factors = optional_arg(factors),
                                        .out = buffer_arg(out),
                                        .items = items,
                                        .dim = dim,
                                        .rows = weight->t.dims[0],
                                        .n = indices->t.dims[0],
                                        .n_offsets = offsets->t.dims[0],
                                        .row_step = weight->t.strides[0],
                                        .column_step = weight->t.strides[1],
                                        .index_step = indices->t.strides[0],
                                        .offset_step = offsets->t.strides[0],
                                        .factor_step = factors ? factors->t.strides[0] : 0,
                                        .skipped = op->padding_idx.value});
  int64_t per_bag = indices->t.dims[0] / max_i64(out->t.dims[0], 1) + 1;
  return launch_loops(&l, items, 1, per_bag * chunk);
}
