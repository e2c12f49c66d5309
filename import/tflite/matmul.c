/* Products of matrices. */
#include "import/tflite/converters.h"

/* a @ transposed(weight) + bias, where the weight may be encoded. a: (..., K), weight: (N, K) */
static value *weight_product(importer *im, value *left, value *weight, value *bias, bool encoded) {
  number dims[CLAVE_MAX_RANK];
  if (!encoded) return emit_matmul(im, left, emit_transpose(im, weight, 0, 1), bias, 1, 1);
  if (!emit_prepare(im, left) || (bias && !emit_prepare(im, bias))) return NULL;
  for (int d = 0; d < left->rank; d++) dims[d] = left->dims[d];
  dims[left->rank - 1] = weight->dims[0];
  value *out = emit_begin(im, "Matmul", left->type, left->rank, dims);
  if (!out) return NULL;
  emit_set_tensor(im, "a", left);
  emit_set_tensor(im, "b", weight);
  emit_set_tensor(im, "bias", bias);
  clave_builder_set_bool(im->builder, "b_transposed", true);
  return out;
}

/* Returns input as rows of the weight's length. */
static value *rows_of(operation *op, value *input, number length, bool keep_dims) {
  importer *im = op->im;
  if (input->rank >= 2 && (keep_dims || input->rank == 2) &&
      number_is_same(input->dims[input->rank - 1], length))
    return input;
  const number rows[] = {number_floor_div(im, value_numel(im, input), length), length};
  return emit_reshape(im, input, 2, rows);
}

void tflite_fully_connected(operation *op) {
  importer *im = op->im;
  bool encoded;
  value *x = tflite_required(op, 0), *weight = tflite_weight(op, 1, (int[]){0, 1}, &encoded);
  const bool keep_dims = flat_bool(&op->options, 2);
  if (flat_int(&op->options, 1, 1, 0) != 0) import_unsupported(im, "shuffled weights");
  if (!x || !weight || !import_ok(im)) return;
  if (weight->rank != 2) {
    import_invalid(im, "a weight of rank %d", weight->rank);
    return;
  }
  value *rows = rows_of(op, x, weight->dims[1], keep_dims), *bias = tflite_bias(op, 2, 0, 1);
  if (bias) bias = emit_reshape(im, bias, 1, &weight->dims[0]);
  value *out = weight_product(im, rows, weight, bias, encoded);
  if (out && keep_dims && out->rank != x->rank) {
    number dims[CLAVE_MAX_RANK];
    for (int d = 0; d < x->rank; d++) dims[d] = x->dims[d];
    dims[x->rank ? x->rank - 1 : 0] = weight->dims[0];
    out = emit_reshape(im, out, x->rank, dims);
  }
  op->is_sum = true;
  tflite_set(op, 0, tflite_activated(op, out, 0));
}

void tflite_batch_matmul(operation *op) {
  importer *im = op->im;
  value *a = tflite_required(op, 0), *b = tflite_required(op, 1);
  if (!a || !b) return;
  if (a->rank < 2 || b->rank < 2) {
    import_invalid(im, "ranks %d and %d", a->rank, b->rank);
    return;
  }
  if (flat_bool(&op->options, 0)) a = emit_transpose(im, a, a->rank - 2, a->rank - 1);
  if (flat_bool(&op->options, 1)) b = emit_transpose(im, b, b->rank - 2, b->rank - 1);
  op->is_sum = true;
  tflite_set(op, 0, emit_matmul(im, a, b, NULL, 1, 1));
}
