/* IndexSelect of a table that a product also reads (tied embeddings), on a CPU. It reads the panels
 * that the product packs, so that the pages of the table itself need not stay in memory;
 * kernels_cl/gemm/panel_rows.cl, code_rows.cl. */
#include "backend/opencl/ops/gemm/panel_rows.h"

#include "backend/opencl/ops/encoded.h"
#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/gemm/gemm_codes.h"
#include "ops/dequantize.h"

static clave_status launch_floats(cl_recorder *recorder, const node *node,
                                  const dequantize_desc *desc, const bound_tensor *as_b) {
  const int64_t columns = gemm_panel_columns(recorder),
                parts = ceil_div(desc->row, DECODED_AT_ONCE);
  const pack_request panels = {
      .x = as_b, .kind = PACKED_GEMM_B, .size = {columns, desc->rows, desc->row}};
  launch launch;
  launch_begin(&launch, recorder, node);
  launch_dtype(&launch, "TYPE", moved_type(desc->x->tensor.type));
  launch_dtype(&launch, "INDEX_TYPE", desc->index->tensor.type);
  launch_args(&launch,
              &(panel_rows_args){.x = buffer_arg(desc->x),
                                 .panels = packed_arg(recorder_packed_by_others(recorder, &panels)),
                                 .columns = columns,
                                 .index = buffer_arg(desc->index),
                                 .index_dims = dims_arg(&desc->places),
                                 .index_strides = strides_arg(&desc->places),
                                 .out = buffer_arg(desc->out),
                                 .rows = desc->rows,
                                 .row_size = desc->row,
                                 .parts = parts,
                                 .items = desc->n_picks * parts});
  return launch_loops(&launch, desc->n_picks * parts, 1, DECODED_AT_ONCE);
}

static clave_status launch_codes(cl_recorder *recorder, const node *node,
                                 const dequantize_desc *desc, const bound_tensor *as_b) {
  code_panels code_panels;
  if (!code_panels_of(&desc->x->tensor.encoding, desc->row, &code_panels))
    return UNSUPPORTED("the table has no packed codes");
  const pack_request panels = {
      .x = as_b, .kind = PACKED_GEMM_CODES, .size = {CODE_PANEL, desc->rows, desc->row}};
  launch launch;
  launch_begin(&launch, recorder, node);
  launch_encoding(&launch, &desc->x->tensor.encoding);
  gemm_codes_define(&launch, &code_panels);
  launch_dtype(&launch, "OUT_TYPE", desc->out->tensor.type);
  launch_dtype(&launch, "INDEX_TYPE", desc->index->tensor.type);
  launch_args(&launch,
              &(code_rows_args){.encoded = encoded_operand(desc->x),
                                .codes = gemm_codes_operand(
                                    &code_panels, recorder_packed_by_others(recorder, &panels)),
                                .index = buffer_arg(desc->index),
                                .index_dims = dims_arg(&desc->places),
                                .index_strides = strides_arg(&desc->places),
                                .out = buffer_arg(desc->out),
                                .rows = desc->rows,
                                .row_size = desc->row,
                                .items = desc->n_picks * code_panels.parts});
  return launch_loops(&launch, desc->n_picks * code_panels.parts, 1, DECODED_AT_ONCE);
}

clave_status opencl_panel_rows(cl_recorder *recorder, const node *node, bool *done) {
  dequantize_desc desc;
  bound_tensor as_b;
  *done = recorder_traits(recorder)->is_cpu && describe_panel_rows(node, &desc, &as_b);
  if (!*done) return NULL;
  return (desc.x->tensor.encoding.kind ? launch_codes : launch_floats)(recorder, node, &desc,
                                                                       &as_b);
}
