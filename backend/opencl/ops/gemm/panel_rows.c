/* IndexSelect of a table that a product reads, too (tied embeddings), on a CPU: of the panels that
 * the product packs, so that the pages of the table itself need not stay in memory;
 * kernels_cl/gemm/panel_rows.cl, code_rows.cl. */
#include "backend/opencl/ops/gemm/panel_rows.h"

#include "backend/opencl/ops/encoded.h"
#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/gemm/gemm_codes.h"
#include "ops/dequantize.h"

static clave_status launch_floats(cl_recorder *s, const node *n, const dequantize_form *f,
                                  const bound_tensor *as_b) {
  const int64_t columns = gemm_panel_columns(s), parts = ceil_div(f->row, DECODED_AT_ONCE);
  const pack_request panels = {
      .x = as_b, .kind = PACKED_GEMM_B, .size = {columns, f->rows, f->row}};
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "TYPE", moved_type(f->x->t.type));
  launch_dtype(&l, "INDEX_TYPE", f->index->t.type);
  launch_args(&l, &(panel_rows_args){.x = buffer_arg(f->x),
                                     .panels = packed_arg(recorder_packed_by_others(s, &panels)),
                                     .columns = columns,
                                     .index = buffer_arg(f->index),
                                     .index_dims = dims_arg(&f->places),
                                     .index_strides = strides_arg(&f->places),
                                     .out = buffer_arg(f->out),
                                     .rows = f->rows,
                                     .row_size = f->row,
                                     .parts = parts,
                                     .items = f->n_picks * parts});
  return launch_loops(&l, f->n_picks * parts, 1, DECODED_AT_ONCE);
}

static clave_status launch_codes(cl_recorder *s, const node *n, const dequantize_form *f,
                                 const bound_tensor *as_b) {
  code_panels p;
  if (!code_panels_of(&f->x->t.encoding, f->row, &p))
    return UNSUPPORTED("the table has no panels of codes");
  const pack_request panels = {
      .x = as_b, .kind = PACKED_GEMM_CODES, .size = {CODE_PANEL, f->rows, f->row}};
  launch l;
  launch_begin(&l, s, n);
  launch_encoding(&l, &f->x->t.encoding);
  gemm_codes_define(&l, &p);
  launch_dtype(&l, "OUT_TYPE", f->out->t.type);
  launch_dtype(&l, "INDEX_TYPE", f->index->t.type);
  launch_args(
      &l, &(code_rows_args){.encoded = encoded_operand(f->x),
                            .codes = gemm_codes_operand(&p, recorder_packed_by_others(s, &panels)),
                            .index = buffer_arg(f->index),
                            .index_dims = dims_arg(&f->places),
                            .index_strides = strides_arg(&f->places),
                            .out = buffer_arg(f->out),
                            .rows = f->rows,
                            .row_size = f->row,
                            .items = f->n_picks * p.parts});
  return launch_loops(&l, f->n_picks * p.parts, 1, DECODED_AT_ONCE);
}

clave_status opencl_panel_rows(cl_recorder *s, const node *n, bool *done) {
  dequantize_form f;
  bound_tensor as_b;
  *done = recorder_traits(s)->is_cpu && describe_panel_rows(n, &f, &as_b);
  if (!*done) return NULL;
  return (f.x->t.encoding.kind ? launch_codes : launch_floats)(s, n, &f, &as_b);
}
