/* Normalisation: by batch, instance, layer, group, root mean square, and over channels. */
#include <string.h>

#include "base/dtype.h"
#include "import/onnx/contrib.h"
#include "import/onnx/converters.h"

/* ---------------------------------------------------------------- written out */

/* Casts 16-bit floats to F32, in which moments are computed. */
static value *norm_wide(node *node, value *input) {
  if (!input) return NULL;
  if (!dtype_is_float((dtype)input->type))
    import_unsupported(node->im, "dtype %s", clave_dtype_name(input->type));
  return input->type == CLAVE_F64 ? input : emit_cast(node->im, input, CLAVE_F32);
}

/* Returns input - mean, and sets the mean and the mean square of the difference, over the axes. */
static value *centered(importer *im, value *input, const int *axes, int n, value **mean,
                       value **var) {
  *mean = emit_reduce(im, "mean", input, axes, n, true);
  value *difference = emit_binary(im, "sub", input, *mean);
  *var = emit_reduce(im, "mean", emit_binary(im, "mul", difference, difference), axes, n, true);
  return difference;
}

/* 1 / sqrt(var + epsilon) */
static value *inverse_deviation(importer *im, value *var, double epsilon) {
  return emit_unary(im, "rsqrt", emit_binary_float(im, "add", var, epsilon));
}

/* Returns a parameter (C) as (C, 1, ...), which is broadcast to input: (N, C, *). */
static value *of_channels(importer *im, value *parameter, const value *input) {
  number dims[CLAVE_MAX_RANK];
  if (!parameter || parameter->rank != 1) {
    import_invalid(im, "a parameter has not one dimension");
    return NULL;
  }
  for (int d = 1; d < input->rank; d++) dims[d - 1] = d == 1 ? parameter->dims[0] : number_int(1);
  return emit_reshape(im, parameter, input->rank - 1, dims);
}

/* input * weight + bias, where bias may be NULL */
static value *scaled(importer *im, value *input, value *weight, value *bias) {
  value *out = emit_binary(im, "mul", input, weight);
  return bias ? emit_binary(im, "add", out, bias) : out;
}

static bool norm_has_channels(node *node, const value *input) {
  if (input && input->rank < 2) import_unsupported(node->im, "an input of rank %d", input->rank);
  return input && import_ok(node->im);
}

/* Emits LayerNorm, RmsNorm, GroupNorm or BatchNorm without its integer attribute. */
static value *norm_op(importer *im, const char *op, value *input, value *weight, value *bias,
                      double epsilon) {
  if (!emit_prepare(im, input) || (weight && !emit_prepare(im, weight)) ||
      (bias && !emit_prepare(im, bias)))
    return NULL;
  value *out = emit_begin(im, op, input->type, input->rank, input->dims);
  if (!out) return NULL;
  emit_set_tensor(im, "x", input);
  emit_set_tensor(im, "weight", weight);
  emit_set_tensor(im, "bias", bias);
  clave_builder_set_float(im->builder, "eps", epsilon);
  return out;
}

/* ---------------------------------------------------------------- BatchNormalization */

/* The moving average of a statistic */
static value *moved_average(importer *im, value *old, value *current, double momentum) {
  value *kept = emit_binary_float(im, "mul", emit_cast(im, old, current->type), momentum);
  value *added = emit_binary_float(im, "mul", current, 1 - momentum);
  return emit_cast(im, emit_binary(im, "add", kept, added), old->type);
}

/* Normalises by the batch's own statistics, and returns moving averages of them. parameters: scale,
 * bias, mean, variance */
static void batch_norm_training(node *node, value *input, value *const *parameters, double epsilon,
                                double momentum) {
  importer *im = node->im;
  int axes[CLAVE_MAX_RANK], n = 0;
  value *moments[2], *wide = norm_wide(node, input);
  if (!wide) return;
  for (int d = 0; d < input->rank; d++)
    if (d != 1) axes[n++] = d;
  value *out = centered(im, wide, axes, n, &moments[0], &moments[1]);
  out = emit_binary(im, "mul", out, inverse_deviation(im, moments[1], epsilon));
  out = scaled(im, out, of_channels(im, emit_cast(im, parameters[0], wide->type), input),
               of_channels(im, emit_cast(im, parameters[1], wide->type), input));
  node_set(node, 0, emit_cast(im, out, input->type));
  for (int i = 0; i < 2 && import_ok(im); i++) {
    value *flat = emit_reshape(im, moments[i], 1, &input->dims[1]);
    node_set(node, 1 + i, moved_average(im, parameters[2 + i], flat, momentum));
  }
}

void onnx_batch_norm(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0), *parameters[4];
  const double epsilon = node_float(node, "epsilon", 1e-5),
               momentum = node_float(node, "momentum", 0.9);
  const bool training = node->version >= 14 && node_int(node, "training_mode", 0);
  if (node->version < 9 && !node_int(node, "spatial", 1)) import_unsupported(im, "spatial = 0");
  for (int i = 0; i < 4; i++) parameters[i] = node_required(node, 1 + i);
  for (int i = 1; i < node->n_outputs && !training; i++)
    if (node_has_output(node, i)) import_unsupported(im, "result %d, of training", i);
  if (!norm_has_channels(node, x)) return;
  if (training) {
    batch_norm_training(node, x, parameters, epsilon, momentum);
    return;
  }
  bool same = true;
  for (int i = 0; i < 4; i++) same = same && parameters[i]->type == x->type;
  value *in = same ? x : norm_wide(node, x);
  for (int i = 0; i < 4 && in; i++) {
    parameters[i] = emit_cast(im, parameters[i], in->type);
    if (!emit_prepare(im, parameters[i])) return;
  }
  value *out = norm_op(im, "BatchNorm", in, parameters[0], parameters[1], epsilon);
  emit_set_tensor(im, "mean", parameters[2]);
  emit_set_tensor(im, "var", parameters[3]);
  node_set(node, 0, emit_cast(im, out, x->type));
}

/* ---------------------------------------------------------------- by instance and group */

static value *norm_of_groups(importer *im, value *input, value *weight, value *bias, int64_t groups,
                             double epsilon) {
  value *out = norm_op(im, "GroupNorm", input, weight, bias, epsilon);
  if (out) clave_builder_set_int(im->builder, "groups", groups);
  return out;
}

void onnx_instance_norm(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0), *scale = node_required(node, 1),
        *bias = node_required(node, 2);
  value *wide = norm_wide(node, x), *mean, *var;
  const double epsilon = node_float(node, "epsilon", 1e-5);
  int axes[CLAVE_MAX_RANK];
  if (!norm_has_channels(node, x) || !scale || !bias) return;
  if (x->rank < 3) import_unsupported(im, "an input of rank %d", x->rank);
  if (!x->dims[1].id) {
    node_set(node, 0, norm_of_groups(im, x, scale, bias, x->dims[1].i, epsilon));
    return;
  }
  for (int d = 2; d < x->rank; d++) axes[d - 2] = d;
  value *out = centered(im, wide, axes, x->rank - 2, &mean, &var);
  out = emit_binary(im, "mul", out, inverse_deviation(im, var, epsilon));
  out = scaled(im, out, of_channels(im, emit_cast(im, scale, wide->type), x),
               of_channels(im, emit_cast(im, bias, wide->type), x));
  node_set(node, 0, emit_cast(im, out, x->type));
}

/* Repeats a parameter of each group for the group's channels. */
static value *for_channels(importer *im, value *parameter, number channels) {
  if (!parameter || parameter->rank != 1) {
    import_invalid(im, "a parameter has not one dimension");
    return NULL;
  }
  const number groups = parameter->dims[0];
  const number dims[2] = {groups, number_floor_div(im, channels, groups)};
  value *repeated = emit_expand(im, emit_unsqueeze(im, parameter, 1), 2, dims);
  return emit_reshape(im, repeated, 1, &channels);
}

void onnx_group_norm(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0), *scale = node_required(node, 1),
        *bias = node_required(node, 2);
  const double epsilon = node_float(node, "epsilon", 1e-5);
  const int64_t groups = node_int(node, "num_groups", 0);
  if (node->version >= 21 && node_int(node, "stash_type", 1) != 1)
    import_unsupported(im, "stash_type is not FLOAT");
  if (!norm_has_channels(node, x) || !scale || !bias) return;
  if (groups < 1) import_invalid(im, "num_groups is %lld", (long long)groups);
  if (node->version < 21) {
    scale = for_channels(im, scale, x->dims[1]);
    bias = for_channels(im, bias, x->dims[1]);
  }
  node_set(node, 0, norm_of_groups(im, x, scale, bias, groups, epsilon));
}

/* ---------------------------------------------------------------- over the last axes */

/* True if the shape of the weight is that of the last n axes of input. */
static bool has_last_dims(const value *weight, const value *input, int n) {
  if (weight->rank != n) return false;
  for (int d = 0; d < n; d++)
    if (!number_is_same(weight->dims[d], input->dims[input->rank - n + d])) return false;
  return true;
}

value *onnx_norm(importer *im, const char *op, value *input, value *weight, value *bias, int n_axes,
                 double epsilon) {
  if (!input) return NULL;
  if (input->rank < n_axes) {
    import_invalid(im, "an input of rank %d", input->rank);
    return NULL;
  }
  const bool fits = (!weight || has_last_dims(weight, input, n_axes)) &&
                    (!bias || has_last_dims(bias, input, n_axes));
  value *out = norm_op(im, op, input, fits ? weight : NULL, fits ? bias : NULL, epsilon);
  if (!out) return NULL;
  clave_builder_set_int(im->builder, "n_axes", n_axes);
  return fits ? out : scaled(im, out, weight, bias);
}

/* Sets the results Mean and InvStdDev of LayerNormalization. */
static void set_moments(node *node, value *input, int axis, double epsilon) {
  int axes[CLAVE_MAX_RANK];
  value *mean, *var;
  if (!node_has_output(node, 1) && !node_has_output(node, 2)) return;
  for (int d = axis; d < input->rank; d++) axes[d - axis] = d;
  centered(node->im, norm_wide(node, input), axes, input->rank - axis, &mean, &var);
  node_set(node, 1, emit_cast(node->im, mean, CLAVE_F32));
  node_set(node, 2, emit_cast(node->im, inverse_deviation(node->im, var, epsilon), CLAVE_F32));
}

/* kind: LayerNorm or RmsNorm */
void onnx_layer_norm(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0), *scale = node_required(node, 1), *bias = node_input(node, 2);
  const double epsilon = node_float(node, "epsilon", 1e-5);
  const int64_t stash = node_int(node, "stash_type", 1), axis = node_int(node, "axis", -1);
  if (!x || !scale) return;
  if (stash != 1 && !(stash == 11 && x->type == CLAVE_F64))
    import_unsupported(im, "stash_type is not FLOAT");
  if (x->rank == 0) import_invalid(im, "the input has rank 0");
  const int first = emit_axis(im, axis, x->rank);
  if (!import_ok(im)) return;
  const clave_dtype type = scale->type; /* the result of RMS norms has it */
  value *in = x;
  if (type != x->type) in = norm_wide(node, x);
  if (!in) return;
  scale = emit_cast(im, scale, in->type);
  bias = bias ? emit_cast(im, bias, in->type) : NULL;
  value *out = scale ? onnx_norm(im, node->kind, in, scale, bias, in->rank - first, epsilon) : NULL;
  node_set(node, 0, emit_cast(im, out, type));
  if (strcmp(node->kind, "LayerNorm") == 0)
    set_moments(node, x, first, epsilon);
  else
    onnx_refuse_statistics(node, 1, 1);
}

/* ---------------------------------------------------------------- others */

/* x / (bias + alpha / size * the sum of squares of the channels nearby) ^ beta */
void onnx_lrn(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0), *wide = norm_wide(node, x);
  const double alpha = node_float(node, "alpha", 1e-4), beta = node_float(node, "beta", 0.75),
               bias = node_float(node, "bias", 1);
  const int64_t size = node_int(node, "size", 0);
  number before[3], after[3], dims[3];
  if (!norm_has_channels(node, x) || !wide) return;
  if (size < 1) import_invalid(im, "size is %lld", (long long)size);
  if (size > 256) import_unsupported(im, "size is %lld", (long long)size);
  for (int d = 0; d < 3; d++) before[d] = after[d] = number_int(0);
  dims[0] = x->dims[0];
  dims[1] = x->dims[1];
  dims[2] = number_int(1);
  for (int d = 2; d < x->rank; d++) dims[2] = number_mul(im, dims[2], x->dims[d]);
  before[1] = number_int((size - 1) / 2);
  after[1] = number_int(size - 1 - (size - 1) / 2);
  value *squares = emit_reshape(im, emit_binary(im, "mul", wide, wide), 3, dims);
  squares = emit_pad(im, squares, before, after, "constant", 0);
  value *sum = NULL;
  for (int64_t i = 0; i < size && import_ok(im); i++) {
    value *part = emit_slice(im, squares, 1, number_int(i), number_add(im, dims[1], number_int(i)));
    if (part) part->dims[1] = dims[1];
    sum = sum ? emit_binary(im, "add", sum, part) : part;
  }
  sum = emit_reshape(im, sum, x->rank, x->dims);
  sum = emit_binary_float(im, "mul", sum, alpha / (double)size);
  sum = emit_binary_float(im, "pow", emit_binary_float(im, "add", sum, bias), beta);
  node_set(node, 0, emit_cast(im, emit_binary(im, "div", wide, sum), x->type));
}

/* (x - mean) / (deviation + 1e-9) */
void onnx_mean_variance_norm(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0), *wide = norm_wide(node, x), *mean, *var;
  int64_t list[CLAVE_MAX_RANK] = {0, 2, 3};
  int axes[CLAVE_MAX_RANK];
  if (!wide) return;
  const int given = node_ints(node, "axes", list, CLAVE_MAX_RANK), n = given < 0 ? 3 : given;
  for (int i = 0; i < n; i++) axes[i] = emit_axis(im, list[i], x->rank);
  if (n == 0) import_unsupported(im, "no axes");
  if (!import_ok(im)) return;
  value *out = centered(im, wide, axes, n, &mean, &var);
  value *deviation = emit_binary_float(im, "add", emit_unary(im, "sqrt", var), 1e-9);
  node_set(node, 0, emit_cast(im, emit_binary(im, "div", out, deviation), x->type));
}
