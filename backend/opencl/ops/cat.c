/* Concatenation, and the strided move that it consists of: kernels_cl/cat.cl. */
#include "ops/cat.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"
#include "ops/copy.h"

enum { CPU_CHUNK = 64 };

clave_status move_elements(cl_recorder *recorder, const node *node, const bound_tensor *input,
                           const bound_tensor *out) {
  if (tensor_numel(&input->tensor) == 0) return NULL;
  const copy_desc desc = copy_between(input, out);
  const tensor *from = &desc.x.tensor, *to = &desc.out.tensor;
  int last = from->rank - 1;
  int64_t size = last < 0 ? 1 : from->dims[last];
  int64_t x_stride = last < 0 ? 1 : from->strides[last],
          out_stride = last < 0 ? 1 : to->strides[last];
  int chunk = recorder_traits(recorder)->is_cpu ? CPU_CHUNK : 1;
  tensor x_rows = take_dims(from, 0, last < 0 ? 0 : last),
         out_rows = take_dims(to, 0, last < 0 ? 0 : last);
  int64_t items = tensor_numel(&x_rows) * ceil_div(size, chunk);
  launch launch;
  launch_begin(&launch, recorder, node);
  launch_dtype(&launch, "TYPE", moved_type(input->tensor.type));
  launch_define(&launch, "CHUNK", chunk);
  launch_define(&launch, "DENSE", x_stride == 1 && out_stride == 1);
  launch_args(&launch, &(cat_slice_args){.x = buffer_arg(input),
                                         .out = buffer_arg(out),
                                         .dims = dims_arg(&x_rows),
                                         .x_strides = strides_arg(&x_rows),
                                         .out_strides = strides_arg(&out_rows),
                                         .items = items,
                                         .n = size,
                                         .x_stride = x_stride,
                                         .out_stride = out_stride});
  return launch_loops(&launch, items, 1, min_i64(size, chunk));
}

clave_status opencl_cat(cl_recorder *recorder, const node *node) {
  cat_desc desc;
  describe_cat(node, &desc);
  while (next_slice(&desc)) TRY(move_elements(recorder, node, desc.x, &desc.slice));
  return NULL;
}
