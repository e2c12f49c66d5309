/* MatMul and Gemm. */
#include "base/dtype.h"
#include "import/onnx/converters.h"

/* Integers are multiplied in I64 by broadcasting: they have no matrix product of their own. */
static value *product(importer *im, value *left, value *right) {
  if (!left || !right || dtype_is_float((dtype)left->type))
    return emit_matmul(im, left, right, NULL, 1, 1);
  value *wide_a = emit_cast(im, left, CLAVE_I64), *wide_b = emit_cast(im, right, CLAVE_I64);
  if (!wide_a || !wide_b) return NULL;
  emit_check(im, NUMBER_EQ, left->dims[left->rank - 1], right->dims[right->rank - 2],
             "the matrices of a product do not fit");
  const int axis = (left->rank > right->rank ? left->rank : right->rank) - 1;
  wide_a = emit_unsqueeze(im, wide_a, left->rank);
  wide_b = emit_unsqueeze(im, wide_b, right->rank - 2);
  value *sum = emit_reduce(im, "sum", emit_binary(im, "mul", wide_a, wide_b), &axis, 1, false);
  return emit_cast(im, sum, left->type);
}

/* As numpy.matmul: a vector is a row on the left and a column on the right, without that axis in
 * the result. */
void onnx_matmul(node *node) {
  importer *im = node->im;
  value *a = node_required(node, 0), *b = node_required(node, 1);
  if (!a || !b) return;
  if (a->rank == 0 || b->rank == 0) import_invalid(im, "a matrix product of a scalar");
  const bool row = a->rank == 1, column = b->rank == 1;
  value *out =
      product(im, row ? emit_unsqueeze(im, a, 0) : a, column ? emit_unsqueeze(im, b, 1) : b);
  if (out && column) out = emit_squeeze(im, out, out->rank - 1);
  if (out && row) out = emit_squeeze(im, out, out->rank - 1 - !column);
  node_set(node, 0, out);
}

/* alpha * a' b' + beta * c */
void onnx_gemm(node *node) {
  importer *im = node->im;
  value *a = node_required(node, 0), *b = node_required(node, 1), *c = node_input(node, 2);
  const double alpha = node_float(node, "alpha", 1), beta = node_float(node, "beta", 1);
  const bool trans_a = node_int(node, "transA", 0), trans_b = node_int(node, "transB", 0);
  if (!a || !b) return;
  if (a->rank != 2 || b->rank != 2) import_invalid(im, "expected matrices");
  if (trans_a) a = emit_transpose(im, a, 0, 1);
  if (trans_b) b = emit_transpose(im, b, 0, 1);
  if (!a || !b || dtype_is_float((dtype)a->type)) {
    node_set(node, 0, emit_matmul(im, a, b, c, alpha, beta));
    return;
  }
  if (alpha != 1 || beta != 1) import_unsupported(im, "integers with alpha or beta");
  value *out = product(im, a, b);
  node_set(node, 0, c ? emit_binary(im, "add", out, c) : out);
}
