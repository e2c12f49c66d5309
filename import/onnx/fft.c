/* DFT, STFT and MelWeightMatrix. */
#include <math.h>

#include "base/dtype.h"
#include "import/onnx/converters.h"

/* A transform along an axis. kind: as of the Fft op */
typedef struct transform {
  const char *kind;
  int axis;
  bool inverse;
  number out; /* the size of the result along the axis */
} transform;

/* Casts 16-bit floats to F32, in which transforms are computed. */
static value *fft_wide(node *node, value *input) {
  if (!input) return NULL;
  if (!dtype_is_float((dtype)input->type))
    import_unsupported(node->im, "dtype %s", clave_dtype_name(input->type));
  if (input->rank > 0 && input->dims[input->rank - 1].id)
    import_unsupported(node->im, "the last dimension, 1 or 2, is open");
  return input->type == CLAVE_F64 ? input : emit_cast(node->im, input, CLAVE_F32);
}

static value *emit_transform(importer *im, value *input, const transform *transform) {
  number dims[CLAVE_MAX_RANK + 1];
  if (!emit_prepare(im, input)) return NULL;
  const bool from_real = transform->kind[0] == 'f', to_real = transform->kind[0] == 't';
  int rank = input->rank - to_real;
  for (int d = 0; d < rank; d++) dims[d] = d == transform->axis ? transform->out : input->dims[d];
  if (from_real) dims[rank++] = number_int(2);
  value *out = emit_begin(im, "Fft", input->type, rank, dims);
  if (!out) return NULL;
  emit_set_tensor(im, "x", input);
  clave_builder_set_int(im->builder, "axis", transform->axis);
  clave_builder_set_text(im->builder, "kind", transform->kind);
  clave_builder_set_bool(im->builder, "inverse", transform->inverse);
  clave_builder_set_text(im->builder, "norm", transform->inverse ? "size" : "none");
  return out;
}

/* Crops input along an axis, or pads it with zeros at the end. */
static value *fitted(importer *im, value *input, int axis, number size) {
  number before[CLAVE_MAX_RANK], after[CLAVE_MAX_RANK];
  for (int d = 0; d < input->rank; d++) before[d] = after[d] = number_int(0);
  if (number_is_same(input->dims[axis], size)) return input;
  after[axis] = number_sub(im, size, input->dims[axis]);
  value *out = emit_pad(im, input, before, after, "constant", 0);
  if (out && out != input) out->dims[axis] = out->dims[axis].id ? out->dims[axis] : size;
  return out;
}

/* n / 2 + 1 */
static number half_size(importer *im, number n) {
  number half = number_add(im, number_floor_div(im, n, number_int(2)), number_int(1));
  half.no_sign = true;
  return half;
}

/* Transforms input, (..., 1) if real or (..., 2), of n points along an axis. onesided: only the
 * first half of the result, or of the argument of an inverse transform to real numbers. */
static value *transformed(importer *im, value *input, int axis, number n, bool inverse,
                          bool onesided) {
  const bool is_real = number_is(input->dims[input->rank - 1], 1);
  const number half = half_size(im, n);
  if (inverse && onesided) {
    if (is_real) import_unsupported(im, "a real argument of an inverse transform that is onesided");
    const transform to_real = {"to_real", axis, true, n};
    value *out = emit_transform(im, fitted(im, input, axis, half), &to_real);
    return out ? emit_unsqueeze(im, out, out->rank) : NULL;
  }
  input = fitted(im, input, axis, n);
  if (is_real) {
    const transform from_real = {"from_real", axis, inverse, onesided ? half : n};
    return input ? emit_transform(im, emit_squeeze(im, input, input->rank - 1), &from_real) : NULL;
  }
  const transform complex = {"complex", axis, inverse, n};
  value *out = emit_transform(im, input, &complex);
  return onesided ? emit_slice(im, out, axis, number_int(0), half) : out;
}

static bool is_signal(node *node, const value *input) {
  if (!input || !import_ok(node->im)) return false;
  if (input->rank < 2 ||
      !(number_is(input->dims[input->rank - 1], 1) || number_is(input->dims[input->rank - 1], 2)))
    import_invalid(node->im, "the input is neither real nor complex: its last size is not 1 or 2");
  return import_ok(node->im);
}

void onnx_dft(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0), *length = node_input(node, 1), *wide = fft_wide(node, x);
  value *axis_input = node->version >= 20 ? node_input(node, 2) : NULL;
  const bool inverse = node_int(node, "inverse", 0), onesided = node_int(node, "onesided", 0);
  int64_t axis = node->version >= 20 ? -2 : node_int(node, "axis", 1);
  if (axis_input) value_constant_ints(im, axis_input, "axis", &axis, 1);
  if (!is_signal(node, wide)) return;
  const int at = emit_axis(im, axis, x->rank);
  if (at == x->rank - 1)
    import_invalid(im, "axis %lld is that of complex numbers", (long long)axis);
  if (!import_ok(im)) return;
  number n = x->dims[at];
  if (inverse && onesided) n = number_mul(im, number_sub(im, n, number_int(1)), number_int(2));
  if (length) n = value_scalar(im, length, "dft_length");
  n.no_sign = true;
  node_set(node, 0, emit_cast(im, transformed(im, wide, at, n, inverse, onesided), x->type));
}

/* ---------------------------------------------------------------- STFT */

/* Frames of `length` elements along axis 1, one every `step`: (N, frames, length, 1 or 2) */
static value *framed(importer *im, value *input, number length, number step) {
  static const int order[4] = {0, 1, 3, 2};
  const number rest = number_sub(im, input->dims[1], length), one = number_int(1);
  number dims[4] = {input->dims[0], number_add(im, number_floor_div(im, rest, step), one),
                    input->dims[2], length};
  dims[1].no_sign = true;
  if (!emit_prepare(im, input)) return NULL;
  value *out = emit_begin(im, "Unfold", input->type, 4, dims);
  if (!out) return NULL;
  emit_set_tensor(im, "x", input);
  clave_builder_set_int(im->builder, "axis", 1);
  emit_set_number(im, "size", length);
  emit_set_number(im, "step", step);
  return emit_permute(im, out, order);
}

void onnx_stft(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0), *window = node_input(node, 2), *length = node_input(node, 3);
  value *wide = fft_wide(node, x);
  const bool onesided = node_int(node, "onesided", 1);
  if (!is_signal(node, wide)) return;
  if (x->rank != 3) import_unsupported(im, "a signal of rank %d", x->rank);
  if (window && window->rank != 1) import_invalid(im, "the window has rank %d", window->rank);
  if (!window && !length) import_invalid(im, "window and frame_length are missing");
  number step = value_scalar(im, node_required(node, 1), "frame_step");
  number size = length ? value_scalar(im, length, "frame_length") : number_int(0);
  if (!import_ok(im)) return;
  if (window && length)
    number_check(im, NUMBER_EQ, size, window->dims[0], "frame_length is not the window's size");
  if (window) size = window->dims[0];
  if (!step.id && step.i < 1) import_invalid(im, "frame_step is %lld", (long long)step.i);
  size.no_sign = true;
  value *frames = framed(im, wide, size, step);
  if (window && frames)
    frames =
        emit_binary(im, "mul", frames, emit_unsqueeze(im, emit_cast(im, window, wide->type), 1));
  if (!frames) return;
  node_set(node, 0, emit_cast(im, transformed(im, frames, 2, size, false, onesided), x->type));
}

/* ---------------------------------------------------------------- MelWeightMatrix */

/* Fills column i of the matrix (rows, columns) with a triangle from `low` over `center` to `high`.
 */
static void fill_triangle(float *matrix, int64_t rows, int64_t columns, int64_t i,
                          const int64_t *points) {
  const int64_t low = points[i], center = points[i + 1], high = points[i + 2];
  for (int64_t j = low; j <= center && j < rows; j++)
    matrix[j * columns + i] = center == low ? 1 : (float)(j - low) / (float)(center - low);
  for (int64_t j = center; j < high && j < rows; j++)
    matrix[j * columns + i] = (float)(high - j) / (float)(high - center);
}

static double mel_of(double hertz) { return 2595 * log10(1 + hertz / 700); }

void onnx_mel_weight_matrix(node *node) {
  static const char *const names[] = {"num_mel_bins", "dft_length", "sample_rate",
                                      "lower_edge_hertz", "upper_edge_hertz"};
  importer *im = node->im;
  double inputs[5] = {0};
  const clave_dtype type = node_dtype(node, (int32_t)node_int(node, "output_datatype", 1));
  for (int i = 0; i < 5; i++)
    if (node_required(node, i))
      value_constant_floats(im, node_input(node, i), names[i], &inputs[i], 1);
  for (int i = 0; i < 5 && import_ok(im); i++)
    if (!(inputs[i] >= 0 && inputs[i] < 1e9))
      import_unsupported(im, "%s is %g", names[i], inputs[i]);
  if (!import_ok(im)) return;
  const int64_t columns = (int64_t)inputs[0], rows = (int64_t)inputs[1] / 2 + 1,
                dims[2] = {rows, columns};
  if (columns < 1 || rows < 1 || columns > 1 << 12 || rows > 1 << 14 || inputs[2] < 1 ||
      inputs[4] < inputs[3]) {
    import_unsupported(im, "such bins and edges");
    return;
  }
  float *matrix = import_alloc(im, (size_t)(rows * columns), sizeof *matrix);
  int64_t *points = import_alloc(im, (size_t)columns + 2, sizeof *points);
  if (!matrix || !points) return;
  const double low = mel_of(inputs[3]), step = (mel_of(inputs[4]) - low) / (double)(columns + 2);
  for (int64_t i = 0; i < columns + 2; i++) {
    const double hertz = 700 * (pow(10, (low + step * (double)i) / 2595) - 1);
    points[i] = number_truncated(floor((inputs[1] + 1) * hertz / inputs[2]));
  }
  for (int64_t i = 0; i < columns; i++) fill_triangle(matrix, rows, columns, i, points);
  node_set(node, 0, emit_cast(im, value_constant(im, "", CLAVE_F32, 2, dims, matrix), type));
}
