/* The attributes of ops that slide a window: kernel, strides, dilations, pads, auto_pad. */
#include "import/onnx/window.h"

/* Reads a list that is missing if it is empty. Returns its length, which is n, or -1. */
static int window_list(node *node, const char *name, int n, int64_t *out) {
  const int given = node_ints(node, name, out, 2 * MAX_SPATIAL);
  if (given > 0 && given != n)
    import_invalid(node->im, "%s has %d numbers, expected %d", name, given, n);
  return given == n && n > 0 ? n : -1;
}

/* Reads n positive numbers, which are 1 if they are missing. */
static void read_positive(node *node, const char *name, int n, int64_t *out) {
  int64_t list[2 * MAX_SPATIAL];
  const int given = window_list(node, name, n, list);
  for (int d = 0; d < n; d++) {
    out[d] = given < 0 ? 1 : list[d];
    if (out[d] < 1 || out[d] > INT32_MAX)
      import_invalid(node->im, "%s is %lld", name, (long long)out[d]);
  }
}

/* Sets the padding for SAME_UPPER or SAME_LOWER, by which the result has ceil(size / stride)
 * positions. */
static void pad_same(node *node, const value *input, bool lower, onnx_window *out) {
  importer *im = node->im;
  for (int d = 0; d < out->window.n; d++) {
    const window *window = &out->window;
    const int64_t extent = (window->kernel[d] - 1) * window->dilation[d] + 1;
    const number size = input->dims[2 + d], count = number_ceil_div(im, size, window->stride[d]);
    const number span = number_add(
        im, number_mul(im, number_sub(im, count, number_int(1)), number_int(window->stride[d])),
        number_int(extent));
    number total = number_max(im, number_sub(im, span, size), number_int(0));
    if (window->stride[d] == 1) total = number_int(extent - 1);
    total.no_sign = true;
    const number half = number_floor_div(im, total, number_int(2)),
                 rest = number_sub(im, total, half);
    out->before[d] = lower ? rest : half;
    out->after[d] = lower ? half : rest;
  }
}

static void read_pads(node *node, const value *input, onnx_window *out) {
  static const char *const modes[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"};
  int64_t pads[2 * MAX_SPATIAL];
  const int mode = node_choice(node, "auto_pad", modes, 4), n = out->window.n;
  const int given = window_list(node, "pads", 2 * n, pads);
  for (int d = 0; d < n; d++) {
    const bool use = given >= 0 && mode == 0 && import_ok(node->im);
    out->before[d] = number_int(use ? pads[d] : 0);
    out->after[d] = number_int(use ? pads[n + d] : 0);
    if (out->before[d].i != (int32_t)out->before[d].i ||
        out->after[d].i != (int32_t)out->after[d].i)
      import_invalid(node->im, "pads are %lld and %lld", (long long)out->before[d].i,
                     (long long)out->after[d].i);
  }
  if (mode == 1 || mode == 2) pad_same(node, input, mode == 2, out);
}

bool onnx_read_window(node *node, const value *input, const value *weight, onnx_window *out) {
  *out = (onnx_window){.window.n = input->rank - 2};
  if (out->window.n < 1 || out->window.n > MAX_SPATIAL) {
    import_unsupported(node->im, "%d spatial dimensions (1 to %d)", out->window.n, MAX_SPATIAL);
    return false;
  }
  const int n = out->window.n;
  int64_t kernel[2 * MAX_SPATIAL];
  const int given = window_list(node, "kernel_shape", n, kernel);
  if (given < 0 && !weight) import_invalid(node->im, "kernel_shape is missing");
  for (int d = 0; d < n && import_ok(node->im); d++) {
    const number size = weight ? weight->dims[2 + d] : number_int(kernel[d]);
    if (size.id && given < 0) import_unsupported(node->im, "the kernel's shape is open");
    out->window.kernel[d] = given < 0 ? size.i : kernel[d];
    if (out->window.kernel[d] < 1 || out->window.kernel[d] > INT32_MAX ||
        (!size.id && out->window.kernel[d] != size.i))
      import_invalid(node->im, "the kernel's shape is wrong");
  }
  read_positive(node, "strides", n, out->window.stride);
  read_positive(node, "dilations", n, out->window.dilation);
  if (import_ok(node->im)) read_pads(node, input, out);
  return import_ok(node->im);
}

bool onnx_window_is_even(const onnx_window *window) {
  for (int d = 0; d < window->window.n; d++) {
    if (window->before[d].id || window->after[d].id || window->before[d].i < 0 ||
        window->before[d].i != window->after[d].i)
      return false;
  }
  return true;
}

value *onnx_pad_window(node *node, value *input, onnx_window *window, bool always, double fill) {
  number before[CLAVE_MAX_RANK] = {{0}}, after[CLAVE_MAX_RANK] = {{0}};
  const bool even = onnx_window_is_even(window) && !always;
  for (int d = 0; d < window->window.n; d++)
    window->window.padding[d] = even ? window->before[d].i : 0;
  if (even) return input;
  for (int d = 0; d < 2; d++) before[d] = after[d] = number_int(0);
  for (int d = 0; d < window->window.n; d++) {
    before[2 + d] = window->before[d];
    after[2 + d] = window->after[d];
  }
  return emit_pad(node->im, input, before, after, "constant", fill);
}
