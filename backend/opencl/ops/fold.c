/* Im2col and col2im: kernels_cl/fold.cl. */
#include "ops/fold.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

enum { CPU_CHUNK = 64 };

/* items: number of chunks into which rows are divided. */
static windows_params windows_of(const fold_desc *desc, int64_t items) {
  return (windows_params){.items = items,
                          .rows = desc->size[0],
                          .columns = desc->size[1],
                          .n_y = desc->positions[0],
                          .n_x = desc->positions[1],
                          .k_y = desc->kernel[0],
                          .k_x = desc->kernel[1],
                          .stride_y = desc->stride[0],
                          .stride_x = desc->stride[1],
                          .padding_y = desc->padding[0],
                          .padding_x = desc->padding[1],
                          .dilation_y = desc->dilation[0],
                          .dilation_x = desc->dilation[1]};
}

/* Returns the elements of a row per work-item. */
static int64_t chunk_of(const cl_recorder *recorder) {
  return recorder_traits(recorder)->is_cpu ? CPU_CHUNK : 1;
}

static int64_t opencl_fold_count_items(const tensor *out, int64_t row, int64_t chunk) {
  return row ? tensor_numel(out) / row * ceil_div(row, chunk) : 0;
}

clave_status opencl_im2col(cl_recorder *recorder, const node *node) {
  fold_desc desc;
  describe_im2col(node, &desc);
  int64_t chunk = chunk_of(recorder), row = desc.positions[1],
          items = opencl_fold_count_items(&desc.out->tensor, row, chunk);
  launch launch;
  launch_begin(&launch, recorder, node);
  launch_dtype(&launch, "MOVED", moved_type(desc.x->tensor.type));
  launch_define(&launch, "CHUNK", (int)chunk);
  launch_args(&launch, &(im2col_args){.x = buffer_arg(desc.x),
                                      .out = buffer_arg(desc.out),
                                      .windows = windows_of(&desc, items)});
  return launch_loops(&launch, items, 1, min_i64(row, chunk));
}

clave_status opencl_col2im(cl_recorder *recorder, const node *node) {
  fold_desc desc;
  describe_col2im(node, &desc);
  int64_t chunk = chunk_of(recorder), row = desc.size[1],
          items = opencl_fold_count_items(&desc.out->tensor, row, chunk);
  launch launch;
  launch_begin(&launch, recorder, node);
  launch_dtype(&launch, "TYPE", desc.x->tensor.type);
  launch_compute(&launch, desc.x->tensor.type);
  launch_define(&launch, "CHUNK", (int)chunk);
  launch_args(&launch, &(col2im_args){.x = buffer_arg(desc.x),
                                      .out = buffer_arg(desc.out),
                                      .windows = windows_of(&desc, items)});
  return launch_loops(&launch, items, 1, desc.kernel[0] * desc.kernel[1] * min_i64(row, chunk));
}
