/* The view that converters have of an operator: inputs and results in a layout, and parameters. */
#include <math.h>
#include <string.h>

#include "import/tflite/converters.h"

/* ---------------------------------------------------------------- layouts */

static bool is_image(int rank) { return rank == 4 || rank == 5; }

/* Sets the order of dimensions that moves channels. */
static void layout_order(int rank, layout to, int *order) {
  for (int d = 0; d < rank; d++) order[d] = d;
  for (int d = 1; d < rank; d++)
    order[d] = to == FIRST ? (d == 1 ? rank - 1 : d - 1) : (d == rank - 1 ? 1 : d + 1);
}

/* True if the order of elements is the same in both layouts of input. */
static bool layouts_agree(const value *input, layout from) {
  bool agree = true;
  const int channels = from == FIRST ? 1 : input->rank - 1;
  if (number_is(input->dims[channels], 1)) return true;
  for (int d = 1; d < input->rank; d++)
    agree = agree && (d == channels || number_is(input->dims[d], 1));
  return agree;
}

value *tflite_permuted(importer *im, value *input, const int *order) {
  int64_t dims[CLAVE_MAX_RANK], strides[CLAVE_MAX_RANK], index[CLAVE_MAX_RANK] = {0}, stride = 1;
  bool same = true;
  if (!input || !input->data || !import_ok(im)) return emit_permute(im, input, order);
  const int64_t n = value_count(input);
  const size_t size = clave_dtype_size(input->type);
  int64_t own[CLAVE_MAX_RANK];
  for (int d = input->rank - 1; d >= 0; d--) {
    own[d] = stride;
    stride *= input->dims[d].i;
  }
  for (int d = 0; d < input->rank; d++) {
    dims[d] = input->dims[order[d]].i;
    strides[d] = own[order[d]];
    same = same && order[d] == d;
  }
  if (same) return input;
  uint8_t *moved = import_alloc(im, (size_t)n + 1, size);
  for (int64_t i = 0, from = 0; moved && i < n; i++) {
    memcpy(moved + (size_t)i * size, (const char *)input->data + (size_t)from * size, size);
    for (int d = input->rank - 1; d >= 0; d--) {
      from += strides[d];
      if (++index[d] < dims[d]) break;
      from -= strides[d] * dims[d];
      index[d] = 0;
    }
  }
  const char *name = import_text(im, "%s#%u", input->name, im->n_names++);
  return moved ? value_constant(im, name, input->type, input->rank, dims, moved) : NULL;
}

static value *change_layout(importer *im, value *input, layout to) {
  int order[CLAVE_MAX_RANK];
  if (!input || !is_image(input->rank)) return input;
  layout_order(input->rank, to, order);
  if (!layouts_agree(input, to == FIRST ? LAST : FIRST)) return tflite_permuted(im, input, order);
  number dims[CLAVE_MAX_RANK];
  for (int d = 0; d < input->rank; d++) dims[d] = input->dims[order[d]];
  return emit_reshape(im, input, input->rank, dims);
}

value *tflite_in_layout(importer *im, operand *tensor, layout layout) {
  if (!tensor->values[layout] && import_ok(im))
    tensor->values[layout] =
        change_layout(im, tensor->values[layout == FIRST ? LAST : FIRST], layout);
  return tensor->values[layout];
}

/* Does the same for numbers that codes stand for. */
static value *real_in_layout(importer *im, operand *tensor, layout layout) {
  if (!tflite_is_quantized(tensor)) return tflite_in_layout(im, tensor, layout);
  if (!tensor->reals[layout] && import_ok(im)) {
    value *codes = tflite_in_layout(im, tensor, LAST);
    /* scales are along an axis of the stored layout */
    if (codes && codes->data)
      tensor->reals[layout] = layout == FIRST
                                  ? change_layout(im, tflite_dequantized(im, tensor, codes), FIRST)
                                  : tflite_dequantized(im, tensor, codes);
    else
      tensor->reals[layout] = tflite_dequantized(im, tensor, tflite_in_layout(im, tensor, layout));
  }
  return tensor->reals[layout];
}

int tflite_dim(const operation *op, int d) {
  if (op->layout == LAST || d == 0) return d;
  return d == op->rank - 1 ? 1 : d + 1;
}

int tflite_axis(operation *op, int64_t axis) {
  return tflite_dim(op, emit_axis(op->im, axis, op->rank));
}

value *tflite_to_last(operation *op, value *input) {
  return op->layout == FIRST ? change_layout(op->im, input, LAST) : input;
}

/* ---------------------------------------------------------------- inputs */

operand *tflite_operand(operation *op, int i) {
  const int64_t t = i < op->n_inputs ? flat_int_at(&op->inputs, (uint32_t)i) : -1;
  return t < 0 ? NULL : &op->graph->operands[t];
}

operand *tflite_result(operation *op, int i) {
  const int64_t t = i < op->n_outputs ? flat_int_at(&op->outputs, (uint32_t)i) : -1;
  return t < 0 ? NULL : &op->graph->operands[t];
}

int64_t tflite_custom_int(operation *op, int i) {
  int32_t out = 0;
  if (op->custom.count < 4 * (uint32_t)(i + 1))
    import_invalid(op->im, "options of %u bytes", op->custom.count);
  else
    memcpy(&out, flat_bytes(&op->custom) + 4 * (size_t)i, sizeof out);
  return out;
}

bool tflite_has_output(const operation *op, int i) { return i < op->n_outputs; }

static int operand_rank(const operand *tensor) {
  const value *known = tensor->values[LAST] ? tensor->values[LAST] : tensor->values[FIRST];
  return known ? known->rank : 0;
}

/* Returns an operand of a lower rank, to which leading dimensions are added. */
static value *widen(operation *op, operand *tensor) {
  number dims[CLAVE_MAX_RANK];
  value *narrow =
      op->as_codes ? tflite_in_layout(op->im, tensor, LAST) : real_in_layout(op->im, tensor, LAST);
  if (!narrow || narrow->rank == 0) return narrow;
  for (int d = 0; d < op->rank; d++) {
    const int own = d - (op->rank - narrow->rank);
    dims[d] = own < 0 ? number_int(1) : narrow->dims[own];
  }
  return change_layout(op->im, emit_reshape(op->im, narrow, op->rank, dims), FIRST);
}

value *tflite_input(operation *op, int i) {
  operand *x = tflite_operand(op, i);
  if (!x) return NULL;
  if (op->layout == FIRST && operand_rank(x) != op->rank) return widen(op, x);
  return op->as_codes ? tflite_in_layout(op->im, x, op->layout)
                      : real_in_layout(op->im, x, op->layout);
}

value *tflite_required(operation *op, int i) {
  value *x = tflite_input(op, i);
  if (!x && import_ok(op->im)) import_invalid(op->im, "input %d is missing", i);
  return x;
}

value *tflite_parameter(operation *op, int i) {
  operand *x = tflite_operand(op, i);
  value *out = x ? tflite_in_layout(op->im, x, LAST) : NULL;
  if (!out && import_ok(op->im)) import_invalid(op->im, "input %d is missing", i);
  return out;
}

/* ---------------------------------------------------------------- results */

static void set_value(operation *op, int i, value *out, layout layout) {
  operand *to = tflite_result(op, i);
  clave_dtype type;
  if (!out || !to) return;
  if (!tflite_dtype(to->type, &type))
    import_unsupported(op->im, "a result of dtype %s", tflite_dtype_name(to->type));
  if (tflite_is_quantized(to) && !op->as_codes) {
    out = emit_cast(op->im, out, CLAVE_F32);
    out = tflite_quantized(op, to, out);
  }
  if (!out) return;
  if (out->type != to->dtype && import_ok(op->im))
    import_unsupported(op->im, "a result of dtype %s", tflite_dtype_name(to->type));
  to->values[is_image(out->rank) ? layout : LAST] = out;
}

void tflite_set(operation *op, int i, value *out) { set_value(op, i, out, op->layout); }
void tflite_set_last(operation *op, int i, value *out) { set_value(op, i, out, LAST); }

/* Returns a limit of an activation, which is encoded if the input is. */
static value *activation_limit(operation *op, const value *input, double limit) {
  const operand *result = tflite_result(op, 0);
  if (!op->as_codes || !result || !tflite_is_quantized(result))
    return value_of_float(op->im, input->type, limit);
  const double code = round(limit / (double)result->scale) + result->zero;
  double low = 0, high = 0;
  (void)tflite_code_limits(input->type, &low, &high);
  return value_of_float(op->im, input->type, code < low ? low : code > high ? high : code);
}

value *tflite_activated(operation *op, value *input, int slot) {
  enum { NONE, RELU, RELU_N1_TO_1, RELU6 }; /* TFLite ignores the others in most ops */
  const int64_t activation = flat_int(&op->options, slot, 1, 0);
  if (!input || activation == NONE) return input;
  if (activation < NONE || activation > RELU6) {
    import_unsupported(op->im, "the fused activation %lld", (long long)activation);
    return NULL;
  }
  value *low = activation_limit(op, input, activation == RELU_N1_TO_1 ? -1 : 0);
  if (activation == RELU) return emit_binary(op->im, "maximum", input, low);
  value *high = activation_limit(op, input, activation == RELU6 ? 6 : 1);
  return emit_step(op->im, "clamp", (value *[]){input, low, high}, 3);
}

/* ---------------------------------------------------------------- parameters */

int tflite_sizes(operation *op, int i, const char *what, number *out) {
  value *x = tflite_parameter(op, i);
  const number *elements = value_elements(op->im, x, what);
  const int64_t n = elements ? value_count(x) : -1;
  if (n > CLAVE_MAX_RANK) {
    import_unsupported(op->im, "%s has %lld numbers (at most %d)", what, (long long)n,
                       CLAVE_MAX_RANK);
    return -1;
  }
  for (int64_t d = 0; d < n; d++) out[d] = elements[d];
  return (int)n;
}

int tflite_axes(operation *op, int i, int rank, int *out) {
  int64_t ints[CLAVE_MAX_RANK];
  int n = 0;
  bool seen[CLAVE_MAX_RANK] = {false};
  const int given =
      value_constant_ints(op->im, tflite_parameter(op, i), "axis", ints, CLAVE_MAX_RANK);
  for (int k = 0; k < given && import_ok(op->im); k++) {
    const int axis = emit_axis(op->im, ints[k], rank);
    if (!seen[axis]) out[n++] = axis;
    seen[axis] = true;
  }
  return n;
}
