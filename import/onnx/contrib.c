/* Ops of com.microsoft that onnxruntime's optimisers write: fused activations, norms and products.
 */
#include "import/onnx/contrib.h"

#include <string.h>

#include "base/dtype.h"
#include "import/onnx/converters.h"

value *onnx_call(node *node, const char *op, int64_t version, value *const *inputs, int n) {
  struct node call = *node;
  value *out = NULL, *copies[4] = {0};
  const onnx_op *row = onnx_find_op("", op, version);
  if (!row) {
    import_unsupported(node->im, "%s is not supported", op);
    return NULL;
  }
  for (int i = 0; i < n && i < 4; i++) copies[i] = inputs[i];
  if (!copies[0] || !import_ok(node->im)) return NULL;
  call.op = op;
  call.kind = row->kind;
  call.version = version;
  call.inputs = copies;
  call.n_inputs = n < 4 ? n : 4;
  call.outputs = &out;
  call.n_outputs = 1;
  row->convert(&call);
  return out;
}

/* ---------------------------------------------------------------- activations */

/* x, or x plus input 1 */
static value *biased(node *node) {
  value *x = node_required(node, 0), *bias = node_input(node, 1);
  return bias ? emit_binary(node->im, "add", x, bias) : x;
}

void onnx_contrib_gelu(node *node) {
  node_set(node, 0, emit_unary(node->im, node->kind, biased(node)));
}

void onnx_quick_gelu(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0);
  value *scaled = emit_binary_float(im, "mul", x, node_float(node, "alpha", (double)1.702f));
  node_set(node, 0, emit_binary(im, "mul", x, emit_unary(im, "sigmoid", scaled)));
}

/* (x + bias) split in halves: first * gelu(second) */
void onnx_bias_split_gelu(node *node) {
  importer *im = node->im;
  value *x = biased(node);
  if (!x || x->rank < 1) return;
  const int axis = x->rank - 1;
  const number half = number_floor_div(im, x->dims[axis], number_int(2));
  value *left = emit_slice(im, x, axis, number_int(0), half),
        *right = emit_slice(im, x, axis, half, x->dims[axis]);
  node_set(node, 0, emit_binary(im, "mul", left, emit_unary(im, "gelu", right)));
}

/* x + bias + skip */
void onnx_bias_add(node *node) {
  node_set(node, 0, emit_binary(node->im, "add", biased(node), node_required(node, 2)));
}

/* Applies the attribute `activation`; parameters: (n), as the fused op's attribute lists them. */
static value *activated(node *node, value *input, const double *parameters, int n) {
  static const char *const names[] = {"",          "Relu", "Tanh",       "Sigmoid",
                                      "LeakyRelu", "Clip", "HardSigmoid"};
  static const char *const steps[] = {NULL, "relu", "tanh", "sigmoid"};
  importer *im = node->im;
  const int kind = node_choice(node, "activation", names, 7);
  if (kind == 0 || !input) return input;
  if (kind < 4) return emit_unary(im, steps[kind], input);
  if (n < (kind == 4 ? 1 : 2)) {
    import_unsupported(im, "%s without parameters", names[kind]);
    return NULL;
  }
  if (kind == 4) return emit_binary_float(im, "leaky_relu", input, parameters[0]);
  if (kind == 5)
    return emit_binary_float(im, "minimum", emit_binary_float(im, "maximum", input, parameters[0]),
                             parameters[1]);
  input = emit_binary_float(im, "add", emit_binary_float(im, "mul", input, parameters[0]),
                            parameters[1]);
  return emit_binary_float(im, "minimum", emit_binary_float(im, "maximum", input, 0), 1);
}

/* ---------------------------------------------------------------- products */

/* Moves the first axis before the last one. */
static value *move_batch(importer *im, value *input) {
  int order[CLAVE_MAX_RANK];
  if (!input || input->rank < 3) return input;
  for (int d = 0; d < input->rank; d++) order[d] = d + 2 < input->rank ? d + 1 : d;
  order[input->rank - 2] = 0;
  return emit_permute(im, input, order);
}

static value *fused_operand(node *node, int i, const char *transposed, const char *batch) {
  value *x = node_required(node, i);
  const bool swaps = node_int(node, transposed, 0), moves = node_int(node, batch, 0);
  if (moves) x = move_batch(node->im, x);
  return swaps && x && x->rank > 1 ? emit_transpose(node->im, x, x->rank - 2, x->rank - 1) : x;
}

void onnx_fused_matmul(node *node) {
  value *operands[] = {fused_operand(node, 0, "transA", "transBatchA"),
                       fused_operand(node, 1, "transB", "transBatchB")};
  const double alpha = node_float(node, "alpha", 1);
  value *out = operands[1] ? onnx_call(node, "MatMul", 13, operands, 2) : NULL;
  node_set(node, 0, alpha == 1 ? out : emit_binary_float(node->im, "mul", out, alpha));
}

void onnx_fused_gemm(node *node) {
  static const char *const names[] = {"activation_alpha", "activation_beta", "activation_gamma"};
  double parameters[3] = {0};
  int n = 0;
  for (int i = 0; i < 3; i++) {
    if (node_has(node, names[i])) n = i + 1;
    parameters[i] = node_float(node, names[i], 0);
  }
  if (node_has(node, "leaky_relu_alpha"))
    parameters[n = 0, n++] = node_float(node, "leaky_relu_alpha", 0);
  value *out = onnx_call(node, "Gemm", 13, node->inputs, node->n_inputs);
  node_set(node, 0, activated(node, out, parameters, n));
}

/* activation(conv(x, w) + b + z) */
void onnx_fused_conv(node *node) {
  double parameters[4] = {0};
  const int n = node_floats(node, "activation_params", parameters, 4);
  value *z = node_input(node, 3);
  value *out = onnx_call(node, "Conv", 11, node->inputs, node->n_inputs < 3 ? node->n_inputs : 3);
  if (z) out = emit_binary(node->im, "add", out, z);
  node_set(node, 0, activated(node, out, parameters, n));
}

/* ---------------------------------------------------------------- norms */

void onnx_refuse_statistics(node *node, int first, int last) {
  for (int i = first; i <= last; i++)
    if (node_has_output(node, i))
      import_unsupported(node->im, "result %d, a statistic for training", i);
}

/* input + skip + bias, normalised; kind: the op of clave */
void onnx_skip_layer_norm(node *node) {
  importer *im = node->im;
  const bool centred = strcmp(node->kind, "LayerNorm") == 0;
  value *x = emit_binary(im, "add", node_required(node, 0), node_required(node, 1));
  value *weight = node_required(node, 2), *beta = centred ? node_input(node, 3) : NULL;
  value *bias = node_input(node, centred ? 4 : 3);
  onnx_refuse_statistics(node, 1, 2);
  if (bias) x = emit_binary(im, "add", x, bias);
  const double eps = node_float(node, "epsilon", (double)1e-12f);
  node_set(node, 0, onnx_norm(im, node->kind, x, weight, beta, 1, eps));
  node_set(node, 3, x);
}

/* Returns the row of `table` for each index. */
static value *embedded(node *node, value *table, value *index) {
  if (!table || !index) return NULL;
  return emit_index_select(node->im, table, 0, index);
}

/* The sum of three embeddings, normalised. Result 1: the number of words of each sequence. */
void onnx_embed_layer_norm(node *node) {
  importer *im = node->im;
  value *ids = node_required(node, 0), *segments = node_input(node, 1),
        *positions = node_required(node, 3), *mask = node_input(node, 7),
        *position_ids = node_input(node, 8);
  const double eps = node_float(node, "epsilon", (double)1e-12f);
  (void)node_int(node, "mask_index_type", 0);
  if (!ids || !positions || ids->rank != 2) return;
  value *x = embedded(node, node_required(node, 2), ids);
  value *at = position_ids ? embedded(node, positions, position_ids)
                           : emit_slice(im, positions, 0, number_int(0), ids->dims[1]);
  x = emit_binary(im, "add", x, at);
  if (segments) x = emit_binary(im, "add", x, embedded(node, node_required(node, 4), segments));
  node_set(node, 0,
           onnx_norm(im, "LayerNorm", x, node_required(node, 5), node_required(node, 6), 1, eps));
  const int axis = 1;
  if (node_has_output(node, 1) && mask)
    node_set(node, 1, emit_reduce(im, "sum", mask, &axis, 1, false));
  else if (node_has_output(node, 1))
    node_set(node, 1, emit_full(im, CLAVE_I32, 1, ids->dims, number_int(0)));
  node_set(node, 2, x);
}

/* ---------------------------------------------------------------- ops that are refused */

void onnx_refuse(node *node) { import_unsupported(node->im, "%s", node->kind); }
