/* Convolutions and pooling. */
#include "import/emit_window.h"

#include "base/dtype.h"
#include "import/coded.h"

/* Returns the number of positions of a window: (size - extent) / stride + 1, rounded up if `ceil`,
 * where a position begins within the input or the padding before it. */
static number positions(importer *im, number size, const window *window, int d) {
  const int64_t extent = (window->kernel[d] - 1) * window->dilation[d] + 1,
                stride = window->stride[d], before = window->padding[d];
  const number padded = number_add(im, size, number_int(2 * before - extent + stride));
  if (!window->ceil_mode) return number_floor_div(im, padded, number_int(stride));
  const number all = number_ceil_div(im, padded, stride);
  /* the last position begins before size + before */
  const number begun = number_ceil_div(im, number_add(im, size, number_int(before)), stride);
  return number_min(im, all, begun);
}

void emit_window_dims(importer *im, const value *input, const window *window, number *dims) {
  for (int d = 0; d < window->n; d++) {
    dims[2 + d] = positions(im, input->dims[2 + d], window, d);
    dims[2 + d].no_sign = true;
    if (import_ok(im) && !dims[2 + d].id && dims[2 + d].i < 0) dims[2 + d] = number_int(0);
  }
}

static void set_window(importer *im, const window *window) {
  emit_set_ints(im, "stride", window->stride, window->n);
  emit_set_ints(im, "padding", window->padding, window->n);
  emit_set_ints(im, "dilation", window->dilation, window->n);
}

value *emit_conv(importer *im, value *input, value *weight, value *bias, const window *window,
                 int64_t groups) {
  number dims[CLAVE_MAX_RANK];
  const clave_id rows =
      input && weight && input->type == weight->type ? coded_rows(im, weight, false) : 0;
  if (!emit_prepare(im, input) || (!rows && !emit_prepare(im, weight)) ||
      (bias && !emit_prepare(im, bias)))
    return NULL;
  dims[0] = input->dims[0];
  dims[1] = weight->dims[0];
  emit_window_dims(im, input, window, dims);
  value *out = emit_begin(im, "Conv", input->type, input->rank, dims);
  if (!out) return NULL;
  emit_set_tensor(im, "x", input);
  if (rows)
    clave_builder_set_tensor(im->builder, "weight", rows);
  else
    emit_set_tensor(im, "weight", weight);
  emit_set_tensor(im, "bias", bias);
  set_window(im, window);
  clave_builder_set_int(im->builder, "groups", groups);
  return out;
}

value *emit_pool(importer *im, const char *kind, value *input, const window *window,
                 bool count_include_pad, value **indices) {
  number dims[CLAVE_MAX_RANK];
  if (indices) *indices = NULL;
  if (!emit_prepare(im, input)) return NULL;
  dims[0] = input->dims[0];
  dims[1] = input->dims[1];
  emit_window_dims(im, input, window, dims);
  value *out = emit_begin(im, "Pool", input->type, input->rank, dims);
  if (!out) return NULL;
  clave_builder_set_text(im->builder, "kind", kind);
  emit_set_tensor(im, "x", input);
  emit_set_ints(im, "kernel", window->kernel, window->n);
  set_window(im, window);
  clave_builder_set_bool(im->builder, "ceil_mode", window->ceil_mode);
  clave_builder_set_bool(im->builder, "count_include_pad", count_include_pad);
  if (indices) *indices = emit_result(im, "indices", CLAVE_I64, input->rank, dims);
  return out;
}

static bool is_dilated(const window *window) {
  for (int d = 0; d < window->n; d++)
    if (window->dilation[d] != 1) return true;
  return false;
}

/* Sums by a convolution of each plane with a kernel of ones. */
static value *dilated_sum(importer *im, value *input, const window *window) {
  number dims[CLAVE_MAX_RANK], kernel[CLAVE_MAX_RANK], out_dims[CLAVE_MAX_RANK];
  if (!input) return NULL;
  dims[0] = number_mul(im, input->dims[0], input->dims[1]);
  dims[1] = kernel[0] = kernel[1] = number_int(1);
  for (int d = 0; d < window->n; d++) {
    dims[2 + d] = input->dims[2 + d];
    kernel[2 + d] = number_int(window->kernel[d]);
  }
  value *ones = emit_full(im, input->type, input->rank, kernel, number_float(1));
  value *planes = emit_reshape(im, input, input->rank, dims);
  value *out = emit_conv(im, planes, ones, NULL, window, 1);
  for (int d = 0; out && d < input->rank; d++) out_dims[d] = d < 2 ? input->dims[d] : out->dims[d];
  return emit_reshape(im, out, input->rank, out_dims);
}

value *emit_window_sum(importer *im, value *input, const window *window) {
  if (is_dilated(window)) return dilated_sum(im, input, window);
  value *out = emit_pool(im, "avg", input, window, true, NULL);
  if (out && import_ok(im)) clave_builder_set_int(im->builder, "divisor", 1);
  return out;
}

value *emit_conv_transpose(importer *im, value *input, value *weight, value *bias,
                           const window *window, const int64_t *output_padding, int64_t groups) {
  number dims[CLAVE_MAX_RANK];
  if (!emit_prepare(im, input) || !emit_prepare(im, weight) || (bias && !emit_prepare(im, bias)))
    return NULL;
  dims[0] = input->dims[0];
  dims[1] = number_mul(im, weight->dims[1], number_int(groups));
  for (int d = 0; d < window->n; d++) {
    const int64_t more = (window->kernel[d] - 1) * window->dilation[d] + 1 + output_padding[d] -
                         2 * window->padding[d] - window->stride[d];
    const number spread = number_mul(im, input->dims[2 + d], number_int(window->stride[d]));
    dims[2 + d] = number_add(im, spread, number_int(more));
    dims[2 + d].no_sign = true;
  }
  value *out = emit_begin(im, "ConvTranspose", input->type, input->rank, dims);
  if (!out) return NULL;
  emit_set_tensor(im, "x", input);
  emit_set_tensor(im, "weight", weight);
  emit_set_tensor(im, "bias", bias);
  set_window(im, window);
  emit_set_ints(im, "output_padding", output_padding, window->n);
  clave_builder_set_int(im->builder, "groups", groups);
  return out;
}
