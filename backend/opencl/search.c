/* Binary search: kernels_cl/search.cl. */
#include "backend/opencl/families.h"
#include "opencl_ops.h"

clave_status opencl_search_sorted(cl_recorder *s, const node *n) {
  const ir_search_sorted *op = n->instruction->op;
  const bound_tensor *b = &n->tensors[op->boundaries], *x = &n->tensors[op->x],
                     *out = &n->tensors[op->out], *sorter = operand_of(n, op->sorter);
  int64_t items = tensor_numel(&x->t);
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "X_TYPE", x->t.type);
  launch_dtype(&l, "OUT_TYPE", out->t.type);
  launch_compute(&l, x->t.type);
  launch_define(&l, "RIGHT", op->right);
  launch_define(&l, "SHARED", b->t.rank == 1);
  launch_define(&l, "SORTER", sorter != NULL);
  launch_args(&l, &(search_sorted_args){.boundaries = buffer_arg(b),
                                        .x = buffer_arg(x),
                                        .sorter = optional_arg(sorter),
                                        .out = buffer_arg(out),
                                        .items = items,
                                        .n = b->t.dims[b->t.rank - 1],
                                        .per_row = x->t.rank > 0 ? x->t.dims[x->t.rank - 1] : 1});
  return launch_loops(&l, items, 1, 64);
}
