/* MediaPipe's custom ops for maxima and their positions. Options are the C structs of the builtin
 * pooling ops: padding (1: SAME), stride (width, height), kernel (width, height), activation. */
#include <math.h>

#include "import/tflite/converters.h"
#include "import/tflite/window.h"

static window custom_window(operation *op) {
  window window = {.n = 2, .dilation = {1, 1}};
  for (int d = 0; d < 2; d++) {
    window.stride[d] = tflite_custom_int(op, 2 - d);
    window.kernel[d] = tflite_custom_int(op, 4 - d);
  }
  if (tflite_custom_int(op, 5) != 0) import_unsupported(op->im, "a fused activation");
  return window;
}

/* Returns where each window begins, along dimension d of the results (I64). */
static value *window_starts(importer *im, number count, int d, const window *window) {
  const number dims[] = {d == 0 ? count : number_int(1), d == 0 ? number_int(1) : count};
  value *starts = emit_arange(im, CLAVE_I64, number_int(-window->padding[d]),
                              number_int(window->stride[d]), count);
  return emit_reshape(im, starts, 2, dims);
}

/* The second result is, in floats, the position of the maximum in its window plus 0.1. */
void tflite_max_pool_argmax(operation *op) {
  importer *im = op->im;
  value *x = tflite_required(op, 0), *positions;
  window window = custom_window(op);
  if (x && x->rank != 4) import_invalid(im, "rank %d, expected 4", x->rank);
  if (!x || !tflite_check_window(op, &window)) return;
  const same_padding padding =
      tflite_padding(op, x, &window, tflite_custom_int(op, 0) == 1 ? 0 : 1);
  x = tflite_padded(op, x, &padding, &window, (double)-INFINITY);
  value *out = emit_pool(im, "max", x, &window, false, &positions);
  if (!out || !positions) return;
  value *width = value_of_number(im, CLAVE_I64, x->dims[3]);
  value *row = emit_binary(im, "floor_divide", positions, width);
  value *column = emit_binary(im, "sub", positions, emit_binary(im, "mul", row, width));
  row = emit_binary(im, "sub", row, window_starts(im, out->dims[2], 0, &window));
  column = emit_binary(im, "sub", column, window_starts(im, out->dims[3], 1, &window));
  value *kernel = value_of_number(im, CLAVE_I64, number_int(window.kernel[1]));
  value *index = emit_binary(im, "add", emit_binary(im, "mul", row, kernel), column);
  tflite_set(op, 0, out);
  tflite_set(op, 1, emit_binary_float(im, "add", emit_cast(im, index, CLAVE_F32), 0.1F));
}

/* Writes each element to its position in a window of zeros; windows do not overlap. */
void tflite_max_unpool(operation *op) {
  importer *im = op->im;
  value *x = tflite_required(op, 0), *positions = tflite_required(op, 1);
  const window window = custom_window(op);
  if (!x || !positions || !tflite_check_window(op, &window)) return;
  if (x->rank != 4 || positions->rank != 4) import_invalid(im, "expected images");
  if (window.stride[0] != window.kernel[0] || window.stride[1] != window.kernel[1])
    import_unsupported(im, "windows that overlap");
  if (!import_ok(im)) return;
  const number height = number_int(window.kernel[0]), width = number_int(window.kernel[1]),
               one = number_int(1);
  const number wide[] = {x->dims[0], x->dims[1], x->dims[2], one, x->dims[3], one},
               cells[] = {height, one, width},
               dims[] = {x->dims[0], x->dims[1], number_mul(im, x->dims[2], height),
                         number_mul(im, x->dims[3], width)};
  value *index = emit_reshape(im, emit_cast(im, positions, CLAVE_I64), 6, wide);
  value *cell = emit_arange(im, CLAVE_I64, number_int(0), one,
                            number_int(window.kernel[0] * window.kernel[1]));
  value *here = emit_binary(im, "eq", index, emit_reshape(im, cell, 3, cells));
  value *out = emit_where(im, here, emit_reshape(im, x, 6, wide), value_of_float(im, x->type, 0));
  tflite_set(op, 0, emit_reshape(im, out, 4, dims));
}
