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
  if (type == CLAVE_U8) return 0;
  if (type == CLAVE_I8) return -128;
  return (double)-INFINITY;
}

/* Sums over windows: averages with the divisor 1. */
static value *window_sums(importer *im, value *x, const window *window) {
  value *out = emit_pool(im, "avg", x, window, true, NULL);
  if (out) clave_builder_set_int(im->builder, "divisor", 1);
  return out;
}

/* Averages of x, in which padding does not count. */
static value *average(operation *op, value *x, const same_padding *padding, window window) {
  importer *im = op->im;
  value *padded = tflite_padded(op, x, padding, &window, 0);
  if (!padded || padded == x) return emit_pool(im, "avg", x, &window, false, NULL);
  const number dims[] = {number_int(1), number_int(1), x->dims[2], x->dims[3]};
  value *ones = emit_expand(im, value_of_float(im, x->type, 1), 4, dims);
  value *counts = window_sums(im, tflite_padded(op, ones, padding, &window, 0), &window);
  return emit_binary(im, "div", window_sums(im, padded, &window), counts);
}

static value *pool_kind(operation *op, value *x, const window *given) {
  importer *im = op->im;
  window window = *given;
  const same_padding padding = tflite_padding(op, x, &window, flat_int(&op->options, 0, 1, 0));
  if (strcmp(op->kind, "max") == 0) {
    x = tflite_padded(op, x, &padding, &window, pool_least(x->type));
    return emit_pool(im, "max", x, &window, false, NULL);
  }
  if (strcmp(op->kind, "avg") == 0) {
    if (!op->as_codes || dtype_is_float((dtype)x->type)) return average(op, x, &padding, window);
    value *codes = average(op, emit_cast(im, x, CLAVE_F32), &padding, window);
    return tflite_saturated(im, tflite_rounded(im, codes), x->type);
  }
  return emit_unary(im, "sqrt", average(op, emit_binary(im, "mul", x, x), &padding, window));
}

void tflite_pool(operation *op) {
  value *x = tflite_required(op, 0);
  const window window = pool_window(op);
  if (x && x->rank != 4) import_invalid(op->im, "rank %d, expected 4", x->rank);
  if (!x || !tflite_check_window(op, &window)) return;
  tflite_set(op, 0, tflite_activated(op, pool_kind(op, x, &window), 5));
}
