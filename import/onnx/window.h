#ifndef IMPORT_ONNX_WINDOW_H
#define IMPORT_ONNX_WINDOW_H
/* The window of a convolution or pooling op, as its attributes describe it. */
#include "import/emit_window.h"
#include "import/onnx/node.h"

typedef struct onnx_window {
  window window; /* padding: set by onnx_pad_window */
  number before[MAX_SPATIAL], after[MAX_SPATIAL];
} onnx_window;

/* Reads the attributes for input: (N, C, spatial...). weight: (O, C, kernel...), or NULL if the
 * kernel is an attribute alone. False after an error. */
bool onnx_read_window(node *node, const value *input, const value *weight, onnx_window *out);
/* True if the padding is a constant that is the same before and after each dimension. */
bool onnx_window_is_even(const onnx_window *window);
/* Returns input, padded if the window's own padding cannot say it, or always. */
value *onnx_pad_window(node *node, value *input, onnx_window *window, bool always, double fill);

#endif
