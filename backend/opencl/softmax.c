/* Softmax and log_softmax: kernels_cl/softmax.cl. */
#include "backend/opencl/families.h"
#include "opencl_ops.h"

static int64_t step_of(const tensor *over) { return over->rank > 0 ? over->strides[0] : 1; }

clave_status opencl_softmax(cl_recorder *s, const node *n) {
  const ir_softmax *op = n->instruction->op;
  const bound_tensor *x = &n->tensors[op->x], *out = &n->tensors[op->out];
  tensor both[2] = {x->t, out->t}, kept[2], over[2];
  unsigned axis = x->t.rank == 0 ? 0 : 1u << axis_of(op->axis, x->t.rank);
  split_dims(both, 2, axis, kept, over);
  row_class rows = choose_row_class(s, kept, over, 2);
  int64_t size = tensor_numel(&over[0]), items = row_class_items(rows, kept);
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "X_TYPE", x->t.type);
  launch_compute(&l, x->t.type);
  launch_define(&l, "LOG", op->log);
  launch_row_class(&l, rows);
  launch_args(&l, &(softmax_args){.x = buffer_arg(x),
                                  .out = buffer_arg(out),
                                  .kept_dims = dims_arg(&kept[0]),
                                  .x_strides = strides_arg(&kept[0]),
                                  .out_strides = strides_arg(&kept[1]),
                                  .groups = items,
                                  .row_size = kept_row_size(kept),
                                  .n = size,
                                  .x_step = step_of(&over[0]),
                                  .out_step = step_of(&over[1])});
  return launch_rows(&l, items, 16 * size * (rows.row ? 1 : rows.width),
                     rows.team); /* exp costs more than a load */
}
