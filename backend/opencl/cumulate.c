/* Cumulative sums and products: kernels_cl/cumulate.cl. */
#include "backend/opencl/families.h"
#include "opencl_ops.h"

clave_status opencl_cumulate(cl_stream *s, const node *n) {
  const ir_cumulate *op = n->instruction->op;
  const bound_tensor *x = &n->tensors[op->x], *out = &n->tensors[op->out];
  tensor both[2] = {x->t, out->t}, kept[2], over[2];
  unsigned axis = x->t.rank == 0 ? 0 : 1u << axis_of(op->axis, x->t.rank);
  split_dims(both, 2, axis, kept, over);
  row_class rows = choose_row_class(s, kept, over, 2);
  if (rows.row) rows = (row_class){.row = false, .width = 1};
  int64_t size = tensor_numel(&over[0]), items = row_class_items(rows, kept);
  launch l;
  launch_begin(&l, s, n, "cumulate", "cumulate");
  launch_dtype(&l, "X_TYPE", x->t.type);
  launch_dtype(&l, "OUT_TYPE", out->t.type);
  launch_compute(&l, out->t.type);
  launch_define(&l, "PROD", op->kind == IR_CUMULATE_KIND_PROD);
  launch_define(&l, "W", rows.width);
  launch_buffer(&l, x);
  launch_buffer(&l, out);
  launch_layout(&l, &kept[0]);
  launch_strides(&l, &kept[1]);
  launch_int(&l, items);
  launch_int(&l, kept_row_size(kept));
  launch_int(&l, size);
  launch_int(&l, over[0].rank > 0 ? over[0].strides[0] : 1);
  launch_int(&l, over[1].rank > 0 ? over[1].strides[0] : 1);
  return launch_loops(&l, items, 1, 4 * size * rows.width);
}
