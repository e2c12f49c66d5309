/* Pooling. */
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "import/tflite/converters.h"
#include "import/tflite/window.h"

static window pool_window(operation *op) {
  window window = {.n = 2, .dilation = {1, 1}};
  for (int d = 0; d < 2; d++) {
    window.stride[d] = flat_int(&op->options, 2 - d, 4, 0);
    window.kernel[d] = flat_int(&op->options, 4 - d, 4, 0);
  }
  return window;
}

/* Returns the least number of a dtype, with which maxima are padded. */
static double pool_least(clave_dtype type) {
  double low, high;
  return tflite_code_limits(type, &low, &high) ? low : (double)-INFINITY;
}

/* Sums over windows: averages with the divisor 1. */
static value *window_sums(importer *im, value *input, const window *window) {
  value *out = emit_pool(im, "avg", input, window, true, NULL);
  if (out) clave_builder_set_int(im->builder, "divisor", 1);
  return out;
}

/* Averages of input, in which padding does not count. */
static value *average(operation *op, value *input, const same_padding *padding, window window) {
  importer *im = op->im;
  value *padded = tflite_padded(op, input, padding, &window, 0);
  if (!padded || padded == input) return emit_pool(im, "avg", input, &window, false, NULL);
  const number dims[] = {number_int(1), number_int(1), input->dims[2], input->dims[3]};
  value *ones = emit_expand(im, value_of_float(im, input->type, 1), 4, dims);
  value *counts = window_sums(im, tflite_padded(op, ones, padding, &window, 0), &window);
  return emit_binary(im, "div", window_sums(im, padded, &window), counts);
}

static value *pool_kind(operation *op, value *input, const window *given) {
  importer *im = op->im;
  window window = *given;
  const same_padding padding = tflite_padding(op, input, &window, flat_int(&op->options, 0, 1, 0));
  if (strcmp(op->kind, "max") == 0) {
    input = tflite_padded(op, input, &padding, &window, pool_least(input->type));
    return emit_pool(im, "max", input, &window, false, NULL);
  }
  if (strcmp(op->kind, "avg") == 0) {
    if (!op->as_codes || dtype_is_float((dtype)input->type))
      return average(op, input, &padding, window);
    value *codes = average(op, emit_cast(im, input, CLAVE_F32), &padding, window);
    return tflite_saturated(im, tflite_rounded(im, codes), input->type);
  }
  return emit_unary(im, "sqrt",
                    average(op, emit_binary(im, "mul", input, input), &padding, window));
}

void tflite_pool(operation *op) {
  value *x = tflite_required(op, 0);
  const window window = pool_window(op);
  if (x && x->rank != 4) import_invalid(op->im, "rank %d, expected 4", x->rank);
  if (!x || !tflite_check_window(op, &window)) return;
  tflite_set(op, 0, tflite_activated(op, pool_kind(op, x, &window), 5));
}
