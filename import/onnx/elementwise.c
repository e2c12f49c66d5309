/* Elementwise ops on numbers and truth values: unary and binary steps, Clip, Where, Pow, IsInf. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "import/onnx/converters.h"

static bool elementwise_is_unsigned(clave_dtype type) {
  return type == CLAVE_U8 || type == CLAVE_U16 || type == CLAVE_U32 || type == CLAVE_U64;
}

void onnx_unary(node *node) {
  node_set(node, 0, emit_unary(node->im, node->kind, node_required(node, 0)));
}

void onnx_abs(node *node) {
  value *x = node_required(node, 0);
  if (!x) return;
  node_set(node, 0, elementwise_is_unsigned(x->type) ? x : emit_unary(node->im, "abs", x));
}

/* The sign of NaN is NaN. */
void onnx_sign(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0), *out;
  if (!x) return;
  if (elementwise_is_unsigned(x->type))
    out = emit_cast(im, emit_cast(im, x, CLAVE_BOOL), x->type);
  else
    out = emit_unary(im, "sign", x);
  if (dtype_has_fractions((dtype)x->type)) out = emit_where(im, emit_unary(im, "isnan", x), x, out);
  node_set(node, 0, out);
}

/* ---------------------------------------------------------------- order and quotients of U64 */

/* Maps U64 to I64 of the same order, or back. */
static value *flip_sign_bit(importer *im, value *input) {
  value *bit = value_of_number(im, CLAVE_I64, number_int(INT64_MIN));
  return emit_binary(im, "bitwise_xor", emit_cast(im, input, CLAVE_I64), bit);
}

value *onnx_ordered(importer *im, value *input) {
  return input && input->type == CLAVE_U64 ? flip_sign_bit(im, input) : emit_computable(im, input);
}

value *onnx_unordered(importer *im, value *input, clave_dtype type) {
  if (type == CLAVE_U64) input = flip_sign_bit(im, input);
  return emit_cast(im, input, type);
}

/* Computes a step whose result depends on the order of numbers: a comparison or an extreme. */
static value *ordered_step(importer *im, const char *kind, value *input, value *other) {
  value *out = emit_binary(im, kind, onnx_ordered(im, input), onnx_ordered(im, other));
  return out && out->type != CLAVE_BOOL ? onnx_unordered(im, out, input->type) : out;
}

/* Returns input / other of U64. Half of input, which is not negative as I64, has about half the
 * quotient. The rest says whether one is missing. A divisor from 2^63 on has the quotient 0 or 1.
 */
static value *divide_u64(importer *im, value *input, value *other) {
  value *a = emit_cast(im, input, CLAVE_I64), *b = emit_cast(im, other, CLAVE_I64);
  value *half = emit_binary(im, "bitwise_and", emit_binary_float(im, "shift_right", a, 1),
                            value_of_number(im, CLAVE_I64, number_int(INT64_MAX)));
  value *guess = emit_binary_float(im, "shift_left", emit_binary(im, "trunc_divide", half, b), 1);
  value *rest = emit_binary(im, "sub", a, emit_binary(im, "mul", guess, b));
  value *more = emit_binary(im, "ge", flip_sign_bit(im, rest), flip_sign_bit(im, b));
  value *small = emit_binary(im, "add", guess, emit_cast(im, more, CLAVE_I64));
  value *one = emit_binary(im, "ge", flip_sign_bit(im, a), flip_sign_bit(im, b));
  value *large = emit_cast(im, one, CLAVE_I64);
  value *out = emit_where(im, emit_binary_float(im, "lt", b, 0), large, small);
  return emit_cast(im, out, CLAVE_U64);
}

/* ---------------------------------------------------------------- binary steps */

void onnx_binary(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0), *y = node_required(node, 1);
  if (x && y) node_set(node, 0, emit_binary(im, node->kind, x, y));
}

void onnx_compare(node *node) {
  node_set(node, 0,
           ordered_step(node->im, node->kind, node_required(node, 0), node_required(node, 1)));
}

/* Quotients of integers are rounded towards zero. */
void onnx_div(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0), *y = node_required(node, 1), *out;
  if (!x || !y) return;
  if (x->type == CLAVE_U64 && y->type == CLAVE_U64)
    out = divide_u64(im, x, y);
  else
    out = emit_binary(im, dtype_has_fractions((dtype)x->type) ? "div" : "trunc_divide", x, y);
  node_set(node, 0, out);
}

/* The remainder has the sign of the divisor or, with fmod, that of the dividend. */
void onnx_mod(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0), *y = node_required(node, 1);
  const char *kind = node_int(node, "fmod", 0) ? "fmod" : "remainder";
  if (!x || !y) return;
  if (x->type != CLAVE_U64 || y->type != CLAVE_U64) {
    node_set(node, 0, emit_binary(im, kind, x, y));
    return;
  }
  value *whole = emit_binary(im, "mul", divide_u64(im, x, y), y);
  node_set(node, 0, emit_binary(im, "sub", x, whole));
}

/* Returns input >> other of U64: shifts by one, filling with a zero, then by other - 1. */
static value *shift_right_u64(importer *im, value *input, value *other) {
  value *a = emit_cast(im, input, CLAVE_I64), *b = emit_cast(im, other, CLAVE_I64);
  value *half = emit_binary(im, "bitwise_and", emit_binary_float(im, "shift_right", a, 1),
                            value_of_number(im, CLAVE_I64, number_int(INT64_MAX)));
  value *rest = emit_binary_float(im, "sub", b, 1);
  value *shifted = emit_binary(im, "shift_right", half, rest);
  value *out = emit_where(im, emit_binary_float(im, "eq", b, 0), a, shifted);
  return emit_cast(im, out, CLAVE_U64);
}

void onnx_bit_shift(node *node) {
  static const char *const directions[] = {"LEFT", "RIGHT"};
  importer *im = node->im;
  value *x = node_required(node, 0), *y = node_required(node, 1);
  const bool right = node_choice(node, "direction", directions, 2);
  if (!node_has(node, "direction")) import_invalid(im, "attribute 'direction' is missing");
  if (!x || !y || !import_ok(im)) return;
  if (right && x->type == CLAVE_U64 && y->type == CLAVE_U64)
    node_set(node, 0, shift_right_u64(im, x, y));
  else
    node_set(node, 0, emit_binary(im, right ? "shift_right" : "shift_left", x, y));
}

/* ---------------------------------------------------------------- any number of inputs */

void onnx_extreme(node *node) {
  value *out = node_required(node, 0);
  for (int i = 1; i < node->n_inputs; i++)
    out = ordered_step(node->im, node->kind, out, node_required(node, i));
  node_set(node, 0, out);
}

/* Sum and Mean. Sums of 16-bit floats are rounded once. */
void onnx_sum(node *node) {
  importer *im = node->im;
  value *first = node_required(node, 0);
  if (!first) return;
  const bool narrow = first->type == CLAVE_F16 || first->type == CLAVE_BF16;
  const clave_dtype type = narrow && node->n_inputs > 1 ? CLAVE_F32 : first->type;
  value *out = emit_cast(im, first, type);
  for (int i = 1; i < node->n_inputs; i++) {
    value *next = node_required(node, i);
    if (next && next->type != first->type) import_invalid(im, "the inputs have different dtypes");
    out = emit_binary(im, "add", out, emit_cast(im, next, type));
  }
  if (strcmp(node->kind, "mean") == 0 && node->n_inputs > 1)
    out = emit_binary_float(im, "div", out, (double)node->n_inputs);
  node_set(node, 0, emit_cast(im, out, first->type));
}

/* ---------------------------------------------------------------- powers */

/* True if all elements are constant integers that F32 has. */
static bool pow_fits_f32(importer *im, value *other) {
  const number *known = value_is_constant(other) ? value_known(im, other) : NULL;
  for (int64_t i = 0; known && i < value_count(other); i++)
    if (known[i].type != NUMBER_FLOAT && (known[i].i < -(1 << 24) || known[i].i > 1 << 24))
      return false;
  return known;
}

/* Returns the dtype in which base and exponent are computed. */
static clave_dtype pow_type(importer *im, const value *input, value *other) {
  const bool float_base = dtype_is_float((dtype)input->type),
             float_exponent = dtype_is_float((dtype)other->type);
  if (input->type == other->type) return input->type;
  if (!float_base) return float_exponent ? CLAVE_F64 : CLAVE_I64;
  if (input->type == CLAVE_F64 || other->type == CLAVE_F64) return CLAVE_F64;
  const bool wide = other->type == CLAVE_I32 || other->type == CLAVE_I64 ||
                    other->type == CLAVE_U32 || other->type == CLAVE_U64;
  return wide && !pow_fits_f32(im, other) ? CLAVE_F64 : CLAVE_F32;
}

/* The exponent may have another dtype; the result has the base's. */
void onnx_pow(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0), *y = node_required(node, 1);
  if (!x || !y) return;
  const clave_dtype type = pow_type(im, x, y);
  value *out = emit_binary(im, "pow", emit_cast(im, x, type), emit_cast(im, y, type));
  node_set(node, 0, emit_cast(im, out, x->type));
}

/* ---------------------------------------------------------------- truth values */

void onnx_where(node *node) {
  node_set(
      node, 0,
      emit_where(node->im, node_required(node, 0), node_required(node, 1), node_required(node, 2)));
}

void onnx_is_inf(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0);
  const bool negative = node_int(node, "detect_negative", 1),
             positive = node_int(node, "detect_positive", 1);
  if (!x) return;
  if (negative && positive)
    node_set(node, 0, emit_unary(im, "isinf", x));
  else if (negative || positive)
    node_set(node, 0,
             emit_binary_float(im, "eq", emit_computable(im, x),
                               positive ? (double)INFINITY : -(double)INFINITY));
  else
    node_set(node, 0, emit_full(im, CLAVE_BOOL, x->rank, x->dims, number_bool(false)));
}

/* ---------------------------------------------------------------- limits */

/* Returns the greatest finite number of a float dtype; 0 for integers, which have no others. */
static double greatest_finite(clave_dtype type) {
  switch (type) {
    case CLAVE_F16:
      return 65504;
    case CLAVE_BF16:
      return 0x1.FEp127;
    case CLAVE_F32:
      return (double)FLT_MAX;
    case CLAVE_F64:
      return DBL_MAX;
    default:
      return 0;
  }
}

/* Returns a limit of Clip: an attribute before opset 11, then an input. Without it the limit is the
 * last finite number (of F32, for an attribute), or NULL for integers. sign: of that number */
static value *limit(node *node, const char *name, int i, int sign) {
  const clave_dtype type = node->inputs[0]->type;
  const bool is_attribute = node->version < 11;
  const double last = sign * greatest_finite(is_attribute ? CLAVE_F32 : type);
  if (is_attribute) return value_of_float(node->im, type, node_float(node, name, last));
  value *given = node_input(node, i);
  return given || greatest_finite(type) == 0 ? given : value_of_float(node->im, type, last);
}

void onnx_clip(node *node) {
  value *out = node_required(node, 0);
  if (!out) return;
  value *low = limit(node, "min", 1, -1), *high = limit(node, "max", 2, 1);
  if (low && high && dtype_is_float((dtype)out->type)) {
    node_set(node, 0, emit_step(node->im, "clamp", (value *[]){out, low, high}, 3));
    return;
  }
  if (low) out = ordered_step(node->im, "maximum", out, low);
  if (high) out = ordered_step(node->im, "minimum", out, high);
  node_set(node, 0, out);
}
