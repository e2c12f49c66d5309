/* Padding of windows. */
#include "import/tflite/window.h"

enum { SAME = 0, VALID = 1, MAX_KERNEL = 1 << 20 };

bool tflite_check_window(operation *op, const window *window) {
  for (int d = 0; d < window->n; d++)
    if (window->kernel[d] <= 0 || window->stride[d] <= 0 || window->dilation[d] <= 0)
      import_invalid(op->im, "a window of size %lld, stride %lld and dilation %lld",
                     (long long)window->kernel[d], (long long)window->stride[d],
                     (long long)window->dilation[d]);
  for (int d = 0; d < window->n; d++)
    if (window->kernel[d] > MAX_KERNEL || window->dilation[d] > MAX_KERNEL)
      import_unsupported(op->im, "a window of more than %d elements", MAX_KERNEL);
  return import_ok(op->im);
}

same_padding tflite_padding(operation *op, const value *input, const window *window,
                            int64_t padding) {
  importer *im = op->im;
  same_padding out;
  for (int d = 0; d < window->n; d++) {
    const int64_t extent = (window->kernel[d] - 1) * window->dilation[d] + 1,
                  stride = window->stride[d];
    number all = number_int(0);
    if (padding == SAME && stride == 1) {
      all = number_int(extent - 1);
    } else if (padding == SAME) {
      const number size = input->dims[2 + d];
      const number last = number_mul(
          im, number_sub(im, number_ceil_div(im, size, stride), number_int(1)), number_int(stride));
      all = number_max(im, number_sub(im, number_add(im, last, number_int(extent)), size),
                       number_int(0));
    } else if (padding != VALID) {
      import_invalid(im, "padding %lld", (long long)padding);
    }
    all.no_sign = true;
    out.before[d] = number_floor_div(im, all, number_int(2));
    out.after[d] = number_sub(im, all, out.before[d]);
  }
  return out;
}

value *tflite_padded(operation *op, value *input, const same_padding *padding, window *window,
                     double fill) {
  number before[CLAVE_MAX_RANK], after[CLAVE_MAX_RANK];
  if (!input) return NULL;
  for (int d = 0; d < input->rank; d++) before[d] = after[d] = number_int(0);
  for (int d = 0; d < window->n; d++) {
    const number a = padding->before[d], b = padding->after[d];
    const bool equal = !a.id && !b.id && a.i == b.i;
    window->padding[d] = equal ? a.i : 0;
    before[2 + d] = equal ? number_int(0) : a;
    after[2 + d] = equal ? number_int(0) : b;
  }
  input = emit_pad(op->im, input, before, after, "constant", fill);
  for (int d = 0; input && d < window->n; d++) {
    const number size = input->dims[2 + d];
    const int64_t extent = (window->kernel[d] - 1) * window->dilation[d] + 1;
    if (!size.id && size.i + 2 * window->padding[d] < extent)
      import_unsupported(op->im, "a window of %lld elements over %lld", (long long)extent,
                         (long long)size.i);
  }
  return import_ok(op->im) ? input : NULL;
}
