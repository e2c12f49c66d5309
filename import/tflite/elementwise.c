/* Elementwise ops: unary and binary steps, activations, casts and selections. */
#include <string.h>

#include "base/dtype.h"
#include "import/tflite/converters.h"

void tflite_unary(operation *op) {
  tflite_set(op, 0, emit_unary(op->im, op->kind, tflite_required(op, 0)));
}

void tflite_square(operation *op) {
  value *x = tflite_required(op, 0);
  tflite_set(op, 0, emit_binary(op->im, "mul", x, x));
}

static value *clamped(importer *im, value *input, double low, double high) {
  if (!input) return NULL;
  return emit_step(im, "clamp",
                   (value *[]){input, value_of_float(im, input->type, low),
                               value_of_float(im, input->type, high)},
                   3);
}

void tflite_clamp(operation *op) {
  const double low = op->kind[0] == '-' ? -1 : 0, high = strcmp(op->kind, "6") == 0 ? 6 : 1;
  tflite_set(op, 0, clamped(op->im, tflite_required(op, 0), low, high));
}

void tflite_elu(operation *op) {
  tflite_set(op, 0, emit_binary_float(op->im, "elu", tflite_required(op, 0), 1));
}

void tflite_leaky_relu(operation *op) {
  const double slope = flat_float(&op->options, 0, 0);
  tflite_set(op, 0, emit_binary_float(op->im, "leaky_relu", tflite_required(op, 0), slope));
}

void tflite_prelu(operation *op) {
  tflite_set(op, 0,
             emit_binary(op->im, "leaky_relu", tflite_required(op, 0), tflite_required(op, 1)));
}

void tflite_gelu(operation *op) {
  const bool approximate = flat_bool(&op->options, 0);
  tflite_set(op, 0, emit_unary(op->im, approximate ? "gelu_tanh" : "gelu", tflite_required(op, 0)));
}

void tflite_zeros_like(operation *op) {
  value *x = tflite_required(op, 0);
  if (x) tflite_set(op, 0, emit_full(op->im, x->type, x->rank, x->dims, number_int(0)));
}

/* NaN stays NaN. */
void tflite_sign(operation *op) {
  value *x = tflite_required(op, 0);
  if (!x) return;
  value *sign = emit_unary(op->im, "sign", x);
  if (dtype_is_float((dtype)x->type))
    sign = emit_where(op->im, emit_unary(op->im, "isnan", x), x, sign);
  tflite_set(op, 0, sign);
}

/* ---------------------------------------------------------------- binary ops */

/* The quotient of floats is rounded before it is rounded down. */
void tflite_floor_div(operation *op) {
  value *x = tflite_required(op, 0), *y = tflite_required(op, 1);
  if (!x) return;
  const bool floats = dtype_is_float((dtype)x->type);
  value *out = emit_binary(op->im, floats ? "div" : "floor_divide", x, y);
  tflite_set(op, 0, floats ? emit_unary(op->im, "floor", out) : out);
}

void tflite_binary(operation *op) {
  value *x = tflite_required(op, 0), *y = tflite_required(op, 1);
  tflite_set(op, 0, emit_binary(op->im, op->kind, x, y));
}

/* Add, Sub, Mul, Div, whose options begin with an activation. */
void tflite_arithmetic(operation *op) {
  value *x = tflite_required(op, 0), *y = tflite_required(op, 1);
  const char *kind = op->kind;
  if (x && strcmp(kind, "div") == 0 && !dtype_has_fractions((dtype)x->type)) kind = "trunc_divide";
  tflite_set(op, 0, tflite_activated(op, emit_binary(op->im, kind, x, y), 0));
}

void tflite_squared_difference(operation *op) {
  value *difference = emit_binary(op->im, "sub", tflite_required(op, 0), tflite_required(op, 1));
  tflite_set(op, 0, emit_binary(op->im, "mul", difference, difference));
}

void tflite_add_n(operation *op) {
  value *out = tflite_required(op, 0);
  for (int i = 1; i < op->n_inputs; i++)
    out = emit_binary(op->im, "add", out, tflite_required(op, i));
  tflite_set(op, 0, out);
}

/* ---------------------------------------------------------------- casts and selections */

void tflite_cast(operation *op) {
  const operand *out = tflite_result(op, 0);
  clave_dtype type;
  if (!out) return;
  if (!tflite_dtype(out->type, &type) || out->type == TFLITE_INT4)
    import_unsupported(op->im, "a cast to %s", tflite_dtype_name(out->type));
  tflite_set(op, 0, emit_cast(op->im, tflite_required(op, 0), out->dtype));
}

/* The condition of Select may have one element for each row of x. */
void tflite_select(operation *op) {
  value *condition = tflite_required(op, 0), *x = tflite_required(op, 1);
  number dims[CLAVE_MAX_RANK];
  if (!condition || !x) return;
  if (condition->rank == 1 && x->rank > 1) {
    for (int d = 0; d < x->rank; d++) dims[d] = d ? number_int(1) : condition->dims[0];
    condition = emit_reshape(op->im, condition, x->rank, dims);
  }
  tflite_set(op, 0, emit_where(op->im, condition, x, tflite_required(op, 2)));
}

void tflite_select_v2(operation *op) {
  tflite_set(
      op, 0,
      emit_where(op->im, tflite_required(op, 0), tflite_required(op, 1), tflite_required(op, 2)));
}

void tflite_refused(operation *op) { import_unsupported(op->im, "%s", op->kind); }

void tflite_copy(operation *op) { tflite_set(op, 0, tflite_required(op, 0)); }

void tflite_bitcast(operation *op) {
  value *x = tflite_required(op, 0);
  const operand *out = tflite_result(op, 0);
  if (!x || !out) return;
  if (clave_dtype_size(x->type) != clave_dtype_size(out->dtype) || x->type == CLAVE_BOOL ||
      out->dtype == CLAVE_BOOL)
    import_unsupported(op->im, "dtypes of different sizes");
  tflite_set(op, 0, emit_bitcast(op->im, x, out->dtype));
}
