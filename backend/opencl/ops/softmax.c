/* Softmax and log_softmax: kernels_cl/softmax.cl. */
#include "ops/softmax.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

clave_status opencl_softmax(cl_recorder *recorder, const node *node) {
  softmax_desc desc;
  tensor kept[2], over[2];
  describe_softmax(node, &desc);
  split_rows(desc.rows, 2, kept, over);
  row_layout rows = choose_row_layout(recorder, kept, over, 2);
  if (rows.row) {
    const row_walk by_rule = {rows.team, rows.width},
                   walk = choose_row_walk(recorder, "softmax", node, &desc.x->tensor,
                                          tensor_numel(&kept[0]), desc.row, by_rule);
    rows.team = walk.team;
    rows.width = walk.width;
  }
  int64_t items = row_layout_items(rows, kept);
  launch launch;
  launch_begin(&launch, recorder, node);
  launch_dtype(&launch, "X_TYPE", desc.x->tensor.type);
  launch_compute(&launch, desc.x->tensor.type);
  launch_define(&launch, "LOG", desc.log);
  launch_row_layout(&launch, rows);
  launch_args(&launch, &(softmax_args){.x = buffer_arg(desc.x),
                                       .out = buffer_arg(desc.out),
                                       .kept_dims = dims_arg(&kept[0]),
                                       .x_strides = strides_arg(&kept[0]),
                                       .out_strides = strides_arg(&kept[1]),
                                       .groups = items,
                                       .row_size = kept_row_size(kept),
                                       .n = desc.row,
                                       .x_stride = over[0].strides[0],
                                       .out_stride = over[1].strides[0]});
  return launch_rows(&launch, items, 16 * desc.row * (rows.row ? 1 : rows.width),
                     rows.team); /* exp costs more than a load */
}
