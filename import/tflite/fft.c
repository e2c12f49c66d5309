/* RFFT2D and what reads its complex results, which are stored as (..., 2) in F32. */
#include <string.h>

#include "import/tflite/converters.h"

static value *emit_fft(importer *im, value *input, int axis, bool from_real) {
  number dims[CLAVE_MAX_RANK + 1];
  if (!emit_prepare(im, input)) return NULL;
  for (int d = 0; d < input->rank; d++) dims[d] = input->dims[d];
  if (from_real) {
    dims[axis] = number_int(input->dims[axis].i / 2 + 1);
    dims[input->rank] = number_int(2);
  }
  value *out = emit_begin(im, "Fft", CLAVE_F32, input->rank + from_real, dims);
  if (!out) return NULL;
  emit_set_tensor(im, "x", input);
  clave_builder_set_int(im->builder, "axis", axis);
  clave_builder_set_text(im->builder, "kind", from_real ? "from_real" : "complex");
  return out;
}

/* Crops or pads the last two dimensions to the length of the transform. */
static value *fit_length(importer *im, value *input, const int64_t *length) {
  number before[CLAVE_MAX_RANK], after[CLAVE_MAX_RANK];
  for (int d = 0; d < input->rank; d++) {
    const int64_t want = d < input->rank - 2 ? input->dims[d].i : length[d - (input->rank - 2)];
    before[d] = number_int(0);
    after[d] = d < input->rank - 2 ? number_int(0) : number_int(want - input->dims[d].i);
  }
  return emit_pad(im, input, before, after, "constant", 0);
}

void tflite_rfft2d(operation *op) {
  importer *im = op->im;
  value *x = tflite_required(op, 0);
  operand *out = tflite_result(op, 0);
  int64_t length[2] = {0};
  const int n = value_constant_ints(im, tflite_parameter(op, 1), "fft_length", length, 2);
  if (!x || !out || !import_ok(im)) return;
  if (n != 2 || x->rank < 2 || x->type != CLAVE_F32 || length[0] <= 0 || length[1] <= 0)
    import_invalid(im, "expected floats of two dimensions and two lengths");
  else if (x->dims[x->rank - 1].id || x->dims[x->rank - 2].id)
    import_unsupported(im, "open sizes");
  if (!import_ok(im)) return;
  value *rows = emit_fft(im, fit_length(im, x, length), x->rank - 1, true);
  out->values[LAST] = emit_fft(im, rows, x->rank - 2, false);
}

void tflite_complex_part(operation *op) {
  importer *im = op->im;
  value *x = tflite_parameter(op, 0);
  if (!x || tflite_operand(op, 0)->type != TFLITE_COMPLEX64) {
    if (x) import_unsupported(im, "an input that is not COMPLEX64");
    return;
  }
  const int last = x->rank - 1;
  value *real = emit_select(im, x, last, number_int(0)),
        *imaginary = emit_select(im, x, last, number_int(1));
  value *out = strcmp(op->kind, "real") == 0   ? real
               : strcmp(op->kind, "imag") == 0 ? imaginary
                                               : emit_binary(im, "hypot", real, imaginary);
  tflite_set_last(op, 0, out);
}
