/* Quantised arithmetic: encoding and decoding, integer products and convolutions. */
#include "import/emit_quantize.h"

#include "base/dtype.h"

bool emit_is_zero(importer *im, value *x) {
  if (!x) return true;
  const number *known = value_is_constant(x) ? value_known(im, x) : NULL;
  const int64_t n = known ? value_count(x) : 0;
  for (int64_t i = 0; i < n; i++)
    if (known[i].type == NUMBER_FLOAT ? known[i].f != 0 : known[i].i != 0) return false;
  return known != NULL;
}

/* ---------------------------------------------------------------- encoding and decoding */

value *emit_dequantize(importer *im, const quantized *x) {
  if (!x->codes || !x->scale) return NULL;
  const clave_dtype type = x->scale->type;
  value *codes = emit_cast(im, x->codes, type);
  if (!emit_is_zero(im, x->zero))
    codes = emit_binary(im, "sub", codes, emit_cast(im, x->zero, type));
  return emit_binary(im, "mul", codes, x->scale);
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

value *emit_quantize(importer *im, value *x, value *scale, value *zero, code_range range) {
  double low, high;
  if (!x) return NULL;
  if (scale) x = emit_binary(im, "div", x, emit_cast(im, scale, x->type));
  if (!x) return NULL;
  const bool has_fractions = is_float8_range(range);
  if (!has_fractions) x = emit_unary(im, "round", x);
  if (x && (zero || !has_fractions))
    x = emit_binary(im, "add", x,
                    zero ? emit_cast(im, zero, x->type) : value_of_float(im, x->type, 0));
  quantize_limits(range, &low, &high);
  if (!x) return NULL;
  value *operands[] = {x, value_of_float(im, x->type, low), value_of_float(im, x->type, high)};
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

static value *quantize_sum(importer *im, value *x, int axis) {
  value *wide = emit_cast(im, x, CLAVE_I32);
  return emit_reduce(im, "sum", wide, &axis, 1, true);
}

/* a: (*, M, K), b: (N, K), I8 */
static value *quantize_multiply(importer *im, value *a, value *b) {
  number dims[CLAVE_MAX_RANK];
  if (!emit_prepare(im, a) || !emit_prepare(im, b)) return NULL;
  for (int d = 0; d < a->rank; d++) dims[d] = a->dims[d];
  dims[a->rank - 1] = b->dims[0];
  value *out = emit_begin(im, "MatmulInteger", CLAVE_I32, a->rank, dims);
  emit_set_tensor(im, "a", a);
  emit_set_tensor(im, "b", b);
  return out;
}

/* Multiplies batches of matrices in F64, which is exact for fewer than 2^37 terms. */
static value *quantize_multiply_batches(importer *im, value *a, value *a_zero, value *b,
                                        value *b_zero) {
  const quantized operands[] = {{a, value_of_float(im, CLAVE_F64, 1), a_zero},
                                {b, value_of_float(im, CLAVE_F64, 1), b_zero}};
  value *out = emit_matmul(im, emit_dequantize(im, &operands[0]), emit_dequantize(im, &operands[1]),
                           NULL, 1, 1);
  return emit_cast(im, emit_cast(im, out, CLAVE_I64), CLAVE_I32);
}

/* Subtracts zero * sum from out; nothing if the zero is 0. */
static value *quantize_correct(importer *im, value *out, value *zero, value *sum) {
  value *part = emit_binary(im, "mul", emit_cast(im, zero, CLAVE_I32), sum);
  return emit_binary(im, "sub", out, part);
}

/* (a - za) @ (b - zb) = a @ b - za * sum(b) - zb * sum(a - za) */
value *emit_matmul_integer(importer *im, value *a, value *a_zero, value *b, value *b_zero) {
  if (!a || !b) return NULL;
  if (b->rank != 2) return quantize_multiply_batches(im, a, a_zero, b, b_zero);
  b = quantize_signed(im, b, &b_zero);
  value *out = quantize_multiply(im, a, emit_transpose(im, b, 0, 1));
  if (!emit_is_zero(im, a_zero)) out = quantize_correct(im, out, a_zero, quantize_sum(im, b, 0));
  if (emit_is_zero(im, b_zero)) return out;
  value *sum = quantize_sum(im, a, a->rank - 1);
  if (!emit_is_zero(im, a_zero))
    sum = emit_binary(
        im, "sub", sum,
        emit_binary(
            im, "mul", emit_cast(im, a_zero, CLAVE_I32),
            emit_cast(im, value_of_number(im, CLAVE_I64, a->dims[a->rank - 1]), CLAVE_I32)));
  return quantize_correct(im, out, b_zero, sum);
}

/* ---------------------------------------------------------------- integer convolutions */

static value *emit_integer_filters(importer *im, value *x, value *weight, const window *window,
                                   int64_t groups, int64_t fill) {
  number dims[CLAVE_MAX_RANK];
  if (!emit_prepare(im, x) || !emit_prepare(im, weight)) return NULL;
  dims[0] = x->dims[0];
  dims[1] = weight->dims[0];
  emit_window_dims(im, x, window, dims);
  value *out = emit_begin(im, "ConvInteger", CLAVE_I32, x->rank, dims);
  if (!out) return NULL;
  emit_set_tensor(im, "x", x);
  emit_set_tensor(im, "weight", weight);
  emit_set_ints(im, "stride", window->stride, window->n);
  emit_set_ints(im, "padding", window->padding, window->n);
  emit_set_ints(im, "dilation", window->dilation, window->n);
  clave_builder_set_int(im->builder, "groups", groups);
  clave_builder_set_int(im->builder, "padding_value", fill);
  return out;
}

value *emit_pad_codes(importer *im, value *x, value *zero, const number *before,
                      const number *after) {
  number dims[CLAVE_MAX_RANK];
  if (!x || !import_ok(im)) return NULL;
  const number *known = zero && value_is_constant(zero) ? value_known(im, zero) : NULL;
  if (!zero || known)
    return emit_pad(im, x, before, after, "constant", known ? (double)known[0].i : 0);
  for (int d = 0; d < x->rank; d++) dims[d] = d < 2 ? number_int(1) : x->dims[d];
  value *inside = emit_full(im, CLAVE_BOOL, x->rank, dims, number_bool(true));
  inside = emit_pad(im, inside, before, after, "constant", 0);
  return emit_where(im, inside, emit_pad(im, x, before, after, "constant", 0), zero);
}

/* Pads x with a zero that is known only at run time, and removes the padding from the window. */
static value *conv_pad_codes(importer *im, value *x, value *zero, window *window) {
  number pads[CLAVE_MAX_RANK];
  for (int d = 0; d < x->rank; d++) pads[d] = number_int(d < 2 ? 0 : window->padding[d - 2]);
  for (int d = 0; d < window->n; d++) window->padding[d] = 0;
  return emit_pad_codes(im, x, zero, pads, pads);
}

/* Returns the sums of x under the window, (N, O or 1, spatial...). */
static value *conv_sum_codes(importer *im, value *x, const value *weight, const window *window,
                             int64_t groups, int64_t fill) {
  number dims[CLAVE_MAX_RANK];
  for (int d = 0; d < weight->rank; d++) dims[d] = weight->dims[d];
  dims[0] = number_int(groups);
  value *ones = emit_full(im, CLAVE_I8, weight->rank, dims, number_int(1));
  value *sums = emit_integer_filters(im, x, ones, window, groups, fill);
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
static value *conv_column(importer *im, value *x, int n) {
  number dims[1 + MAX_SPATIAL] = {number_int(1), number_int(1), number_int(1), number_int(1)};
  if (!x || value_count(x) == 1) return emit_reshape(im, x, 0, dims);
  dims[0] = x->dims[0];
  return emit_reshape(im, x, 1 + n, dims);
}

/* The sums of each filter: (O, 1, ...) */
static value *conv_filter_sums(importer *im, value *weight, int n) {
  int axes[1 + MAX_SPATIAL] = {1, 2, 3, 4};
  value *sums = emit_reduce(im, "sum", emit_cast(im, weight, CLAVE_I32), axes, 1 + n, false);
  return conv_column(im, sums, n);
}

/* (x - zx) * (w - zw) = x * w - zx * sum(w) - zw * (sum(x) - n * zx), n: the filter's size; x is
 * padded with zx. */
value *emit_conv_integer(importer *im, const quantized *x, const quantized *weight, value *bias,
                         const window *given, int64_t groups) {
  window window = *given;
  value *codes = x->codes, *zero = conv_column(im, x->zero, 0), *weight_zero = weight->zero;
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
