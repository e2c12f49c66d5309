/* Pad and CenterCropPad. */
#include <string.h>

#include "import/emit_index.h"
#include "import/onnx/converters.h"

/* Reads pads, from an attribute up to version 10. Returns their number, -1 after an error. */
static int pad_numbers(node *node, number *pads) {
  int64_t ints[2 * CLAVE_MAX_RANK];
  int n;
  if (node->version < 11) {
    n = node_ints(node, "pads", ints, 2 * CLAVE_MAX_RANK);
    for (int i = 0; i < n; i++) pads[i] = number_int(ints[i]);
    if (n < 0) import_invalid(node->im, "attribute 'pads' is missing");
    return n;
  }
  value *input = node_required(node, 1);
  const number *elements = value_elements(node->im, input, "pads");
  n = elements ? (int)value_count(input) : -1;
  if (n > 2 * CLAVE_MAX_RANK) import_invalid(node->im, "pads has %d numbers", n);
  for (int i = 0; i < n && n <= 2 * CLAVE_MAX_RANK; i++) pads[i] = elements[i];
  return import_ok(node->im) ? n : -1;
}

/* Sets the numbers of all dimensions; false after an error. */
static bool pad_sides(node *node, const value *tensor, number *before, number *after) {
  number pads[2 * CLAVE_MAX_RANK], axes[CLAVE_MAX_RANK];
  const int n_pads = pad_numbers(node, pads);
  value *input = node->version >= 18 ? node_input(node, 3) : NULL;
  int n = onnx_axes_numbers(node, input, tensor->rank, axes);
  if (n < 0 && import_ok(node->im)) {
    n = tensor->rank;
    for (int d = 0; d < n; d++) axes[d] = number_int(d);
  }
  if (import_ok(node->im) && n_pads != 2 * n)
    import_invalid(node->im, "%d pads for %d axes", n_pads, n);
  if (!import_ok(node->im)) return false;
  for (int d = 0; d < tensor->rank; d++) {
    before[d] = emit_number_at(node->im, axes, pads, n, d, number_int(0));
    after[d] = emit_number_at(node->im, axes, pads + n, n, d, number_int(0));
  }
  return import_ok(node->im);
}

/* Returns false if a side needs more elements than the op can take from the input. Reflections by
 * more than an open size are errors of the runtime, as in onnxruntime. */
static bool pad_fits(number size, number pad, bool reflect) {
  if (size.id || pad.id) return reflect || number_is(pad, 0);
  return pad.i <= size.i - reflect;
}

/* Pads an axis, of constant size for reflections, by any number of reflections or repetitions. */
static value *pad_by_index(importer *im, value *input, int axis, number before, number after,
                           bool reflect) {
  const number size = input->dims[axis];
  const number total = number_add(im, number_add(im, before, size), after);
  const number turn = number_int(size.i > 1 ? 2 * (size.i - 1) : 1), period = reflect ? turn : size;
  value *at = emit_binary_number(im, "sub", emit_positions(im, total, 0, 1), before);
  at = emit_binary_number(im, "remainder", at, period);
  if (reflect) {
    value *mirrored = emit_binary_number(im, "sub", at, period);
    at = emit_binary(im, "minimum", at, emit_unary(im, "neg", mirrored));
  }
  return emit_index_select(im, input, axis, at);
}

/* Crops first, then pads with elements of the input. mode: of the op */
static value *pad_with_own(importer *im, value *input, const char *mode, number *before,
                           number *after) {
  const number zero = number_int(0);
  const bool reflect = strcmp(mode, "reflect") == 0, edge = strcmp(mode, "replicate") == 0;
  for (int d = 0; input && d < input->rank; d++) {
    const number start = number_max(im, number_sub(im, zero, before[d]), zero),
                 crop = number_max(im, number_sub(im, zero, after[d]), zero);
    input = emit_slice(im, input, d, start, number_sub(im, input->dims[d], crop));
    before[d] = number_max(im, before[d], zero);
    after[d] = number_max(im, after[d], zero);
    if (!input || edge || number_is(input->dims[d], 0) ||
        (pad_fits(input->dims[d], before[d], reflect) &&
         pad_fits(input->dims[d], after[d], reflect)))
      continue;
    input = pad_by_index(im, input, d, before[d], after[d], reflect);
    before[d] = after[d] = zero;
  }
  return emit_pad(im, input, before, after, mode, 0);
}

/* Returns the element that pads: an attribute up to version 10, else input 2; 0 if it is absent. */
static value *pad_element(node *node, const value *tensor) {
  value *element = node->version >= 11 ? node_input(node, 2) : NULL;
  const double attribute = node->version < 11 ? node_float(node, "value", 0) : 0;
  if (!element || value_count(element) == 0)
    return value_of_float(node->im, tensor->type, attribute);
  if (element->type != tensor->type)
    import_invalid(node->im, "constant_value has another dtype than the input");
  return element;
}

void onnx_pad(node *node) {
  static const char *const names[] = {"constant", "reflect", "edge", "wrap"};
  static const char *const modes[] = {"constant", "reflect", "replicate", "circular"};
  value *x = node_required(node, 0);
  number before[CLAVE_MAX_RANK], after[CLAVE_MAX_RANK];
  const int mode = node_choice(node, "mode", names, node->version >= 19 ? 4 : 3);
  if (!x || !pad_sides(node, x, before, after)) return;
  if (mode != 0) (void)node_has(node, "value");
  value *element = mode == 0 ? pad_element(node, x) : NULL;
  node_set(node, 0,
           mode == 0 ? emit_pad_element(node->im, x, before, after, element)
                     : pad_with_own(node->im, x, modes[mode], before, after));
}

/* Pads or crops both sides of an axis by half of the difference, towards zero at its start. */
void onnx_center_crop_pad(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0), *shape = node_required(node, 1);
  number sizes[CLAVE_MAX_RANK], before[CLAVE_MAX_RANK], after[CLAVE_MAX_RANK];
  int64_t axes[CLAVE_MAX_RANK];
  const int n = onnx_sizes(node, shape, "shape", sizes);
  int n_axes = node_ints(node, "axes", axes, CLAVE_MAX_RANK);
  if (!x || n < 0) return;
  for (int d = 0; n_axes < 0 && d < n; d++) axes[d] = d;
  if (n != (n_axes < 0 ? x->rank : n_axes)) {
    import_invalid(im, "%d sizes for %d axes", n, n_axes < 0 ? x->rank : n_axes);
    return;
  }
  for (int d = 0; d < x->rank; d++) before[d] = after[d] = number_int(0);
  for (int i = 0; i < n; i++) {
    const int d = emit_axis(im, axes[i], x->rank);
    const number more = number_sub(im, sizes[i], x->dims[d]);
    before[d] = number_trunc_div(im, more, number_int(2));
    after[d] = number_sub(im, more, before[d]);
  }
  node_set(node, 0, emit_pad(im, x, before, after, "constant", 0));
}
