/* Dequantize, IndexSelect of encoded constants, and decoding of constants for other ops;
 * kernels_cl/dequantize.cl. */
#include "ops/dequantize.h"

#include "backend/opencl/ops/encoded.h"
#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

encoded_params encoded_operand(const bound_tensor *tensor) {
  const encoding *encoding = &tensor->tensor.encoding;
  int64_t row = tensor_row(&tensor->tensor), bytes = (int64_t)encoding_row_bytes(encoding, row);
  if (encoding->kind == ENCODING_BLOCKS) {
    const block_format *format = block_format_at(encoding->format);
    return (encoded_params){.codes = buffer_arg(tensor),
                            .row_bytes = bytes,
                            .scales_at = 0,
                            .groups = format->elements / DECODED_AT_ONCE,
                            .group = format->bytes};
  }
  return (encoded_params){.codes = buffer_arg(tensor),
                          .row_bytes = bytes,
                          .scales_at = (int64_t)encoding_code_bytes(encoding, row),
                          .groups = max_i64(encoding_groups(encoding, row), 1),
                          .group = encoding->group ? encoding->group : max_i64(row, 1)};
}

/* Decodes the picked rows, or all rows if there is no index, to out, whose dtype is `type`. */
static clave_status opencl_dequantize_launch_parts(cl_recorder *recorder, const node *node,
                                                   const dequantize_desc *desc, dtype type,
                                                   arg_buffer out) {
  int64_t parts = ceil_div(desc->row, DECODED_AT_ONCE);
  launch launch;
  launch_begin(&launch, recorder, node);
  launch_encoding(&launch, &desc->x->tensor.encoding);
  launch_dtype(&launch, "OUT_TYPE", type);
  if (desc->index) launch_dtype(&launch, "INDEX_TYPE", desc->index->tensor.type);
  launch_define(&launch, "HAS_INDEX", desc->index != NULL);
  launch_args(&launch, &(dequantize_args){.encoded = encoded_operand(desc->x),
                                          .index = optional_arg(desc->index),
                                          .index_dims = dims_arg(&desc->places),
                                          .index_strides = strides_arg(&desc->places),
                                          .out = out,
                                          .rows = desc->rows,
                                          .row_size = desc->row,
                                          .parts = parts,
                                          .items = desc->n_picks * parts});
  return launch_loops(&launch, desc->n_picks * parts, 1, DECODED_AT_ONCE);
}

clave_status opencl_decode(cl_recorder *recorder, const node *node, const bound_tensor *tensor,
                           arg_buffer out) {
  const dequantize_desc desc = {.x = tensor,
                                .rows = tensor_rows(&tensor->tensor),
                                .row = tensor_row(&tensor->tensor),
                                .n_picks = tensor_rows(&tensor->tensor)};
  return opencl_dequantize_launch_parts(recorder, node, &desc, DTYPE_F32, out);
}

clave_status opencl_dequantize(cl_recorder *recorder, const node *node) {
  dequantize_desc desc;
  describe_dequantize(node, &desc);
  return opencl_dequantize_launch_parts(recorder, node, &desc, desc.out->tensor.type,
                                        buffer_arg(desc.out));
}

clave_status opencl_pick_rows(cl_recorder *recorder, const node *node) {
  dequantize_desc desc;
  describe_picked_rows(node, &desc);
  return opencl_dequantize_launch_parts(recorder, node, &desc, desc.out->tensor.type,
                                        buffer_arg(desc.out));
}
