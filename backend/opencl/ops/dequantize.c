/* Dequantize, IndexSelect of encoded constants, and constants that other ops decode;
 * kernels_cl/dequantize.cl. */
#include "ops/dequantize.h"

#include "backend/opencl/ops/encoded.h"
#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

encoded_params encoded_operand(const bound_tensor *x) {
  const encoding *e = &x->t.encoding;
  int64_t row = tensor_row(&x->t), bytes = (int64_t)encoding_row_bytes(e, row);
  if (e->kind == ENCODING_BLOCKS) {
    const block_format *f = block_format_at(e->format);
    return (encoded_params){.codes = buffer_arg(x),
                            .row_bytes = bytes,
                            .scales_at = 0,
                            .groups = f->elements / DECODED_AT_ONCE,
                            .group = f->bytes};
  }
  return (encoded_params){.codes = buffer_arg(x),
                          .row_bytes = bytes,
                          .scales_at = (int64_t)encoding_code_bytes(e, row),
                          .groups = max_i64(encoding_groups(e, row), 1),
                          .group = e->group ? e->group : max_i64(row, 1)};
}

/* Without an index: out, of type `type`, has all rows. */
static clave_status launch_parts(cl_recorder *s, const node *n, const dequantize_form *f,
                                 dtype type, arg_buffer out) {
  int64_t parts = ceil_div(f->row, DECODED_AT_ONCE);
  launch l;
  launch_begin(&l, s, n);
  launch_encoding(&l, &f->x->t.encoding);
  launch_dtype(&l, "OUT_TYPE", type);
  if (f->index) launch_dtype(&l, "INDEX_TYPE", f->index->t.type);
  launch_define(&l, "HAS_INDEX", f->index != NULL);
  launch_args(&l, &(dequantize_args){.encoded = encoded_operand(f->x),
                                     .index = optional_arg(f->index),
                                     .index_dims = dims_arg(&f->places),
                                     .index_strides = strides_arg(&f->places),
                                     .out = out,
                                     .rows = f->rows,
                                     .row_size = f->row,
                                     .parts = parts,
                                     .items = f->n_picks * parts});
  return launch_loops(&l, f->n_picks * parts, 1, DECODED_AT_ONCE);
}

clave_status opencl_decode(cl_recorder *s, const node *n, const bound_tensor *x, arg_buffer out) {
  const dequantize_form f = {
      .x = x, .rows = tensor_rows(&x->t), .row = tensor_row(&x->t), .n_picks = tensor_rows(&x->t)};
  return launch_parts(s, n, &f, DTYPE_F32, out);
}

clave_status opencl_dequantize(cl_recorder *s, const node *n) {
  dequantize_form f;
  describe_dequantize(n, &f);
  return launch_parts(s, n, &f, f.out->t.type, buffer_arg(f.out));
}

clave_status opencl_pick_rows(cl_recorder *s, const node *n) {
  dequantize_form f;
  describe_picked_rows(n, &f);
  return launch_parts(s, n, &f, f.out->t.type, buffer_arg(f.out));
}
