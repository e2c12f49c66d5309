/* Reductions along axes, softmax, norms and running sums. */
#include <string.h>

#include "base/dtype.h"
#include "import/tflite/converters.h"

/* Axes are an input. A result without them is channels last. */
void tflite_reduce(operation *op) {
  importer *im = op->im;
  value *x = tflite_required(op, 0);
  int axes[CLAVE_MAX_RANK];
  bool reduced[CLAVE_MAX_RANK] = {false};
  number dims[CLAVE_MAX_RANK];
  if (!x) return;
  const int n = tflite_axes(op, 1, x->rank, axes);
  const bool keep = flat_bool(&op->options, 0);
  if (strcmp(op->kind, "mean") == 0 && !dtype_has_fractions((dtype)x->type))
    import_unsupported(im, "a mean of integers");
  if (!import_ok(im)) return;
  for (int i = 0; i < n; i++) {
    reduced[axes[i]] = true;
    axes[i] = tflite_dim(op, axes[i]);
  }
  value *out = n ? emit_reduce(im, op->kind, x, axes, n, true) : x;
  if (keep || !out) {
    tflite_set(op, 0, out);
    return;
  }
  out = tflite_to_last(op, out);
  int rank = 0;
  for (int d = 0; out && d < out->rank; d++)
    if (!reduced[d]) dims[rank++] = out->dims[d];
  tflite_set_last(op, 0, emit_reshape(im, out, rank, dims));
}

void tflite_arg_reduce(operation *op) {
  value *x = tflite_required(op, 0);
  int axes[CLAVE_MAX_RANK];
  const operand *out = tflite_result(op, 0);
  if (!x || !out) return;
  if (tflite_axes(op, 1, x->rank, axes) != 1) import_unsupported(op->im, "several axes");
  if (import_ok(op->im))
    tflite_set(op, 0,
               emit_cast(op->im, emit_arg_reduce(op->im, op->kind, x, axes[0], false), out->dtype));
}

void tflite_softmax(operation *op) {
  value *x = tflite_required(op, 0);
  const bool log = strcmp(op->kind, "log") == 0;
  const double beta = log ? 1 : flat_float(&op->options, 0, 0);
  if (!x) return;
  if (x->rank == 0) import_invalid(op->im, "rank 0");
  if (beta != 1) x = emit_binary_float(op->im, "mul", x, beta);
  if (import_ok(op->im))
    tflite_set(op, 0, emit_softmax(op->im, x, tflite_dim(op, x->rank - 1), log));
}

/* x / max(norm, 1e-6) over the last dimension */
void tflite_l2_normalization(operation *op) {
  importer *im = op->im;
  value *x = tflite_required(op, 0);
  if (x && x->rank == 0) import_invalid(im, "rank 0");
  if (!x || !import_ok(im)) return;
  const int axis = tflite_dim(op, x->rank - 1);
  value *norm = emit_reduce(im, "norm2", x, &axis, 1, true);
  value *out = emit_binary(im, "div", x, emit_binary_float(im, "maximum", norm, 1e-6));
  tflite_set(op, 0, tflite_activated(op, out, 0));
}

/* x * (bias + alpha * the sum of squares of channels within `radius`) ^ -beta */
void tflite_local_response_normalization(operation *op) {
  importer *im = op->im;
  value *x = tflite_required(op, 0);
  const int64_t radius = flat_int(&op->options, 0, 4, 0);
  const double bias = flat_float(&op->options, 1, 0), alpha = flat_float(&op->options, 2, 0),
               beta = flat_float(&op->options, 3, 0);
  if (radius < 0 || radius > INT32_MAX / 4)
    import_unsupported(im, "a radius of %lld", (long long)radius);
  if (!x || !import_ok(im) || x->rank == 0) return;
  window window = {
      .n = 1, .kernel = {2 * radius + 1}, .stride = {1}, .dilation = {1}, .padding = {radius}};
  const number channels = x->dims[x->rank - 1];
  number rows[3] = {number_floor_div(im, value_numel(im, x), channels), number_int(1), channels};
  value *squares = emit_reshape(im, emit_binary(im, "mul", x, x), 3, rows);
  value *sums = emit_binary_float(im, "mul", emit_pool(im, "avg", squares, &window, true, NULL),
                                  alpha * (double)(2 * radius + 1));
  value *base = emit_binary_float(im, "add", emit_reshape(im, sums, x->rank, x->dims), bias);
  tflite_set(op, 0, emit_binary(im, "mul", x, emit_binary_float(im, "pow", base, -beta)));
}

void tflite_cumsum(operation *op) {
  importer *im = op->im;
  value *x = tflite_required(op, 0);
  int axes[CLAVE_MAX_RANK];
  number before[CLAVE_MAX_RANK], after[CLAVE_MAX_RANK];
  if (!x) return;
  if (tflite_axes(op, 1, x->rank, axes) != 1 || !import_ok(im)) return;
  const bool reverse = flat_bool(&op->options, 1);
  if (reverse) x = emit_flip(im, x, axes[0]);
  if (x && flat_bool(&op->options, 0)) { /* exclusive */
    for (int d = 0; d < x->rank; d++) before[d] = after[d] = number_int(0);
    const number size = x->dims[axes[0]];
    before[axes[0]] = number_int(1);
    x = emit_slice(im, emit_pad(im, x, before, after, "constant", 0), axes[0], number_int(0), size);
    if (x) x->dims[axes[0]] = size;
  }
  value *out = emit_cumulate(im, "sum", x, axes[0]);
  tflite_set(op, 0, reverse ? emit_flip(im, out, axes[0]) : out);
}
