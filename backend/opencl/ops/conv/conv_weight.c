/* Converts weights to floats: conv_widen of kernels_cl/conv/conv.cl, or the decoding kernels. */
#include "backend/opencl/ops/conv/conv.h"

#include "backend/opencl/ops/encoded.h"
#include "backend/opencl/ops/families.h"

enum { WIDEN_CHUNK = 64 };

clave_status conv_floats(cl_recorder *recorder, const node *node, const bound_tensor *weight,
                         arg_buffer out) {
  const int64_t items = tensor_numel(&weight->tensor);
  launch launch;
  if (weight->tensor.encoding.kind) return opencl_decode(recorder, node, weight, out);
  launch_begin(&launch, recorder, node);
  launch_dtype(&launch, "W_TYPE", weight->tensor.type);
  launch_compute(&launch, DTYPE_F32);
  launch_args(&launch,
              &(conv_widen_args){.weight = buffer_arg(weight), .out = out, .items = items});
  return launch_loops(&launch, ceil_div(items, WIDEN_CHUNK), 1, WIDEN_CHUNK);
}

clave_status conv_pack_floats(cl_recorder *recorder, const node *node, const bound_tensor *weight,
                              arg_buffer *out) {
  const int64_t items = tensor_numel(&weight->tensor);
  const pack_request request = {
      .x = weight, .kind = PACKED_CONV, .size = {items}, .bytes = sizeof(float) * (size_t)items};
  cl_recorder *pack;
  int number;
  TRY(recorder_pack(recorder, &request, &number, &pack));
  TRY(conv_floats(pack, node, weight, scratch_arg(0)));
  *out = packed_arg(number);
  return NULL;
}

/* True if the weight must be converted to floats: it is encoded, or F16 on a CPU, which converts
 * single halves slowly. */
static bool widens(const conv_problem *problem) {
  const tensor *tensor = &problem->desc.weight->tensor;
  return tensor->encoding.kind ||
         (recorder_traits(problem->recorder)->is_cpu && tensor->type == DTYPE_F16);
}

clave_status conv_weight(const conv_problem *problem, int64_t used, arg_buffer *weight,
                         dtype *type) {
  const bound_tensor *tensor = problem->desc.weight;
  *weight = buffer_arg(tensor);
  *type = tensor->tensor.type;
  if (!widens(problem)) return NULL;
  *type = DTYPE_F32;
  if (recorder_may_pack(problem->recorder, tensor))
    return conv_pack_floats(problem->recorder, problem->node, tensor, weight);
  *weight = scratch_arg(used);
  TRY(recorder_scratch(problem->recorder,
                       sizeof(float) * (size_t)(used + tensor_numel(&tensor->tensor))));
  return conv_floats(problem->recorder, problem->node, tensor, *weight);
}
