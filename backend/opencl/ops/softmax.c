/* Softmax and log_softmax: kernels_cl/softmax.cl. */
#include "ops/softmax.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

clave_status opencl_softmax(cl_recorder *s, const node *n) {
  softmax_form f;
  tensor kept[2], over[2];
  describe_softmax(n, &f);
  split_rows(f.rows, 2, kept, over);
  row_class rows = choose_row_class(s, kept, over, 2);
  if (rows.row) {
    const row_walk by_rule = {rows.team, rows.width},
                   w = choose_row_walk(s, "softmax", n, &f.x->t, tensor_numel(&kept[0]), f.row,
                                       by_rule);
    rows.team = w.team;
    rows.width = w.width;
  }
  int64_t items = row_class_items(rows, kept);
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "X_TYPE", f.x->t.type);
  launch_compute(&l, f.x->t.type);
  launch_define(&l, "LOG", f.log);
  launch_row_class(&l, rows);
  launch_args(&l, &(softmax_args){.x = buffer_arg(f.x),
                                  .out = buffer_arg(f.out),
                                  .kept_dims = dims_arg(&kept[0]),
                                  .x_strides = strides_arg(&kept[0]),
                                  .out_strides = strides_arg(&kept[1]),
                                  .groups = items,
                                  .row_size = kept_row_size(kept),
                                  .n = f.row,
                                  .x_step = over[0].strides[0],
                                  .out_step = over[1].strides[0]});
  return launch_rows(&l, items, 16 * f.row * (rows.row ? 1 : rows.width),
                     rows.team); /* exp costs more than a load */
}
