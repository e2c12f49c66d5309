/* Resize and Upsample. An axis is resized by gathers of its elements and, in blending modes, a sum
 * of them by weights; both are computed from positions in F32, as steps, or at import for small
 * sizes. clave's own Upsample is used where its positions are the same. */
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/resample.h"
#include "import/onnx/converters.h"

typedef enum resize_mode { RESIZE_NEAREST, RESIZE_LINEAR, RESIZE_CUBIC } resize_mode;
typedef enum resize_positions {
  HALF_PIXEL,
  HALF_PIXEL_SYMMETRIC,
  PYTORCH_HALF_PIXEL,
  ALIGN_CORNERS,
  ASYMMETRIC,
  CROP_AND_RESIZE,
  HALF_PIXEL_FOR_NEAREST
} resize_positions;
typedef enum resize_rounding {
  PREFER_FLOOR,
  PREFER_CEIL,
  ROUND_DOWN,
  ROUND_UP,
  ROUND_SIMPLE /* before opset 11: up if the axis shrinks, else down */
} resize_rounding;

typedef struct resize {
  resize_mode mode;
  resize_positions positions;
  resize_rounding rounding;
  bool antialias, exclude_outside;
  double cubic, extrapolation;
  bool has_scales;
  number sizes[CLAVE_MAX_RANK], scales[CLAVE_MAX_RANK]; /* by axis of x */
  number start[CLAVE_MAX_RANK], end[CLAVE_MAX_RANK];    /* ends of the region of interest */
  bool resized[CLAVE_MAX_RANK];
} resize;

/* ---------------------------------------------------------------- sizes */

/* Rounds a float to the precision of F32, for numbers in whose range that is a rounding of 53 bits
 * to 24. */
static number rounded_to_f32(importer *im, number a) {
  if (!a.id) return number_float((double)(float)a.f);
  const number wide = number_mul(im, a, number_float(536870913.0));
  return number_sub(im, wide, number_sub(im, wide, a));
}

/* floor(size * scale), whose product is rounded to F32 */
static number scaled_size(importer *im, number size, number scale) {
  number out;
  if (!scale.id && scale.f == floor(scale.f) && scale.f < 1e6) {
    out = number_mul(im, size, number_int(number_truncated(scale.f)));
  } else if (!scale.id && scale.f > 1e-6 && 1 / scale.f == floor(1 / scale.f)) {
    out = number_floor_div(im, size, number_int(number_truncated(1 / scale.f)));
  } else {
    const number product = number_mul(im, number_to_float(im, size), scale);
    out = number_to_int(im, number_compute(im, NUMBER_FLOOR, rounded_to_f32(im, product), product));
  }
  out.no_sign = true;
  return out;
}

/* Reads the scales of the axes. */
static void read_scales(node *node, const value *tensor, value *input, const int *axes, int n,
                        resize *out) {
  (void)node_text(node, "keep_aspect_ratio_policy", ""); /* only for sizes */
  importer *im = node->im;
  const number *scales = value_elements(im, input, "scales");
  if (!scales) return;
  if (value_count(input) != n) import_invalid(im, "scales: expected %d numbers", n);
  out->has_scales = true;
  for (int i = 0; i < n && import_ok(im); i++) {
    const int d = axes[i];
    out->scales[d] = scales[i];
    if (!scales[i].id && !(scales[i].f > 1e-9 && scales[i].f < 1e9))
      import_invalid(im, "a scale is %g", scales[i].f);
    out->sizes[d] = scaled_size(im, tensor->dims[d], scales[i]);
    out->resized[d] = scales[i].id || scales[i].f != 1;
  }
}

/* Replaces sizes of the axes so that all axes have one scale, the smallest or the largest. */
static void keep_aspect(node *node, const value *input, bool larger, const int *axes, int n,
                        resize *out) {
  float scale = 0;
  for (int i = 0; i < n; i++) {
    const number in = input->dims[axes[i]], size = out->sizes[axes[i]];
    if (in.id || size.id || in.i == 0) {
      import_unsupported(node->im, "keep_aspect_ratio_policy with open or empty sizes");
      return;
    }
    const float own = (float)size.i / (float)in.i;
    if (i == 0 || (larger ? own > scale : own < scale)) scale = own;
  }
  for (int i = 0; i < n; i++) {
    const int64_t in = input->dims[axes[i]].i;
    out->sizes[axes[i]] = number_int(number_truncated((double)roundf(scale * (float)in)));
    out->scales[axes[i]] = number_float((double)scale);
    out->resized[axes[i]] = true;
  }
  out->has_scales = true;
}

static void read_sizes(node *node, const value *tensor, value *input, const int *axes, int n,
                       resize *out) {
  static const char *const policies[] = {"stretch", "not_larger", "not_smaller"};
  number sizes[CLAVE_MAX_RANK];
  if (onnx_sizes(node, input, "sizes", sizes) != n)
    import_invalid(node->im, "sizes: expected %d numbers", n);
  for (int i = 0; i < n && import_ok(node->im); i++) {
    out->sizes[axes[i]] = sizes[i];
    out->sizes[axes[i]].no_sign = true;
    out->resized[axes[i]] = !number_is_same(sizes[i], tensor->dims[axes[i]]);
  }
  const int policy =
      node->version >= 18 ? node_choice(node, "keep_aspect_ratio_policy", policies, 3) : 0;
  if (policy && import_ok(node->im)) keep_aspect(node, tensor, policy == 2, axes, n, out);
}

/* Reads the region of interest: the starts of the axes, then the ends. */
static void resize_read_region(node *node, value *input, const int *axes, int n, resize *out) {
  if (!input) import_invalid(node->im, "roi is missing");
  const number *region = value_elements(node->im, input, "roi");
  if (region && value_count(input) != 2 * n)
    import_invalid(node->im, "roi: expected %d numbers", 2 * n);
  for (int i = 0; i < n && import_ok(node->im); i++) {
    out->start[axes[i]] = region[i];
    out->end[axes[i]] = region[n + i];
    out->resized[axes[i]] = true;
  }
}

/* ---------------------------------------------------------------- attributes */

static const char *const resize_modes[] = {"nearest", "linear", "cubic"};

static void read_attributes(node *node, resize *out) {
  static const char *const positions[] = {
      "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",  "align_corners",
      "asymmetric", "tf_crop_and_resize",   "tf_half_pixel_for_nn"};
  static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                          "ceil"};
  out->mode = (resize_mode)node_choice(node, "mode", resize_modes, 3);
  out->positions =
      (resize_positions)node_choice(node, "coordinate_transformation_mode", positions, 7);
  out->rounding = (resize_rounding)node_choice(node, "nearest_mode", roundings, 4);
  out->cubic = node_float(node, "cubic_coeff_a", -0.75);
  out->exclude_outside = node_int(node, "exclude_outside", 0) && out->mode == RESIZE_CUBIC;
  out->extrapolation = node_float(node, "extrapolation_value", 0);
  if (node->version < 18) return;
  out->antialias = node_int(node, "antialias", 0) && out->mode != RESIZE_NEAREST;
  if (out->antialias) out->exclude_outside = node_int(node, "exclude_outside", 0);
}

static bool is_given(const value *input) { return input && !number_is(input->dims[0], 0); }

/* Runtimes disagree on positions that depend on the size of the result if the scaled size is not
 * whole: some use it before it is rounded. */
static void check_whole(importer *im, const value *input, const resize *resize) {
  for (int d = 0; d < input->rank && resize->has_scales && import_ok(im); d++) {
    const number size = input->dims[d], scale = resize->scales[d];
    const float scaled = size.id ? (float)scale.f : (float)scale.f * (float)size.i;
    if (resize->resized[d] && (scale.id || scaled != floorf(scaled)))
      import_unsupported(
          im, "align_corners or tf_crop_and_resize with a scaled size that is not whole");
  }
}

/* Reads a Resize from opset 11 on. */
static void read_resize(node *node, const value *input, resize *out) {
  int64_t list[CLAVE_MAX_RANK];
  int axes[CLAVE_MAX_RANK],
      n = node->version >= 18 ? node_ints(node, "axes", list, CLAVE_MAX_RANK) : -1;
  value *scales = node_input(node, 2), *sizes = node_input(node, 3);
  for (int i = 0; i < (n < 0 ? input->rank : n); i++)
    axes[i] = n < 0 ? i : emit_axis(node->im, list[i], input->rank);
  if (n < 0) n = input->rank;
  if ((scales && scales->rank != 1) || (sizes && sizes->rank != 1))
    import_invalid(node->im, "scales or sizes have not one dimension");
  if (!import_ok(node->im)) return;
  if (is_given(sizes))
    read_sizes(node, input, sizes, axes, n, out);
  else if (is_given(scales))
    read_scales(node, input, scales, axes, n, out);
  else
    import_invalid(node->im, "scales and sizes are missing");
  if (out->positions == CROP_AND_RESIZE || out->positions == ALIGN_CORNERS)
    check_whole(node->im, input, out);
  if (out->positions == CROP_AND_RESIZE)
    resize_read_region(node, node_input(node, 1), axes, n, out);
}

/* Reads a Resize of opset 10 or an Upsample. */
static void read_upsample(node *node, const value *input, resize *out) {
  double list[CLAVE_MAX_RANK];
  int axes[CLAVE_MAX_RANK];
  out->positions = ASYMMETRIC;
  out->rounding = strcmp(node->kind, "resize") == 0 ? ROUND_SIMPLE : ROUND_DOWN;
  out->mode = (resize_mode)node_choice(node, "mode", resize_modes, 2);
  for (int d = 0; d < input->rank; d++) axes[d] = d;
  value *scales = NULL;
  if (node->version < 9) {
    const int n = node_floats(node, "scales", list, CLAVE_MAX_RANK);
    number elements[CLAVE_MAX_RANK];
    for (int i = 0; i < n; i++) elements[i] = number_float(list[i]);
    const int64_t count = n < 0 ? 0 : n;
    scales = value_numbers(node->im, CLAVE_F32, 1, &count, elements);
  } else {
    scales = node_required(node, 1);
  }
  if (scales) read_scales(node, input, scales, axes, input->rank, out);
}

/* ---------------------------------------------------------------- positions */

static value *f32_step(importer *im, const char *kind, value *input, number b) {
  return emit_binary(im, kind, input, value_of_number(im, CLAVE_F32, number_to_float(im, b)));
}
static value *f32_add(importer *im, value *input, double b) {
  return emit_binary_float(im, "add", input, b);
}

/* The scale of an axis, in F32 */
static number resize_scale_of(importer *im, const resize *resize, int d, number size) {
  if (resize->has_scales) return resize->scales[d];
  return number_compute(im, NUMBER_TRUE_DIV, number_to_float(im, resize->sizes[d]),
                        number_to_float(im, size));
}

/* Positions in the region of interest: from start * (size - 1) to end * (size - 1), or the middle
 * if there is only one. */
static value *cropped(importer *im, const resize *resize, int d, value *ordinal, number last) {
  const number start = resize->start[d], one = number_int(1),
               intervals = number_sub(im, resize->sizes[d], one),
               extent = number_to_float(im, last), length = number_sub(im, resize->end[d], start),
               single = number_sub(im, one, number_min(im, intervals, one));
  value *at = f32_step(im, "mul", f32_step(im, "mul", ordinal, length), last);
  at = f32_step(im, "div", at, number_max(im, intervals, one));
  at = emit_binary(im, "add", value_of_number(im, CLAVE_F32, number_mul(im, start, extent)), at);
  const number half = number_mul(im, number_float(0.5), number_mul(im, length, extent));
  return f32_step(im, "add", at, number_mul(im, number_to_float(im, single), half));
}

/* Returns the offset by which the centers of both images coincide, rounded to F32 in each step. */
static value *symmetric_offset(importer *im, number scale, number size, number out) {
  value *length = f32_step(im, "mul", value_of_number(im, CLAVE_F32, scale), size);
  value *whole = value_of_number(im, CLAVE_F32, number_to_float(im, out));
  value *rest = f32_add(im, emit_unary(im, "neg", emit_binary(im, "div", whole, length)), 1);
  const number center = number_mul(im, number_to_float(im, size), number_float(0.5));
  return f32_step(im, "mul", rest, center);
}

/* Returns the positions (out), F32, in axis d of x that each element of the result reads. */
static value *positions_of(importer *im, const resize *resize, int d, number size) {
  const number out = resize->sizes[d], one = number_int(1),
               scale = resize_scale_of(im, resize, d, size), last = number_sub(im, size, one);
  value *i = emit_cast(im, emit_arange(im, CLAVE_I64, number_int(0), one, out), CLAVE_F32);
  if (resize->positions == CROP_AND_RESIZE) return cropped(im, resize, d, i, last);
  if (resize->positions == ASYMMETRIC) return f32_step(im, "div", i, scale);
  if (resize->positions == ALIGN_CORNERS)
    return f32_step(im, "div", f32_step(im, "mul", i, last),
                    number_max(im, number_sub(im, out, one), one));
  value *at = f32_step(im, "div", f32_add(im, i, 0.5), scale);
  if (resize->positions == HALF_PIXEL_FOR_NEAREST) return at;
  if (resize->positions == HALF_PIXEL_SYMMETRIC)
    at = emit_binary(im, "add", symmetric_offset(im, scale, size, out), at);
  at = f32_add(im, at, -0.5);
  if (resize->positions == PYTORCH_HALF_PIXEL && !(out.id == 0 && out.i > 1))
    return f32_step(im, "mul", at, number_min(im, number_sub(im, out, one), one));
  return at;
}

/* ---------------------------------------------------------------- nearest */

/* Limits integral positions to the axis and makes them I64 indices. */
static value *clamped_index(importer *im, value *at, number last) {
  at = emit_binary_float(im, "maximum", at, 0);
  return emit_cast(im, f32_step(im, "minimum", at, last), CLAVE_I64);
}

/* floor(at), plus 1 if the rest is at least, or more than, a half */
static value *rounded(importer *im, value *at, bool prefer_ceil) {
  value *low = emit_unary(im, "floor", at), *half = value_of_float(im, CLAVE_F32, 0.5);
  value *above = emit_binary(im, prefer_ceil ? "ge" : "gt", emit_binary(im, "sub", at, low), half);
  return emit_binary(im, "add", low, emit_cast(im, above, CLAVE_F32));
}

static value *nearest_of(importer *im, const resize *resize, int d, value *at) {
  const number scale = resize->scales[d];
  switch (resize->rounding) {
    case PREFER_FLOOR:
    case PREFER_CEIL:
      return rounded(im, at, resize->rounding == PREFER_CEIL);
    case ROUND_SIMPLE:
      if (scale.id) import_unsupported(im, "nearest with a scale that is not constant");
      return emit_unary(im, scale.f < 1 ? "ceil" : "floor", at);
    case ROUND_UP:
      return emit_unary(im, "ceil", at);
    default:
      return emit_unary(im, "floor", at);
  }
}

/* ---------------------------------------------------------------- blends */

/* Shapes (out) so that it is broadcast along axis d of a tensor of this rank. */
static value *along(importer *im, value *input, int d, int rank) {
  number dims[CLAVE_MAX_RANK];
  if (!input) return NULL;
  for (int k = d; k < rank; k++) dims[k - d] = k == d ? input->dims[0] : number_int(1);
  return emit_reshape(im, input, rank - d, dims);
}

/* ((f3 * input + f2) * input + f1) * input + f0, with the factors f */
static value *polynomial(importer *im, value *input, const double *factors) {
  value *out = emit_binary_float(im, "mul", input, factors[3]);
  for (int k = 2; k >= 0; k--) {
    out = emit_binary_float(im, "add", out, factors[k]);
    if (k) out = emit_binary(im, "mul", out, input);
  }
  return out;
}

/* The weights of the elements at -1, 0, 1 and 2 from the one before position, at this distance. */
static void resize_cubic_weights(importer *im, double a, value *distance, value **weights) {
  const double factors[4][4] = {
      {0, a, -2 * a, a}, {1, 0, -(a + 3), a + 2}, {0, -a, 2 * a + 3, -(a + 2)}, {0, 0, a, -a}};
  for (int k = 0; k < 4; k++) weights[k] = polynomial(im, distance, factors[k]);
}

/* Sets weights of elements outside of the axis to 0 and divides by the sum of the others. */
static void exclude_outside(importer *im, value *const *at, number last, int n, value **weights) {
  value *sum = NULL;
  for (int k = 0; k < n; k++) {
    value *low = emit_binary(im, "ge", at[k], value_of_float(im, CLAVE_F32, 0));
    value *inside = emit_binary(im, "logical_and", low, f32_step(im, "le", at[k], last));
    weights[k] = emit_binary(im, "mul", weights[k], emit_cast(im, inside, CLAVE_F32));
    sum = k ? emit_binary(im, "add", sum, weights[k]) : weights[k];
  }
  for (int k = 0; k < n; k++) weights[k] = emit_binary(im, "div", weights[k], sum);
}

/* Returns the sum of the elements at `at` (n lists of positions) by their weights. */
static value *blended(importer *im, value *input, int d, value *const *at, value *const *weights,
                      int n, number last) {
  value *sum = NULL;
  for (int k = 0; k < n && import_ok(im); k++) {
    value *part = emit_index_select(im, input, d, clamped_index(im, at[k], last));
    part = emit_binary(im, "mul", part,
                       along(im, emit_cast(im, weights[k], input->type), d, input->rank));
    sum = k ? emit_binary(im, "add", sum, part) : part;
  }
  return sum;
}

/* Resizes axis d. at: positions, in nearest mode of the elements themselves */
static value *resize_rows(importer *im, const resize *resize, value *input, int d, value *at,
                          number last) {
  value *taps[4], *weights[4];
  if (resize->mode == RESIZE_NEAREST)
    return emit_index_select(im, input, d, clamped_index(im, at, last));
  if (resize->mode == RESIZE_LINEAR)
    at = f32_step(im, "minimum", emit_binary_float(im, "maximum", at, 0), last);
  value *low = emit_unary(im, "floor", at), *t = emit_binary(im, "sub", at, low);
  if (resize->mode == RESIZE_LINEAR) {
    taps[0] = low;
    taps[1] = f32_add(im, low, 1);
    weights[0] = f32_add(im, emit_unary(im, "neg", t), 1);
    weights[1] = t;
    return blended(im, input, d, taps, weights, 2, last);
  }
  resize_cubic_weights(im, resize->cubic, t, weights);
  for (int k = 0; k < 4; k++) taps[k] = f32_add(im, low, (double)(k - 1));
  if (resize->exclude_outside) exclude_outside(im, taps, last, 4, weights);
  return blended(im, input, d, taps, weights, 4, last);
}

/* Resizes axis d; the last one as rows of a matrix, which are gathered faster than elements. Pad
 * adds a row that is not read, so that the matrix is transposed once. */
static value *resize_axis(importer *im, const resize *resize, value *input, int d, value *at) {
  number dims[CLAVE_MAX_RANK];
  if (resize->mode == RESIZE_NEAREST) at = nearest_of(im, resize, d, at);
  if (!input || !at) return NULL;
  const number last = number_sub(im, input->dims[d], number_int(1)), zero = number_int(0),
               none[2] = {zero, zero}, more[2] = {number_int(1), zero};
  if (d == 0 || d != input->rank - 1) return resize_rows(im, resize, input, d, at, last);
  for (int k = 0; k < d; k++) dims[k] = input->dims[k];
  dims[d] = resize->sizes[d];
  input = emit_transpose(im, emit_flatten(im, input, d), 0, 1);
  if (resize->mode != RESIZE_NEAREST) input = emit_pad(im, input, none, more, "constant", 0);
  input = emit_transpose(im, resize_rows(im, resize, input, 0, at, last), 0, 1);
  return emit_reshape(im, input, d + 1, dims);
}

/* ---------------------------------------------------------------- antialiased */

static double resize_filter(const resize *resize, double x) {
  const double a = resize->cubic;
  x = fabs(x);
  if (resize->mode == RESIZE_LINEAR) return x < 1 ? 1 - x : 0;
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

enum { MAX_ALIASED = 1 << 26 }; /* weights of an axis that is resized with antialias */

/* Fills column i of the matrix (in, out) with the weights around a position. Weights of elements
 * outside count for the nearest end, or are left out. */
static void fill_weights(const resize *resize, double scale, double at, int64_t i, int64_t in,
                         int64_t out, float *matrix) {
  const double stretch = scale < 1 ? scale : 1,
               support = (resize->mode == RESIZE_LINEAR ? 1 : 2) / stretch;
  const int64_t first = number_truncated(floor(at - support + 1)),
                end = number_truncated(floor(at + support + 1));
  double total = 0;
  for (int64_t k = first; k < end; k++)
    if (!resize->exclude_outside || (k >= 0 && k < in))
      total += resize_filter(resize, ((double)k - at) * stretch);
  for (int64_t k = first; k < end && total != 0; k++) {
    const int64_t to = k < 0 ? 0 : k >= in ? in - 1 : k;
    if (resize->exclude_outside && to != k) continue;
    matrix[to * out + i] += (float)(resize_filter(resize, ((double)k - at) * stretch) / total);
  }
}

/* Multiplies axis d by a matrix of weights. */
static value *antialias_axis(importer *im, const resize *resize, value *input, int d, value *at) {
  const number size = input->dims[d], out = resize->sizes[d],
               scale = resize_scale_of(im, resize, d, size);
  const number *positions = at && value_is_constant(at) ? value_known(im, at) : NULL;
  if (size.id || !positions || size.i > MAX_ALIASED / (out.i + 1) || scale.id ||
      !(scale.f > 1e-6)) {
    import_unsupported(im, "antialias with sizes that are open or over %d", MAX_ELEMENTS);
    return NULL;
  }
  const int64_t dims[2] = {size.i, out.i};
  float *matrix = import_alloc(im, (size_t)(size.i * out.i) + 1, sizeof *matrix);
  if (!matrix) return NULL;
  for (int64_t i = 0; i < out.i; i++)
    fill_weights(resize, scale.f, positions[i].f, i, size.i, out.i, matrix);
  value *weights = emit_cast(im, value_constant(im, "", CLAVE_F32, 2, dims, matrix), input->type);
  value *product =
      emit_matmul(im, emit_transpose(im, input, d, input->rank - 1), weights, NULL, 1, 1);
  return emit_transpose(im, product, d, input->rank - 1);
}

/* ---------------------------------------------------------------- the Upsample op */

/* True if a scale is a power of two, by which a division is exact. */
static bool is_power_of_two(number scale) {
  int exponent;
  return !scale.id && scale.type == NUMBER_FLOAT && frexp(scale.f, &exponent) == 0.5;
}

/* True if Upsample reads the same elements along axis d, which are known: floor(i * in / out). */
static bool has_same_elements(importer *im, const resize *resize, const value *input, int d) {
  const number size = input->dims[d], out = resize->sizes[d],
               scale = resize_scale_of(im, resize, d, size);
  if (size.id || out.id || scale.id || out.i > MAX_ELEMENTS || input->type == CLAVE_F64 ||
      resize->positions == CROP_AND_RESIZE)
    return false;
  value *at = nearest_of(im, resize, d, positions_of(im, resize, d, size));
  at = clamped_index(im, at, number_int(size.i - 1));
  const number *known = at && value_is_constant(at) ? value_known(im, at) : NULL;
  const float step = resize->has_scales ? (float)(1 / scale.f) : (float)size.i / (float)out.i;
  for (int64_t i = 0; known && i < out.i; i++) {
    const int64_t own = number_truncated((double)floorf((float)i * step));
    if ((own < size.i - 1 ? own : size.i - 1) != known[i].i) return false;
  }
  return known != NULL;
}

/* True if Upsample in mode `nearest` reads the same elements along axis d. */
static bool nearest_fits(importer *im, const resize *resize, const value *input, int d) {
  const number scale = resize_scale_of(im, resize, d, input->dims[d]);
  const bool down =
      resize->rounding == ROUND_DOWN ||
      (resize->rounding == ROUND_SIMPLE && !resize->scales[d].id && resize->scales[d].f >= 1);
  const bool nearest = resize->rounding == PREFER_FLOOR || resize->rounding == PREFER_CEIL,
             centered = resize->positions == HALF_PIXEL || resize->positions == PYTORCH_HALF_PIXEL;
  if (is_power_of_two(scale) &&
      ((resize->positions == ASYMMETRIC && down) || (centered && nearest && scale.f > 1)))
    return true;
  return has_same_elements(im, resize, input, d);
}

/* True if the Upsample op has the same result, except for the order of sums. */
static bool op_fits(importer *im, const resize *resize, const value *input) {
  if (input->rank < 3 || input->rank > 5 || resize->antialias ||
      !dtype_is_float((dtype)input->type))
    return false;
  if (resize->mode == RESIZE_CUBIC && (resize->cubic != -0.75 || resize->exclude_outside))
    return false;
  for (int d = 0; d < input->rank; d++) {
    const number size = resize->sizes[d];
    if (!resize->resized[d]) continue;
    if (d < 2 || number_is(input->dims[d], 0) || number_is(size, 0)) return false;
    if (resize->has_scales && resize->scales[d].id && resize->positions != ALIGN_CORNERS)
      return false;
    if (resize->mode == RESIZE_NEAREST) {
      if (!nearest_fits(im, resize, input, d)) return false;
      continue;
    }
    if (resize->positions > ALIGN_CORNERS || resize->positions == HALF_PIXEL_SYMMETRIC)
      return false;
  }
  return true;
}

/* Keeps the first element alone of axes that pytorch_half_pixel resizes to 1: it is all that they
 * read. */
static value *first_for_one(importer *im, const resize *resize, value *input) {
  const number one = number_int(1);
  for (int d = 2; input && d < input->rank && resize->positions == PYTORCH_HALF_PIXEL; d++) {
    if (!resize->resized[d]) continue;
    const number longer = number_compute(im, NUMBER_GT, resize->sizes[d], one);
    number size = number_where(im, longer, input->dims[d], one);
    size.no_sign = true;
    input = emit_slice(im, input, d, number_int(0), size);
  }
  return input;
}

static value *upsample_op(importer *im, const resize *resize, value *input) {
  static const char *const fields[] = {"scale_w", "scale_h", "scale_d"};
  number dims[CLAVE_MAX_RANK];
  input = first_for_one(im, resize, input);
  if (!emit_prepare(im, input)) return NULL;
  for (int d = 0; d < input->rank; d++)
    dims[d] = resize->resized[d] ? resize->sizes[d] : input->dims[d];
  value *out = emit_begin(im, "Upsample", input->type, input->rank, dims);
  if (!out) return NULL;
  emit_set_tensor(im, "x", input);
  clave_builder_set_text(im->builder, "mode", resize_modes[resize->mode]);
  clave_builder_set_bool(im->builder, "align_corners",
                         resize->positions == ALIGN_CORNERS && resize->mode != RESIZE_NEAREST);
  for (int d = 2; d < input->rank && resize->has_scales; d++)
    if (resize->resized[d] && !resize->scales[d].id)
      clave_builder_set_float(im->builder, fields[input->rank - 1 - d], resize->scales[d].f);
  return out;
}

/* ---------------------------------------------------------------- the nodes */

/* Replaces elements whose position along axis d is outside of input. */
static value *extrapolated(importer *im, const resize *resize, value *input, int d, value *at,
                           number last) {
  value *low = emit_binary(im, "lt", at, value_of_float(im, CLAVE_F32, 0));
  value *outside = emit_binary(im, "logical_or", low, f32_step(im, "gt", at, last));
  return emit_where(im, along(im, outside, d, input->rank),
                    value_of_float(im, input->type, resize->extrapolation), input);
}

static value *resize_tensor(node *node, value *input, const resize *resize) {
  importer *im = node->im;
  const clave_dtype type = input->type;
  value *in = input, *at[CLAVE_MAX_RANK] = {NULL};
  if (op_fits(im, resize, input)) return upsample_op(im, resize, input);
  if (resize->mode != RESIZE_NEAREST && !dtype_is_float((dtype)type))
    import_unsupported(im, "mode '%s' of dtype %s", resize_modes[resize->mode],
                       clave_dtype_name(type));
  if (resize->mode != RESIZE_NEAREST && type != CLAVE_F64) input = emit_cast(im, input, CLAVE_F32);
  for (int d = in->rank - 1; d >= 0 && import_ok(im); d--) {
    if (!resize->resized[d]) continue;
    at[d] = positions_of(im, resize, d, in->dims[d]);
    input = resize->antialias ? antialias_axis(im, resize, input, d, at[d])
                              : resize_axis(im, resize, input, d, at[d]);
  }
  for (int d = 0; d < in->rank && resize->positions == CROP_AND_RESIZE && import_ok(im); d++)
    if (at[d])
      input = extrapolated(im, resize, input, d, at[d], number_sub(im, in->dims[d], number_int(1)));
  return emit_cast(im, input, type);
}

void onnx_resize(node *node) {
  value *x = node_required(node, 0);
  resize resize = {0};
  if (!x) return;
  for (int d = 0; d < x->rank; d++) {
    resize.sizes[d] = x->dims[d];
    resize.scales[d] = number_float(1);
  }
  if (strcmp(node->kind, "resize") == 0 && node->version >= 11) {
    read_attributes(node, &resize);
    if (import_ok(node->im)) read_resize(node, x, &resize);
  } else {
    read_upsample(node, x, &resize);
  }
  if (import_ok(node->im)) node_set(node, 0, resize_tensor(node, x, &resize));
}
