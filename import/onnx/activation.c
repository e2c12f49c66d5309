/* Activations. Those that take several steps, or a factor that 16-bit floats lack, are computed in
 * F32 for 16-bit floats. */
#include <math.h>
#include <string.h>

#include "import/onnx/converters.h"

typedef value *activation(node *node, value *input); /* the result may have a wider dtype */

static value *activation_wide(node *node, value *input) {
  const bool narrow = input && (input->type == CLAVE_F16 || input->type == CLAVE_BF16);
  return narrow ? emit_cast(node->im, input, CLAVE_F32) : input;
}

static value *step3(importer *im, const char *kind, value *input, double b, double c) {
  if (!input) return NULL;
  value *const operands[] = {input, value_of_float(im, input->type, b),
                             value_of_float(im, input->type, c)};
  return emit_step(im, kind, operands, 3);
}

/* a * input + b, limited to [0, 1] */
static value *line_in_unit(importer *im, value *input, double a, double b) {
  value *line = emit_binary_float(im, "add", emit_binary_float(im, "mul", input, a), b);
  return emit_binary_float(im, "minimum", emit_binary_float(im, "maximum", line, 0), 1);
}

static value *activation_elu(node *node, value *input) {
  input = activation_wide(node, input);
  return emit_binary_float(node->im, "elu", input, node_float(node, "alpha", 1));
}

static value *activation_selu(node *node, value *input) {
  input = activation_wide(node, input);
  const double alpha = node_float(node, "alpha", (double)1.67326319217681884765625F),
               gamma = node_float(node, "gamma", (double)1.05070102214813232421875F);
  return emit_binary_float(node->im, "mul", emit_binary_float(node->im, "elu", input, alpha),
                           gamma);
}

/* max(0, input) + min(0, alpha * (exp(input / alpha) - 1)) */
static value *activation_celu(node *node, value *input) {
  importer *im = node->im;
  input = activation_wide(node, input);
  const double alpha = node_float(node, "alpha", 1);
  value *power = emit_unary(im, "expm1", emit_binary_float(im, "div", input, alpha));
  value *below = emit_binary_float(im, "minimum", emit_binary_float(im, "mul", power, alpha), 0);
  return emit_binary(im, "add", emit_unary(im, "relu", input), below);
}

static value *activation_leaky_relu(node *node, value *input) {
  input = activation_wide(node, input);
  return emit_binary_float(node->im, "leaky_relu", input, node_float(node, "alpha", (double)0.01F));
}

static value *activation_thresholded_relu(node *node, value *input) {
  importer *im = node->im;
  input = activation_wide(node, input);
  value *above = emit_binary_float(im, "gt", input, node_float(node, "alpha", 1));
  return input ? emit_where(im, above, input, value_of_float(im, input->type, 0)) : NULL;
}

static value *activation_hard_sigmoid(node *node, value *input) {
  input = activation_wide(node, input);
  const double alpha = node_float(node, "alpha", (double)0.2F),
               beta = node_float(node, "beta", 0.5);
  return line_in_unit(node->im, input, alpha, beta);
}

/* From input = limit on, log(1 + exp(input)) is input. */
static value *activation_softplus(node *node, value *input) {
  return step3(node->im, "softplus", input, 1, input && input->type == CLAVE_F64 ? 40 : 20);
}

static value *activation_softsign(node *node, value *input) {
  importer *im = node->im;
  input = activation_wide(node, input);
  return emit_binary(im, "div", input,
                     emit_binary_float(im, "add", emit_unary(im, "abs", input), 1));
}

static value *activation_gelu(node *node, value *input) {
  static const char *const modes[] = {"none", "tanh"};
  const int mode = node_choice(node, "approximate", modes, 2);
  return emit_unary(node->im, mode ? "gelu_tanh" : "gelu", input);
}

static value *activation_swish(node *node, value *input) {
  importer *im = node->im;
  const double alpha = node_float(node, "alpha", 1);
  if (alpha == 1) return emit_unary(im, "silu", input);
  input = activation_wide(node, input);
  return emit_binary(im, "mul", input,
                     emit_unary(im, "sigmoid", emit_binary_float(im, "mul", input, alpha)));
}

static value *activation_step(node *node, value *input) {
  return emit_unary(node->im, strcmp(node->op, "Mish") == 0 ? "mish" : "hardswish", input);
}

static const struct {
  const char *op;
  activation *convert;
} activations[] = {
    {"Celu", activation_celu},         {"Elu", activation_elu},
    {"Gelu", activation_gelu},         {"HardSigmoid", activation_hard_sigmoid},
    {"HardSwish", activation_step},    {"LeakyRelu", activation_leaky_relu},
    {"Mish", activation_step},         {"Selu", activation_selu},
    {"Softplus", activation_softplus}, {"Softsign", activation_softsign},
    {"Swish", activation_swish},       {"ThresholdedRelu", activation_thresholded_relu},
};

void onnx_activation(node *node) {
  value *x = node_required(node, 0);
  if (!x) return;
  for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
    if (strcmp(node->op, activations[i].op) == 0)
      node_set(node, 0, emit_cast(node->im, activations[i].convert(node, x), x->type));
}

void onnx_swiglu(node *node) {
  value *gate = node_required(node, 0), *linear = node_required(node, 1);
  if (!gate || !linear) return;
  value *swish = emit_cast(node->im, activation_swish(node, gate), gate->type);
  node_set(node, 0, emit_binary(node->im, "mul", swish, linear));
}

/* Computes x for x >= 0 and slope * x otherwise. The slope is broadcast to x. */
void onnx_prelu(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0), *slope = node_required(node, 1);
  number dims[CLAVE_MAX_RANK];
  if (!x || !slope) return;
  const int rank = emit_broadcast(im, (value *[]){x, slope}, 2, dims);
  bool fits = rank == x->rank;
  for (int d = 0; d < rank && fits; d++)
    fits = dims[d].id || x->dims[d].id || dims[d].i == x->dims[d].i;
  if (!fits) import_invalid(im, "the slope is not broadcast to the input");
  value *zero = value_of_float(im, x->type, 0);
  const bool is_unsigned = x->type == CLAVE_U32 || x->type == CLAVE_U64;
  value *scaled = is_unsigned ? NULL : emit_binary(im, "mul", x, slope);
  node_set(node, 0, is_unsigned ? x : emit_where(im, emit_binary(im, "lt", x, zero), scaled, x));
}

/* Computes x + bias below -lambd, x - bias above lambd, and 0 between them. */
void onnx_shrink(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0);
  const double lambd = node_float(node, "lambd", 0.5), bias = node_float(node, "bias", 0);
  if (!x) return;
  const bool narrow = x->type == CLAVE_F16 || x->type == CLAVE_BF16 || x->type == CLAVE_F32;
  value *wide = emit_cast(im, x, narrow ? CLAVE_F32 : CLAVE_F64);
  value *zero = wide ? value_of_float(im, wide->type, 0) : NULL;
  value *above = emit_where(im, emit_binary_float(im, "gt", wide, lambd),
                            emit_binary_float(im, "sub", wide, bias), zero);
  value *out = emit_where(im, emit_binary_float(im, "lt", wide, -lambd),
                          emit_binary_float(im, "add", wide, bias), above);
  node_set(node, 0, emit_cast(im, out, x->type));
}
