/* Cast, CastLike and BitCast. Integers of 2 and 4 bits are computed in bytes. */
#include <math.h>

#include "base/dtype.h"
#include "import/onnx/converters.h"

/* ---------------------------------------------------------------- casts */

/* Keeps the low bits of each element, and extends their sign if the dtype has one. */
static value *cast_keep_bits(importer *im, value *input, int bits) {
  const int all = (1 << bits) - 1, sign = 1 << (bits - 1);
  value *low = emit_binary_float(im, "bitwise_and", input, all);
  if (!input || input->type == CLAVE_U8) return low;
  return emit_binary_float(im, "sub", emit_binary_float(im, "bitwise_xor", low, sign), sign);
}

/* Returns input as integers of so many bits. They share one tensor. */
static value *cast_mark_bits(importer *im, value *input, int bits) {
  value *out = emit_prepare(im, input) ? import_alloc(im, 1, sizeof *out) : NULL;
  if (!out) return NULL;
  *out = *input;
  out->bits = bits;
  return out;
}

/* A float is rounded towards zero. Then the higher bits are dropped, as for wider integers. */
static value *cast_to_bits(importer *im, value *input, clave_dtype type, int bits) {
  if (!input) return NULL;
  value *whole = dtype_has_fractions((dtype)input->type) ? emit_cast(im, input, CLAVE_I32) : input;
  return cast_mark_bits(im, cast_keep_bits(im, emit_cast(im, whole, type), bits), bits);
}

/* Greater numbers become the greatest one, or NaN (infinity, which E5M2 has) without saturation.
 * 464 is half-way between 448 and the next power of the format, and rounds down. */
static value *cast_to_f8(importer *im, value *input, clave_dtype type, bool saturate) {
  const bool has_infinity = type == CLAVE_F8_E5M2;
  const double most = has_infinity ? 57344 : 448;
  value *f = emit_cast(im, input, CLAVE_F32);
  if (!saturate && has_infinity) return emit_cast(im, f, type);
  if (!saturate) {
    value *beyond = emit_binary_float(im, "gt", emit_unary(im, "abs", f), 464);
    f = emit_where(im, beyond, value_of_float(im, CLAVE_F32, (double)NAN), f);
  }
  f = emit_binary_float(im, "minimum", emit_binary_float(im, "maximum", f, -most), most);
  return emit_cast(im, f, type);
}

static value *cast_value(node *node, value *input, clave_dtype type, int bits) {
  const bool saturate = node_int(node, "saturate", 1);
  (void)node_text(node, "round_mode", "up"); /* only for FLOAT8E8M0 */
  const bool same = input && input->type == type && input->bits == bits;
  if (!input || !import_ok(node->im) || (same && type != CLAVE_F8_E5M2)) return input;
  if (bits) return cast_to_bits(node->im, input, type, bits);
  if (type == CLAVE_F8_E4M3 || type == CLAVE_F8_E5M2)
    return cast_to_f8(node->im, input, type, saturate);
  return input->type == type ? cast_mark_bits(node->im, input, 0)
                             : emit_cast(node->im, input, type);
}

void onnx_cast(node *node) {
  const int32_t to = (int32_t)node_int(node, "to", 0);
  const clave_dtype type = node_dtype(node, to);
  node_set(node, 0, cast_value(node, node_required(node, 0), type, onnx_dtype_bits(to)));
}

void onnx_cast_like(node *node) {
  value *x = node_required(node, 0), *like = node_required(node, 1);
  if (like) node_set(node, 0, cast_value(node, x, like->type, like->bits));
}

/* ---------------------------------------------------------------- bits */

void onnx_bit_cast(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0);
  const int32_t to = (int32_t)node_int(node, "to", 0);
  const clave_dtype type = node_dtype(node, to);
  const int bits = onnx_dtype_bits(to);
  if (!x || !import_ok(im)) return;
  if (clave_dtype_size(x->type) != clave_dtype_size(type) || x->bits != bits) {
    import_invalid(im, "a cast of bits between dtypes of different sizes");
    return;
  }
  const bool truth = type == CLAVE_BOOL || x->type == CLAVE_BOOL;
  if (truth && (dtype_has_fractions((dtype)type) || dtype_has_fractions((dtype)x->type))) {
    import_unsupported(im, "a cast of bits between %s and %s", clave_dtype_name(x->type),
                       clave_dtype_name(type));
    return;
  }
  value *out = x;
  if (x->type != type && bits)
    out = cast_to_bits(im, x, type, bits);
  else if (x->type != type)
    out = truth ? emit_cast(im, x, type) : emit_bitcast(im, x, type);
  node_set(node, 0, out);
}
