/* Ops of com.microsoft on 8-bit codes: QLinearAdd and others. Each decodes its operands, computes
 * in F32 and encodes the result. */
#include <string.h>

#include "import/onnx/contrib.h"
#include "import/onnx/converters.h"
#include "import/onnx/quantize.h"

/* Reads the codes at input `first`, with scale and zero after them, as F32. */
static value *quantized_decoded(node *node, int first) {
  const quantized x = onnx_quantized_input(node, first);
  if (!onnx_is_bytes(node, x.codes)) return NULL;
  return emit_dequantize(node->im, &x);
}

/* Encodes the result with the scale at input `scale`. Its dtype is that of the codes at `like`, as
 * a zero may be absent. */
static void set_encoded(node *node, value *input, int scale, int like) {
  const value *codes = node_required(node, like);
  if (!codes || !node_required(node, scale)) return;
  const code_range range = {codes->type, 0};
  node_set(node, 0,
           emit_quantize(node->im, input, onnx_quantized_scalar(node, scale),
                         onnx_quantized_scalar(node, scale + 1), range));
}

void onnx_qlinear_binary(node *node) {
  value *a = quantized_decoded(node, 0), *b = quantized_decoded(node, 3);
  set_encoded(node, emit_binary(node->im, node->kind, a, b), 6, 0);
}

void onnx_qlinear_sigmoid(node *node) {
  set_encoded(node, emit_unary(node->im, "sigmoid", quantized_decoded(node, 0)), 3, 0);
}

void onnx_qlinear_leaky_relu(node *node) {
  const double alpha = node_float(node, "alpha", (double)0.01f);
  value *x = quantized_decoded(node, 0);
  set_encoded(node, emit_binary_float(node->im, "leaky_relu", x, alpha), 3, 0);
}

/* The attribute `opset` is the version of Softmax whose meaning of `axis` applies. */
void onnx_qlinear_softmax(node *node) {
  value *x = quantized_decoded(node, 0);
  value *out = onnx_call(node, "Softmax", node_int(node, "opset", 13), &x, 1);
  set_encoded(node, out, 3, 0);
}

void onnx_qlinear_where(node *node) {
  value *x = quantized_decoded(node, 1), *y = quantized_decoded(node, 4);
  set_encoded(node, emit_where(node->im, node_required(node, 0), x, y), 7, 1);
}

void onnx_qlinear_reduce_mean(node *node) {
  value *x = quantized_decoded(node, 0);
  set_encoded(node, onnx_call(node, "ReduceMean", 13, &x, 1), 3, 0);
}

/* Moves the channels, the last axis of input, to axis 1, or back. */
static value *move_channels(importer *im, value *input, bool first) {
  int order[CLAVE_MAX_RANK] = {0};
  if (!input) return NULL;
  for (int d = 1; d < input->rank; d++)
    order[d] = first ? (d == 1 ? input->rank - 1 : d - 1) : d + 1;
  if (!first) order[input->rank - 1] = 1;
  return emit_permute(im, input, order);
}

void onnx_qlinear_average_pool(node *node) {
  importer *im = node->im;
  const bool last = node_int(node, "channels_last", 0);
  value *x = quantized_decoded(node, 0);
  if (last) x = move_channels(im, x, true);
  value *out = onnx_call(node, "AveragePool", 19, &x, 1);
  set_encoded(node, last ? move_channels(im, out, false) : out, 3, 0);
}

void onnx_qlinear_global_average_pool(node *node) {
  const bool last = node_int(node, "channels_last", 0);
  value *x = quantized_decoded(node, 0);
  int axes[CLAVE_MAX_RANK];
  if (!x) return;
  for (int d = 2; d < x->rank; d++) axes[d - 2] = last ? d - 1 : d;
  set_encoded(node, emit_reduce(node->im, "mean", x, axes, x->rank - 2, true), 3, 0);
}

/* Inputs: the result's scale and zero, then codes, scale and zero of each operand. */
void onnx_qlinear_concat(node *node) {
  importer *im = node->im;
  const int n = (node->n_inputs - 2) / 3;
  const value *zero = node_required(node, 1);
  value **xs = import_alloc(im, (size_t)(n > 0 ? n : 1), sizeof *xs);
  if (n < 1) import_invalid(im, "there are no operands");
  for (int i = 0; xs && i < n; i++) xs[i] = quantized_decoded(node, 2 + 3 * i);
  if (!zero || !xs || n < 1 || !xs[0]) return;
  const int axis = emit_axis(im, node_int(node, "axis", 0), xs[0]->rank);
  const code_range range = {zero->type, 0};
  node_set(node, 0,
           emit_quantize(im, emit_cat(im, xs, n, axis), onnx_quantized_scalar(node, 0),
                         onnx_quantized_scalar(node, 1), range));
}

/* alpha * a_scale * b_scale * ((a' - a_zero) (b' - b_zero) + c), encoded if there is a scale for
 * the result. */
void onnx_qgemm(node *node) {
  importer *im = node->im;
  quantized a = onnx_quantized_input(node, 0),
            b = {node_required(node, 3), node_required(node, 4), node_input(node, 5)};
  value *c = node_input(node, 6), *y_zero = node_input(node, 8);
  const double alpha = node_float(node, "alpha", 1);
  if (node_int(node, "transA", 0)) a.codes = emit_transpose(im, a.codes, 0, 1);
  if (node_int(node, "transB", 0)) b.codes = emit_transpose(im, b.codes, 0, 1);
  value *sums = onnx_integer_product(node, &a, &b);
  if (c) sums = emit_binary(im, "add", sums, c);
  if (alpha != 1 && a.scale) a.scale = emit_binary_float(im, "mul", a.scale, alpha);
  value *out = onnx_scale_product(node, sums, &a, &b);
  if (!node_input(node, 7)) {
    node_set(node, 0, out);
    return;
  }
  const code_range range = {y_zero ? y_zero->type : CLAVE_U8, 0};
  node_set(node, 0,
           emit_quantize(im, out, onnx_quantized_scalar(node, 7), onnx_quantized_scalar(node, 8),
                         range));
}

/* ---------------------------------------------------------------- products with F32 results */

/* A and B are codes; inputs: A, B, a_scale, b_scale, a_zero, b_zero, bias */
void onnx_matmul_integer_to_float(node *node) {
  const quantized a = {node_required(node, 0), node_required(node, 2), node_input(node, 4)},
                  b = {node_required(node, 1), node_required(node, 3), node_input(node, 5)};
  value *bias = node_input(node, 6);
  value *out = onnx_scale_product(node, onnx_integer_product(node, &a, &b), &a, &b);
  node_set(node, 0, bias ? emit_binary(node->im, "add", out, bias) : out);
}

/* A is F32 and quantised over its range; inputs: A, B, b_scale, b_zero, bias */
void onnx_dynamic_quantize_matmul(node *node) {
  value *x = node_required(node, 0), *bias = node_input(node, 4);
  const quantized b = {node_required(node, 1), node_required(node, 2), node_input(node, 3)};
  if (!x) return;
  const quantized a = onnx_quantize_dynamic(node->im, x);
  value *out = onnx_scale_product(node, onnx_integer_product(node, &a, &b), &a, &b);
  node_set(node, 0, bias ? emit_binary(node->im, "add", out, bias) : out);
}
