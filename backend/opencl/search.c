/* Binary search: kernels_cl/search.cl. */
#include "backend/opencl/families.h"
#include "opencl_ops.h"

clave_status opencl_search_sorted(cl_recorder *s, const node *n) {
  const ir_search_sorted *op = n->instruction->op;
  const bound_tensor *b = &n->tensors[op->boundaries], *x = &n->tensors[op->x],
                     *out = &n->tensors[op->out], *sorter = operand_of(n, op->sorter);
  int64_t items = tensor_numel(&x->t);
  launch l;
  launch_begin(&l, s, n, "search", "search_sorted");
  launch_dtype(&l, "X_TYPE", x->t.type);
  launch_dtype(&l, "OUT_TYPE", out->t.type);
  launch_compute(&l, x->t.type);
  launch_define(&l, "RIGHT", op->right);
  launch_define(&l, "SHARED", b->t.rank == 1);
  launch_define(&l, "SORTER", sorter != NULL);
  launch_buffer(&l, b);
  launch_buffer(&l, x);
  launch_optional(&l, sorter);
  launch_buffer(&l, out);
  launch_int(&l, items);
  launch_int(&l, b->t.dims[b->t.rank - 1]);
  launch_int(&l, x->t.rank > 0 ? x->t.dims[x->t.rank - 1] : 1);
  return launch_loops(&l, items, 1, 64);
}
