/* Padding. */
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "import/tflite/converters.h"

/* Reads the rows (before, after) of the second input, in the operation's layout. */
static bool read_paddings(operation *op, const value *tensor, number *before, number *after) {
  value *input = tflite_parameter(op, 1);
  const number *elements = value_elements(op->im, input, "paddings");
  if (!tensor || !elements || !import_ok(op->im)) return false;
  if (!value_has_shape(input, 2, (int64_t[]){tensor->rank, 2})) {
    import_invalid(op->im, "paddings do not have two numbers for each of %d dimensions",
                   tensor->rank);
    return false;
  }
  for (int d = 0; d < tensor->rank; d++) {
    before[tflite_dim(op, d)] = elements[2 * d];
    after[tflite_dim(op, d)] = elements[2 * d + 1];
  }
  return true;
}

/* Returns the element that pads: an input, else 0, encoded if x is. */
static double pad_fill(operation *op) {
  const operand *x = tflite_operand(op, 0);
  double fill = op->as_codes && tflite_is_quantized(x) ? x->zero : 0;
  if (op->n_inputs > 2 && tflite_operand(op, 2)) {
    operand *given = tflite_operand(op, 2);
    value *real = tflite_input(op, 2);
    if (given && value_constant_floats(op->im, real, "the padding's value", &fill, 1) != 1 &&
        import_ok(op->im))
      import_invalid(op->im, "the padding's value has no element");
  }
  return fill;
}

void tflite_pad(operation *op) {
  number before[CLAVE_MAX_RANK], after[CLAVE_MAX_RANK];
  value *x = tflite_required(op, 0);
  if (!read_paddings(op, x, before, after)) return;
  const double fill = pad_fill(op);
  if (!import_ok(op->im)) return;
  if (x->type == CLAVE_I64 && fabs(fill) > 9007199254740992.0)
    import_unsupported(op->im, "a value beyond 2^53");
  tflite_set(op, 0, emit_pad(op->im, x, before, after, "constant", fill));
}

/* Mirrors one dimension. symmetric: the edge is repeated. */
static value *mirror_axis(importer *im, value *input, int d, number before, number after) {
  value *parts[3];
  int n = 0;
  if (!input || !import_ok(im)) return NULL;
  const number size = input->dims[d];
  if (!number_is(before, 0))
    parts[n++] = emit_flip(im, emit_slice(im, input, d, number_int(0), before), d);
  parts[n++] = input;
  if (!number_is(after, 0))
    parts[n++] = emit_flip(im, emit_slice(im, input, d, number_sub(im, size, after), size), d);
  return emit_cat(im, parts, n, d);
}

void tflite_mirror_pad(operation *op) {
  number before[CLAVE_MAX_RANK], after[CLAVE_MAX_RANK];
  value *x = tflite_required(op, 0);
  const bool symmetric = flat_int(&op->options, 0, 1, 0) == 1;
  if (!read_paddings(op, x, before, after)) return;
  for (int d = 0; d < x->rank && import_ok(op->im); d++) {
    const int64_t most = x->dims[d].i - !symmetric;
    if (!x->dims[d].id &&
        ((!before[d].id && before[d].i > most) || (!after[d].id && after[d].i > most)))
      import_invalid(op->im, "more padding than elements");
  }
  value *out = x;
  if (!symmetric) out = emit_pad(op->im, x, before, after, "reflect", 0);
  for (int d = 0; symmetric && d < x->rank; d++)
    out = mirror_axis(op->im, out, d, before[d], after[d]);
  tflite_set(op, 0, out);
}
