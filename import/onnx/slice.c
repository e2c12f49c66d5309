/* Slice and Split. */
#include "import/emit_index.h"
#include "import/onnx/converters.h"

/* Returns an index from the start of an axis, within [lowest, size]. lowest: 0, or -1 for the end
 * of a step back. No arithmetic overflows, since open ends are the greatest integers. */
static number slice_index(importer *im, number index, number size, int64_t lowest) {
  const number zero = number_int(0), low = number_int(lowest);
  number out;
  if (number_is_same(index, size) || number_is(index, 0)) return index;
  if (index.no_sign) {
    out = number_min(im, index, size);
  } else {
    const number least = number_sub(im, low, size);
    const number within = number_max(im, number_min(im, index, size), least);
    const number negative = number_compute(im, NUMBER_LT, within, zero);
    out = number_where(im, negative, number_add(im, within, size), within);
  }
  out.no_sign = out.no_sign || lowest == 0;
  return out;
}

/* Replaces the greatest integers, which mean an open end for both directions, by that of a step
 * back. */
static number slice_open_end(importer *im, number end) {
  const number open = number_compute(im, NUMBER_GE, end, number_int(INT32_MAX));
  return number_where(im, open, number_int(-NUMBER_MAX_SIZE), end);
}

/* x[start:stop:step] for a negative step: the same of the reversed axis. An index i becomes
 * size - 1 - i. */
static value *slice_backwards(importer *im, value *input, int axis, number start, number stop,
                              int64_t step) {
  const number size = input->dims[axis], zero = number_int(0),
               last = number_sub(im, size, number_int(1));
  number ends[2] = {start, stop};
  for (int i = 0; i < 2; i++) {
    const number index = slice_index(im, i ? slice_open_end(im, ends[1]) : ends[0], size, -i);
    ends[i] = number_max(im, number_sub(im, last, index), zero);
  }
  return emit_slice_step(im, emit_flip(im, input, axis), axis, ends[0], ends[1], -step);
}

/* Slices by a step that is known only during the run: selects start, start + step, ... */
static value *slice_by_index(importer *im, value *input, int axis, number start, number stop,
                             number step) {
  const number size = input->dims[axis], zero = number_int(0),
               last = number_sub(im, size, number_int(1));
  const number back = number_compute(im, NUMBER_LT, step, zero);
  number ends[2] = {start, stop};
  for (int i = 0; i < 2; i++) {
    const number own = i ? slice_open_end(im, ends[1]) : ends[0];
    const number down = number_min(im, slice_index(im, own, size, -i), last);
    ends[i] = number_where(im, back, down, slice_index(im, ends[i], size, 0));
  }
  const number steps = number_floor_div(im, number_sub(im, ends[0], ends[1]), step);
  number count = number_max(im, number_sub(im, zero, steps), zero);
  count.no_sign = true;
  return emit_index_select(im, input, axis, emit_arange(im, CLAVE_I64, ends[0], step, count));
}

static value *slice_axis(importer *im, value *input, int axis, number start, number stop,
                         number step) {
  if (!input || !import_ok(im)) return NULL;
  if (step.id) return slice_by_index(im, input, axis, start, stop, step);
  if (step.i == 0) import_invalid(im, "a step of 0");
  if (step.i < 0) return slice_backwards(im, input, axis, start, stop, step.i);
  return emit_slice_step(im, input, axis, slice_index(im, start, input->dims[axis], 0),
                         slice_index(im, stop, input->dims[axis], 0), step.i);
}

/* Reads starts, ends, axes or steps from an attribute, or from input i. Returns their number; -1:
 * there are none. */
static int slice_numbers(node *node, const char *name, int i, number *out) {
  importer *im = node->im;
  int64_t ints[CLAVE_MAX_RANK];
  value *input = node->version >= 10 ? node_input(node, i) : NULL;
  int n = input ? onnx_sizes(node, input, name, out) : -1;
  if (node->version < 10 && i < 4) n = node_ints(node, name, ints, CLAVE_MAX_RANK);
  for (int k = 0; k < n; k++) {
    if (!input) out[k] = number_int(ints[k]);
    /* Greater ones have the same effect; arithmetic with them would overflow. */
    out[k] = number_min(im, out[k], number_int(NUMBER_MAX_SIZE));
    out[k] = number_max(im, out[k], number_int(-NUMBER_MAX_SIZE));
  }
  return n;
}

void onnx_slice(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0);
  number starts[CLAVE_MAX_RANK], ends[CLAVE_MAX_RANK], steps[CLAVE_MAX_RANK], axes[CLAVE_MAX_RANK];
  if (!x) return;
  const int n = slice_numbers(node, "starts", 1, starts);
  const int n_ends = slice_numbers(node, "ends", 2, ends);
  int n_axes = slice_numbers(node, "axes", 3, axes),
      n_steps = slice_numbers(node, "steps", 4, steps);
  if (!import_ok(im)) return;
  for (int i = 0; n_axes < 0 && i < n; i++) axes[i] = number_int(i);
  for (int i = 0; n_steps < 0 && i < n; i++) steps[i] = number_int(1);
  if (n < 0 || n_ends != n || (n_axes >= 0 && n_axes != n) || (n_steps >= 0 && n_steps != n)) {
    import_invalid(im, "starts, ends, axes and steps have different lengths, or are missing");
    return;
  }
  if (!onnx_resolve_axes(node, x->rank, axes, n)) return;
  for (int d = 0; d < x->rank && import_ok(im); d++) {
    const number start = emit_number_at(im, axes, starts, n, d, number_int(0)),
                 end = emit_number_at(im, axes, ends, n, d, x->dims[d]),
                 step = emit_number_at(im, axes, steps, n, d, number_int(1));
    value *part = slice_axis(im, x, d, start, end, step);
    if (!part) return;
    x = part;
  }
  node_set(node, 0, x);
}

/* ---------------------------------------------------------------- Split */

enum { MAX_PARTS = 1024 };

/* Sets the sizes of equal parts, of which the last may be smaller. */
static void equal_parts(node *node, number size, int n, number *parts) {
  importer *im = node->im;
  const number part = number_ceil_div(im, size, n);
  number left = size;
  for (int i = 0; i < n; i++) {
    parts[i] = i + 1 < n ? number_min(im, part, left) : left;
    parts[i].no_sign = true;
    left = number_sub(im, left, parts[i]);
    left.no_sign = true;
  }
}

/* Sets the sizes of the parts: from the attribute, the input, or equal ones. */
static void split_parts(node *node, number size, number *parts) {
  int64_t ints[MAX_PARTS];
  const int n = node->n_outputs;
  value *input = node->version >= 13 ? node_input(node, 1) : NULL;
  const int64_t wanted = node->version >= 18 ? node_int(node, "num_outputs", n) : n;
  const int given = node->version < 13 ? node_ints(node, "split", ints, MAX_PARTS) : -1;
  const number *elements = input ? value_elements(node->im, input, "split") : NULL;
  if (!import_ok(node->im)) return;
  if (wanted != n || (given >= 0 && given != n) || (elements && value_count(input) != n)) {
    import_invalid(node->im, "the node has %d results, and sizes for another number", n);
    return;
  }
  if (given < 0 && !elements) equal_parts(node, size, n, parts);
  for (int i = 0; i < n && (given >= 0 || elements); i++)
    parts[i] = elements ? elements[i] : number_int(ints[i]);
}

void onnx_split(node *node) {
  value *x = node_required(node, 0);
  number parts[MAX_PARTS], at = number_int(0);
  if (!x) return;
  const int axis = emit_axis(node->im, node_int(node, "axis", 0), x->rank);
  if (node->n_outputs > MAX_PARTS) {
    import_unsupported(node->im, "%d results", node->n_outputs);
    return;
  }
  split_parts(node, x->dims[axis], parts);
  for (int i = 0; i < node->n_outputs && import_ok(node->im); i++) {
    const number end = number_add(node->im, at, parts[i]);
    value *part = emit_slice(node->im, x, axis, at, end);
    if (part && part != x) part->dims[axis] = part->dims[axis].id ? part->dims[axis] : parts[i];
    node_set(node, i, part);
    at = end;
  }
  emit_check(node->im, NUMBER_EQ, at, x->dims[axis], "the parts are not all elements of the axis");
}
