/* Rotary embedding: kernels_cl/rope.cl. */
#include "backend/opencl/families.h"
#include "opencl_ops.h"

enum { CPU_CHUNK = 64 };

clave_status opencl_rope(cl_recorder *s, const node *n) {
  const ir_rope *op = n->instruction->op;
  const bound_tensor *x = &n->tensors[op->x], *cosines = &n->tensors[op->cos],
                     *sines = &n->tensors[op->sin];
  int rank = x->t.rank, chunk = recorder_traits(s)->is_cpu ? CPU_CHUNK : 1;
  tensor rows = take_dims(&x->t, 0, rank - 1);
  int64_t n_pairs = x->t.dims[rank - 1] / 2, items = tensor_numel(&rows) * ceil_div(n_pairs, chunk);
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "X_TYPE", x->t.type);
  launch_dtype(&l, "TABLE_TYPE", cosines->t.type);
  launch_compute(&l, x->t.type);
  launch_define(&l, "INTERLEAVED", op->interleaved);
  launch_define(&l, "CHUNK", chunk);
  launch_args(&l, &(rope_args){.x = buffer_arg(x),
                               .cosines = buffer_arg(cosines),
                               .sines = buffer_arg(sines),
                               .out = buffer_arg(&n->tensors[op->out]),
                               .dims = dims_arg(&rows),
                               .strides = strides_arg(&rows),
                               .items = items,
                               .n_heads = x->t.dims[rank - 2],
                               .length = x->t.dims[rank - 3],
                               .n_pairs = n_pairs});
  return launch_loops(&l, items, 1, 2 * min_i64(n_pairs, chunk));
}
