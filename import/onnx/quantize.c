/* QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear, and products and convolutions of codes.
 */
#include "import/onnx/quantize.h"

#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "import/coded.h"
#include "import/onnx/converters.h"
#include "import/onnx/window.h"

/* ---------------------------------------------------------------- operands */

static value *spread_blocks(node *node, value *factor, const value *input, int axis,
                            int64_t block) {
  importer *im = node->im;
  number dims[CLAVE_MAX_RANK + 1];
  if (factor->rank != input->rank || input->rank >= CLAVE_MAX_RANK) {
    import_unsupported(im, "blocks along an axis of rank %d", input->rank);
    return NULL;
  }
  for (int d = 0; d <= input->rank; d++) dims[d] = factor->dims[d > axis ? d - 1 : d];
  dims[axis + 1] = number_int(block);
  value *wide = emit_expand(im, emit_unsqueeze(im, factor, axis + 1), input->rank + 1, dims);
  for (int d = 0; d < input->rank; d++) dims[d] = factor->dims[d];
  dims[axis] = number_mul(im, factor->dims[axis], number_int(block));
  wide = emit_reshape(im, wide, input->rank, dims);
  return wide ? emit_slice(im, wide, axis, number_int(0), input->dims[axis]) : NULL;
}

value *onnx_spread(node *node, value *factor, const value *input, int axis, int64_t block) {
  number dims[CLAVE_MAX_RANK];
  if (!factor || !input || !import_ok(node->im)) return NULL;
  if (block > 0) return spread_blocks(node, factor, input, axis, block);
  if (value_count(factor) == 1) return emit_reshape(node->im, factor, 0, dims);
  if (factor->rank != 1 || input->rank < 1) {
    import_invalid(node->im, "scales and zero points have rank %d", factor->rank);
    return NULL;
  }
  for (int d = 0; d < input->rank - axis; d++) dims[d] = d ? number_int(1) : factor->dims[0];
  return emit_reshape(node->im, factor, input->rank - axis, dims);
}

value *onnx_quantized_scalar(node *node, int i) {
  value *x = node_input(node, i);
  if (!x) return NULL;
  if (value_count(x) == 1) return emit_reshape(node->im, x, 0, NULL);
  import_unsupported(node->im, "input %d, a scale or zero point, has more than one element", i);
  return NULL;
}

quantized onnx_quantized_input(node *node, int first) {
  (void)node_required(node, first + 1);
  return (quantized){node_required(node, first), onnx_quantized_scalar(node, first + 1),
                     onnx_quantized_scalar(node, first + 2)};
}

value *onnx_quantize_result(node *node, value *input, int first) {
  const value *zero = node_input(node, first + 1);
  const code_range range = {zero ? zero->type : CLAVE_U8, zero ? zero->bits : 0};
  (void)node_required(node, first);
  return emit_quantize(node->im, input, onnx_quantized_scalar(node, first),
                       onnx_quantized_scalar(node, first + 1), range);
}

bool onnx_is_bytes(node *node, const value *input) {
  if (!input) return false;
  if (input->type == CLAVE_I8 || input->type == CLAVE_U8) return true;
  import_unsupported(node->im, "codes of dtype %s", clave_dtype_name(input->type));
  return false;
}

/* ---------------------------------------------------------------- encoding and decoding */

/* Sets the dtype of the codes: an attribute, that of the zero point, or U8. */
static code_range quantized_range(node *node, const value *zero) {
  const int64_t named = node_int(node, "output_dtype", 0);
  code_range range = {zero ? zero->type : CLAVE_U8, zero ? zero->bits : 0};
  if (named) {
    range.type = node_dtype(node, (int32_t)named);
    range.bits = onnx_dtype_bits((int32_t)named);
  }
  if (range.type == CLAVE_I8 || range.type == CLAVE_U8 || range.type == CLAVE_I16 ||
      range.type == CLAVE_U16 || range.type == CLAVE_F8_E4M3 || range.type == CLAVE_F8_E5M2)
    return range;
  import_unsupported(node->im, "codes of dtype %s", clave_dtype_name(range.type));
  return range;
}

static bool is_float8_code(clave_dtype type) {
  return type == CLAVE_F8_E4M3 || type == CLAVE_F8_E5M2;
}

/* Reads the axis of scales that are not one element. */
static int quantized_axis(node *node, const value *scale, const value *input, int64_t block) {
  const int64_t axis = node_int(node, "axis", 1);
  if (value_count(scale) == 1 && !block) return 0;
  return emit_axis(node->im, input->rank == 1 && axis == 1 ? 0 : axis, input->rank);
}

/* Returns the dtype in which x is divided by the scale: since version 23 the attribute or that of
 * the scale, before that F32. */
static clave_dtype quotient_type(node *node, const value *scale) {
  const int64_t precision = node->version >= 23 ? node_int(node, "precision", 0) : 0;
  const clave_dtype type = precision            ? node_dtype(node, (int32_t)precision)
                           : node->version < 23 ? CLAVE_F32
                                                : scale->type;
  if (type != CLAVE_F32 && type != CLAVE_F16 && type != CLAVE_BF16)
    import_unsupported(node->im, "division in %s", clave_dtype_name(type));
  return type;
}

/* Divides in F32, and rounds operands and quotient to the 16-bit dtype. */
static value *rounded_quotient(importer *im, value *input, value *scale, clave_dtype type) {
  input = emit_cast(im, emit_cast(im, input, type), CLAVE_F32);
  scale = emit_cast(im, emit_cast(im, scale, type), CLAVE_F32);
  return emit_cast(im, emit_cast(im, emit_binary(im, "div", input, scale), type), CLAVE_F32);
}

void onnx_quantize_linear(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0), *scale = node_required(node, 1), *zero = node_input(node, 2);
  const int64_t block = node_int(node, "block_size", 0);
  const bool saturate = node_int(node, "saturate", 1);
  if (!x || !scale) return;
  const clave_dtype type = quotient_type(node, scale);
  const int axis = quantized_axis(node, scale, x, block);
  const code_range range = quantized_range(node, zero);
  if (!saturate && is_float8_code(range.type)) import_unsupported(im, "saturate = 0");
  scale = onnx_spread(node, scale, x, axis, block);
  zero = onnx_spread(node, zero, x, axis, block);
  if (type == CLAVE_F32) {
    x = emit_cast(im, x, CLAVE_F32);
  } else {
    x = rounded_quotient(im, x, scale, type);
    scale = NULL;
  }
  node_set(node, 0, emit_quantize(im, x, scale, zero, range));
}

/* Decodes by steps, in F32. */
static value *decode_steps(node *node, const quantized *input, int axis, int64_t block) {
  importer *im = node->im;
  const quantized wide = {
      input->codes,
      onnx_spread(node, emit_cast(im, input->scale, CLAVE_F32), input->codes, axis, block),
      onnx_spread(node, input->zero, input->codes, axis, block)};
  return emit_dequantize(im, &wide);
}

void onnx_dequantize_linear(node *node) {
  importer *im = node->im;
  const quantized x = {node_required(node, 0), node_required(node, 1), node_input(node, 2)};
  const int64_t block = node_int(node, "block_size", 0), named = node_int(node, "output_dtype", 0);
  if (!x.codes || !x.scale) return;
  const clave_dtype type = named ? node_dtype(node, (int32_t)named) : x.scale->type;
  const int axis = quantized_axis(node, x.scale, x.codes, block);
  const coded_source source = {x.codes, x.scale, x.zero, value_count(x.scale) == 1 ? -1 : axis,
                               block};
  if (!import_ok(im)) return;
  value *out = type == x.scale->type ? coded_constant(im, &source) : NULL;
  if (!out) out = emit_cast(im, decode_steps(node, &x, axis, block), type);
  node_set(node, 0, out);
}

/* The range is that of input and 0: scale = (max - min) / 255, zero = -min / scale, rounded. */
quantized onnx_quantize_dynamic(importer *im, value *input) {
  const code_range range = {CLAVE_U8, 0};
  value *low = emit_reduce(im, "min", input, NULL, 0, false),
        *high = emit_reduce(im, "max", input, NULL, 0, false);
  low = low ? emit_binary_float(im, "minimum", low, 0) : NULL;
  high = high ? emit_binary_float(im, "maximum", high, 0) : NULL;
  value *span = emit_binary(im, "sub", high, low);
  value *scale = emit_binary_float(im, "div", span, 255);
  if (!scale) return (quantized){0};
  scale = emit_where(im, emit_binary(im, "eq", high, low), value_of_float(im, CLAVE_F32, 1), scale);
  value *zero = emit_binary(im, "div", emit_unary(im, "neg", low), scale);
  zero = emit_quantize(im, zero, NULL, NULL, range);
  return (quantized){emit_quantize(im, input, scale, zero, range), scale, zero};
}

void onnx_dynamic_quantize_linear(node *node) {
  value *x = node_required(node, 0);
  if (!x) return;
  const quantized out = onnx_quantize_dynamic(node->im, x);
  node_set(node, 0, out.codes);
  node_set(node, 1, out.scale);
  node_set(node, 2, out.zero);
}

/* ---------------------------------------------------------------- products */

/* Returns factors of the rows of a (M) as (M, 1); scalars and other ranks stay as they are. */
static value *product_rows(importer *im, value *factor) {
  if (!factor) return NULL;
  if (value_count(factor) == 1) return emit_reshape(im, factor, 0, NULL);
  return factor->rank == 1 ? emit_unsqueeze(im, factor, 1) : factor;
}

static value *product_columns(importer *im, value *factor) {
  return factor && value_count(factor) == 1 ? emit_reshape(im, factor, 0, NULL) : factor;
}

value *onnx_integer_product(node *node, const quantized *left, const quantized *right) {
  importer *im = node->im;
  if (!onnx_is_bytes(node, left->codes) || !onnx_is_bytes(node, right->codes)) return NULL;
  if (left->codes->rank == 0 || right->codes->rank == 0) {
    import_invalid(im, "a matrix product of a scalar");
    return NULL;
  }
  const bool row = left->codes->rank == 1, column = right->codes->rank == 1;
  value *rows = row ? emit_unsqueeze(im, left->codes, 0) : left->codes;
  value *columns = column ? emit_unsqueeze(im, right->codes, 1) : right->codes;
  value *out = emit_matmul_integer(im, rows, product_rows(im, left->zero), columns,
                                   product_columns(im, right->zero));
  if (out && column) out = emit_squeeze(im, out, out->rank - 1);
  if (out && row) out = emit_squeeze(im, out, out->rank - 1 - !column);
  return out;
}

value *onnx_scale_product(node *node, value *sums, const quantized *left, const quantized *right) {
  importer *im = node->im;
  value *scale =
      emit_binary(im, "mul", product_rows(im, left->scale), product_columns(im, right->scale));
  return emit_binary(im, "mul", scale ? emit_cast(im, sums, scale->type) : NULL, scale);
}

void onnx_matmul_integer(node *node) {
  const quantized a = {node_required(node, 0), NULL, node_input(node, 2)},
                  b = {node_required(node, 1), NULL, node_input(node, 3)};
  node_set(node, 0, onnx_integer_product(node, &a, &b));
}

static quantized read_quantized(node *node, int first, clave_dtype scale) {
  return (quantized){node_required(node, first),
                     emit_cast(node->im, node_required(node, first + 1), scale),
                     node_input(node, first + 2)};
}

void onnx_qlinear_matmul(node *node) {
  importer *im = node->im;
  const quantized a = read_quantized(node, 0, CLAVE_F32), b = read_quantized(node, 3, CLAVE_F32);
  value *y_scale = emit_cast(im, node_required(node, 6), CLAVE_F32), *y_zero = node_input(node, 7);
  if (!y_scale || !a.scale || !b.scale) return;
  const code_range range = {y_zero ? y_zero->type : CLAVE_U8, 0};
  const quantized scaled = {
      NULL, emit_binary(im, "div", product_rows(im, a.scale), product_rows(im, y_scale)), NULL};
  value *out = onnx_scale_product(node, onnx_integer_product(node, &a, &b), &scaled, &b);
  node_set(node, 0, emit_quantize(im, out, NULL, product_rows(im, y_zero), range));
}

/* ---------------------------------------------------------------- convolutions */

static value *convolve_codes(node *node, quantized x, const quantized *weight, value *bias) {
  onnx_window window;
  const int64_t groups = node_int(node, "group", 1);
  if (!onnx_is_bytes(node, x.codes) || !onnx_is_bytes(node, weight->codes)) return NULL;
  if (weight->codes->rank != x.codes->rank)
    import_invalid(node->im, "the weight's rank is not the input's");
  if (groups < 1) import_invalid(node->im, "group = %lld", (long long)groups);
  if (!import_ok(node->im) || !onnx_read_window(node, x.codes, weight->codes, &window)) return NULL;
  number before[CLAVE_MAX_RANK], after[CLAVE_MAX_RANK];
  const bool even = onnx_window_is_even(&window);
  for (int d = 0; d < x.codes->rank; d++) {
    before[d] = d < 2 ? number_int(0) : window.before[d - 2];
    after[d] = d < 2 ? number_int(0) : window.after[d - 2];
    if (d >= 2) window.window.padding[d - 2] = even ? before[d].i : 0;
  }
  if (!even) x.codes = emit_pad_codes(node->im, x.codes, x.zero, before, after);
  return emit_conv_integer(node->im, &x, weight, bias, &window.window, groups);
}

void onnx_conv_integer(node *node) {
  const quantized x = {node_required(node, 0), NULL, onnx_quantized_scalar(node, 2)},
                  weight = {node_required(node, 1), NULL, node_input(node, 3)};
  node_set(node, 0, convolve_codes(node, x, &weight, NULL));
}

void onnx_qlinear_conv(node *node) {
  importer *im = node->im;
  const quantized x = onnx_quantized_input(node, 0),
                  weight = {node_required(node, 3), node_required(node, 4), node_input(node, 5)};
  value *y_zero = node_input(node, 7), *y_scale = onnx_quantized_scalar(node, 6);
  value *sums = convolve_codes(node, x, &weight, node_input(node, 8));
  if (!sums || !y_scale || !weight.scale) return;
  const code_range range = {y_zero ? y_zero->type : CLAVE_U8, 0};
  value *scale = emit_binary(im, "mul", x.scale, product_columns(im, weight.scale));
  scale = onnx_spread(node, emit_binary(im, "div", scale, y_scale), sums, 1, 0);
  value *out = emit_binary(im, "mul", emit_cast(im, sums, CLAVE_F32), scale);
  node_set(node, 0, emit_quantize(im, out, NULL, onnx_quantized_scalar(node, 7), range));
}
