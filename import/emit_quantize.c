/* Quantised arithmetic: encoding and decoding, integer products and convolutions. */
#include "import/emit_quantize.h"

#include "base/dtype.h"

bool emit_is_zero(importer *im, value *input) {
  if (!input) return true;
  const number *known = value_is_constant(input) ? value_known(im, input) : NULL;
  const int64_t n = known ? value_count(input) : 0;
  for (int64_t i = 0; i < n; i++)
    if (known[i].type == NUMBER_FLOAT ? known[i].f != 0 : known[i].i != 0) return false;
  return known != NULL;
}

/* ---------------------------------------------------------------- encoding and decoding */

value *emit_dequantize(importer *im, const quantized *input) {
  if (!input->codes || !input->scale) return NULL;
  const clave_dtype type = input->scale->type;
  value *codes = emit_cast(im, input->codes, type);
  if (!emit_is_zero(im, input->zero))
    codes = emit_binary(im, "sub", codes, emit_cast(im, input->zero, type));
  return emit_binary(im, "mul", codes, input->scale);
}

static bool is_float8_range(code_range range) {
  return range.type == CLAVE_F8_E4M3 || range.type == CLAVE_F8_E5M2;
}

static void quantize_limits(code_range range, double *low, double *high) {
  if (is_float8_range(range)) {
    *high = range.type == CLAVE_F8_E5M2 ? 57344 : 448;
    *low = -*high;
    return;
  }
  const int bits = range.bits ? range.bits : 8 * (int)clave_dtype_size(range.type);
  const bool is_signed = range.type == CLAVE_I8 || range.type == CLAVE_I16;
  *low = is_signed ? -(double)(1ll << (bits - 1)) : 0;
  *high = (double)(1ll << (is_signed ? bits - 1 : bits)) - 1;
}

value *emit_quantize(importer *im, value *input, value *scale, value *zero, code_range range) {
  double low, high;
  if (!input) return NULL;
  if (scale) input = emit_binary(im, "div", input, emit_cast(im, scale, input->type));
  if (!input) return NULL;
  const bool has_fractions = is_float8_range(range);
  if (!has_fractions) input = emit_unary(im, "round", input);
  if (input && (zero || !has_fractions))
    input =
        emit_binary(im, "add", input,
                    zero ? emit_cast(im, zero, input->type) : value_of_float(im, input->type, 0));
  quantize_limits(range, &low, &high);
  if (!input) return NULL;
  value *operands[] = {input, value_of_float(im, input->type, low),
                       value_of_float(im, input->type, high)};
  value *out = emit_cast(im, emit_step(im, "clamp", operands, 3), range.type);
  if (out) out->bits = (uint8_t)range.bits;
  return out;
}

/* ---------------------------------------------------------------- integer products */

/* Subtracts 128 from the codes of a constant. */
static value *quantize_signed_constant(importer *im, value *codes) {
  const uint8_t *from = value_bytes(im, codes);
  const int64_t n = value_count(codes);
  uint8_t *bytes = from ? import_alloc(im, (size_t)n + 1, 1) : NULL;
  value *out = bytes ? value_new(im, CLAVE_I8, codes->rank, codes->dims) : NULL;
  if (!out) return NULL;
  for (int64_t i = 0; i < n; i++) bytes[i] = from[i] ^ 0x80;
  out->data = bytes;
  return out;
}

/* Subtracts 128 from U8 codes, which then are I8, and from their zero. */
static value *quantize_signed(importer *im, value *codes, value **zero) {
  if (!codes || codes->type == CLAVE_I8) return codes;
  *zero = *zero ? emit_cast(im, *zero, CLAVE_I32) : value_of_number(im, CLAVE_I32, number_int(0));
  *zero = emit_binary(im, "sub", *zero, value_of_number(im, CLAVE_I32, number_int(128)));
  if (value_is_constant(codes)) return quantize_signed_constant(im, codes);
  value *flipped =
      emit_binary(im, "bitwise_xor", codes, value_of_number(im, CLAVE_U8, number_int(128)));
  return emit_bitcast(im, flipped, CLAVE_I8);
}

static value *quantize_sum(importer *im, value *input, int axis) {
  value *wide = emit_cast(im, input, CLAVE_I32);
  return emit_reduce(im, "sum", wide, &axis, 1, true);
}

/* left: (*, M, K), right: (N, K), I8 */
static value *quantize_multiply(importer *im, value *left, value *right) {
  number dims[CLAVE_MAX_RANK];
  if (!emit_prepare(im, left) || !emit_prepare(im, right)) return NULL;
  for (int d = 0; d < left->rank; d++) dims[d] = left->dims[d];
  dims[left->rank - 1] = right->dims[0];
  value *out = emit_begin(im, "MatmulInteger", CLAVE_I32, left->rank, dims);
  emit_set_tensor(im, "a", left);
  emit_set_tensor(im, "b", right);
  return out;
}

/* Multiplies batches of matrices in F64, which is exact for fewer than 2^37 terms. */
static value *quantize_multiply_batches(importer *im, value *left, value *left_zero, value *right,
                                        value *right_zero) {
  const quantized operands[] = {{left, value_of_float(im, CLAVE_F64, 1), left_zero},
                                {right, value_of_float(im, CLAVE_F64, 1), right_zero}};
  value *out = emit_matmul(im, emit_dequantize(im, &operands[0]), emit_dequantize(im, &operands[1]),
                           NULL, 1, 1);
  return emit_cast(im, emit_cast(im, out, CLAVE_I64), CLAVE_I32);
}

/* Subtracts zero * sum from out; nothing if the zero is 0. */
static value *quantize_correct(importer *im, value *out, value *zero, value *sum) {
  value *part = emit_binary(im, "mul", emit_cast(im, zero, CLAVE_I32), sum);
  return emit_binary(im, "sub", out, part);
}

/* (left - za) @ (right - zb) = left @ right - za * sum(right) - zb * sum(left - za) */
value *emit_matmul_integer(importer *im, value *left, value *left_zero, value *right,
                           value *right_zero) {
  if (!left || !right) return NULL;
  if (right->rank != 2) return quantize_multiply_batches(im, left, left_zero, right, right_zero);
  right = quantize_signed(im, right, &right_zero);
  value *out = quantize_multiply(im, left, emit_transpose(im, right, 0, 1));
  if (!emit_is_zero(im, left_zero))
    out = quantize_correct(im, out, left_zero, quantize_sum(im, right, 0));
  if (emit_is_zero(im, right_zero)) return out;
  value *sum = quantize_sum(im, left, left->rank - 1);
  if (!emit_is_zero(im, left_zero))
    sum = emit_binary(
        im, "sub", sum,
        emit_binary(
            im, "mul", emit_cast(im, left_zero, CLAVE_I32),
            emit_cast(im, value_of_number(im, CLAVE_I64, left->dims[left->rank - 1]), CLAVE_I32)));
  return quantize_correct(im, out, right_zero, sum);
}

/* ---------------------------------------------------------------- integer convolutions */

static value *emit_integer_filters(importer *im, value *input, value *weight, const window *window,
                                   int64_t groups, int64_t fill) {
  number dims[CLAVE_MAX_RANK];
  if (!emit_prepare(im, input) || !emit_prepare(im, weight)) return NULL;
  dims[0] = input->dims[0];
  dims[1] = weight->dims[0];
  emit_window_dims(im, input, window, dims);
  value *out = emit_begin(im, "ConvInteger", CLAVE_I32, input->rank, dims);
  if (!out) return NULL;
  emit_set_tensor(im, "x", input);
  emit_set_tensor(im, "weight", weight);
  emit_set_ints(im, "stride", window->stride, window->n);
  emit_set_ints(im, "padding", window->padding, window->n);
  emit_set_ints(im, "dilation", window->dilation, window->n);
  clave_builder_set_int(im->builder, "groups", groups);
  clave_builder_set_int(im->builder, "padding_value", fill);
  return out;
}

value *emit_pad_codes(importer *im, value *input, value *zero, const number *before,
                      const number *after) {
  number dims[CLAVE_MAX_RANK];
  if (!input || !import_ok(im)) return NULL;
  const number *known = zero && value_is_constant(zero) ? value_known(im, zero) : NULL;
  if (!zero || known)
    return emit_pad(im, input, before, after, "constant", known ? (double)known[0].i : 0);
  for (int d = 0; d < input->rank; d++) dims[d] = d < 2 ? number_int(1) : input->dims[d];
  value *inside = emit_full(im, CLAVE_BOOL, input->rank, dims, number_bool(true));
  inside = emit_pad(im, inside, before, after, "constant", 0);
  return emit_where(im, inside, emit_pad(im, input, before, after, "constant", 0), zero);
}

/* Pads input with a zero that is known only at run time, and removes the padding from the window.
 */
static value *conv_pad_codes(importer *im, value *input, value *zero, window *window) {
  number pads[CLAVE_MAX_RANK];
  for (int d = 0; d < input->rank; d++) pads[d] = number_int(d < 2 ? 0 : window->padding[d - 2]);
  for (int d = 0; d < window->n; d++) window->padding[d] = 0;
  return emit_pad_codes(im, input, zero, pads, pads);
}

/* Returns the sums of input under the window, (N, O or 1, spatial...). */
static value *conv_sum_codes(importer *im, value *input, const value *weight, const window *window,
                             int64_t groups, int64_t fill) {
  number dims[CLAVE_MAX_RANK];
  for (int d = 0; d < weight->rank; d++) dims[d] = weight->dims[d];
  dims[0] = number_int(groups);
  value *ones = emit_full(im, CLAVE_I8, weight->rank, dims, number_int(1));
  value *sums = emit_integer_filters(im, input, ones, window, groups, fill);
  if (groups == 1 || !sums) return sums;
  const number each = number_floor_div(im, weight->dims[0], number_int(groups));
  number wide[CLAVE_MAX_RANK + 1];
  for (int d = 0; d <= sums->rank; d++) wide[d] = d == 2 ? each : sums->dims[d > 2 ? d - 1 : d];
  for (int d = 0; d < sums->rank; d++) dims[d] = sums->dims[d];
  dims[1] = weight->dims[0];
  return emit_reshape(im, emit_expand(im, emit_unsqueeze(im, sums, 2), sums->rank + 1, wide),
                      sums->rank, dims);
}

/* Reshapes (O) to (O, 1, ...), which is broadcast to (N, O, spatial...). */
static value *conv_column(importer *im, value *input, int n) {
  number dims[1 + MAX_SPATIAL] = {number_int(1), number_int(1), number_int(1), number_int(1)};
  if (!input || value_count(input) == 1) return emit_reshape(im, input, 0, dims);
  dims[0] = input->dims[0];
  return emit_reshape(im, input, 1 + n, dims);
}

/* The sums of each filter: (O, 1, ...) */
static value *conv_filter_sums(importer *im, value *weight, int n) {
  int axes[1 + MAX_SPATIAL] = {1, 2, 3, 4};
  value *sums = emit_reduce(im, "sum", emit_cast(im, weight, CLAVE_I32), axes, 1 + n, false);
  return conv_column(im, sums, n);
}

/* (input - zx) * (w - zw) = input * w - zx * sum(w) - zw * (sum(input) - n * zx), n: the filter's
 * size; input is padded with zx. */
value *emit_conv_integer(importer *im, const quantized *input, const quantized *weight, value *bias,
                         const window *given, int64_t groups) {
  window window = *given;
  value *codes = input->codes, *zero = conv_column(im, input->zero, 0), *weight_zero = weight->zero;
  if (!codes || !weight->codes || !import_ok(im)) return NULL;
  const number *known = zero && value_is_constant(zero) ? value_known(im, zero) : NULL;
  const int64_t fill = known ? known[0].i : 0;
  bool pads = false;
  for (int d = 0; d < window.n; d++) pads = pads || window.padding[d];
  if (zero && !known && pads) codes = conv_pad_codes(im, codes, zero, &window);
  value *filters = quantize_signed(im, weight->codes, &weight_zero);
  if (!codes || !filters) return NULL;
  const bool centred = emit_is_zero(im, zero);
  value *out = emit_integer_filters(im, codes, filters, &window, groups, fill);
  if (!centred) out = quantize_correct(im, out, zero, conv_filter_sums(im, filters, window.n));
  if (!emit_is_zero(im, weight_zero)) {
    number n = number_int(1);
    for (int d = 1; d < filters->rank; d++) n = number_mul(im, n, filters->dims[d]);
    value *sums = conv_sum_codes(im, codes, filters, &window, groups, fill);
    value *count = emit_cast(im, value_of_number(im, CLAVE_I64, n), CLAVE_I32);
    if (!centred) sums = quantize_correct(im, sums, zero, count);
    out = quantize_correct(im, out, conv_column(im, weight_zero, window.n), sums);
  }
  return bias ? emit_binary(im, "add", out, conv_column(im, bias, window.n)) : out;
}
