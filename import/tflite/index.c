/* Ops that read or write by indices, and sorting. */
#include <string.h>

#include "base/dtype.h"
#include "import/tflite/converters.h"

/* The first `batch` dimensions of input and the index are the same. input is viewed as (batch,
 * before, size, after), and the index as (batch, n). */
static value *gather_batch(importer *im, value *input, value *index, int axis, int batch) {
  number parts[4] = {number_int(1), number_int(1), input->dims[axis], number_int(1)};
  number dims[2 * CLAVE_MAX_RANK], rows[4], n = number_int(1);
  int rank = 0;
  for (int d = 0; d < input->rank; d++) {
    const int part = d < batch ? 0 : d < axis ? 1 : 3;
    if (d != axis) parts[part] = number_mul(im, parts[part], input->dims[d]);
  }
  for (int d = 0; d < axis; d++) dims[rank++] = input->dims[d];
  for (int d = batch; d < index->rank; d++) {
    dims[rank++] = index->dims[d];
    n = number_mul(im, n, index->dims[d]);
  }
  for (int d = axis + 1; d < input->rank; d++) dims[rank++] = input->dims[d];
  for (int d = 0; d < 4; d++) rows[d] = d == 0 ? parts[0] : d == 2 ? n : number_int(1);
  value *wide = emit_reshape(im, emit_cast(im, index, CLAVE_I64), 4, rows);
  for (int d = 0; d < 4; d++) rows[d] = d == 2 ? n : parts[d];
  wide = emit_expand(im, wide, 4, rows);
  return emit_reshape(im, emit_gather(im, emit_reshape(im, input, 4, parts), 2, wide), rank, dims);
}

void tflite_gather(operation *op) {
  importer *im = op->im;
  value *x = tflite_required(op, 0), *index = tflite_parameter(op, 1);
  int64_t batch = flat_int(&op->options, 1, 4, 0);
  if (!x || !index || !import_ok(im)) return;
  if (batch < 0) batch += index->rank;
  const int axis = emit_axis(im, flat_int(&op->options, 0, 4, 0), x->rank);
  if (index->type != CLAVE_I64 && index->type != CLAVE_I32) index = emit_cast(im, index, CLAVE_I32);
  if (batch < 0 || batch > axis || (index && batch > index->rank))
    import_invalid(im, "batch_dims = %lld with axis %d", (long long)batch, axis);
  if (!index || !import_ok(im)) return;
  tflite_set(
      op, 0,
      batch ? gather_batch(im, x, index, axis, (int)batch) : emit_index_select(im, x, axis, index));
}

void tflite_embedding_lookup(operation *op) {
  value *index = tflite_parameter(op, 0), *table = tflite_required(op, 1);
  if (index && table) tflite_set(op, 0, emit_index_select(op->im, table, 0, index));
}

/* Splits the last dimension of an index into one index for each of `n` dimensions. */
static bool split_coordinates(importer *im, value *index, int n, value **out) {
  for (int i = 0; i < n; i++) {
    out[i] = emit_select(im, index, index->rank - 1, number_int(i));
    if (!out[i]) return false;
  }
  return true;
}

/* Returns the number of coordinates in the last dimension of an index. */
static int index_width(importer *im, const value *index, int most) {
  if (!index || !import_ok(im)) return 0;
  if (index->rank < 1 || index->dims[index->rank - 1].id) {
    import_unsupported(im, "indices of an open number of coordinates");
    return 0;
  }
  const int64_t n = index->dims[index->rank - 1].i;
  if (n > most) import_invalid(im, "%lld coordinates for rank %d", (long long)n, most);
  if (n == 0) import_unsupported(im, "indices without coordinates");
  return import_ok(im) ? (int)n : 0;
}

void tflite_gather_nd(operation *op) {
  value *x = tflite_required(op, 0), *index = tflite_parameter(op, 1), *parts[CLAVE_MAX_RANK];
  if (!x) return;
  const int n = index_width(op->im, index, x->rank);
  if (n && split_coordinates(op->im, index, n, parts))
    tflite_set(op, 0, emit_index(op->im, x, parts, n));
}

/* Adds updates at positions of zeros. Inputs: indices (..., n), updates, shape. */
void tflite_scatter_nd(operation *op) {
  importer *im = op->im;
  value *index = tflite_parameter(op, 0), *updates = tflite_required(op, 1), *flat = NULL;
  number dims[CLAVE_MAX_RANK], rows = number_int(1), length = number_int(1);
  const int rank = tflite_sizes(op, 2, "shape", dims);
  if (!updates || !import_ok(im)) return;
  const int n = index_width(im, index, rank);
  if (!n) return;
  for (int d = 0; d < rank; d++)
    *(d < n ? &rows : &length) = number_mul(im, d < n ? rows : length, dims[d]);
  for (int i = 0; i < n; i++) {
    value *part = emit_cast(im, emit_select(im, index, index->rank - 1, number_int(i)), CLAVE_I64);
    value *size = value_of_number(im, CLAVE_I64, dims[i]);
    flat = i ? emit_binary(im, "add", emit_binary(im, "mul", flat, size), part) : part;
  }
  if (!flat) return;
  const number count = value_numel(im, flat), wide[] = {count, length}, table[] = {rows, length};
  const number column[] = {count, number_int(1)};
  value *at = emit_expand(im, emit_reshape(im, flat, 2, column), 2, wide);
  value *zeros = emit_full(im, updates->type, 2, table, number_int(0));
  value *out = emit_scatter(im, "add", zeros, 0, at ? emit_copy(im, at) : NULL,
                            emit_reshape(im, updates, 2, wide));
  tflite_set(op, 0, emit_reshape(im, out, rank, dims));
}

/* Inputs: indices, depth, the value at the index, the others'. */
void tflite_one_hot(operation *op) {
  importer *im = op->im;
  value *index = tflite_parameter(op, 0), *on = tflite_required(op, 2),
        *off = tflite_required(op, 3);
  const number depth = value_scalar(im, tflite_parameter(op, 1), "depth");
  if (!index || !on || !off || !import_ok(im)) return;
  const int64_t given = flat_int(&op->options, 0, 4, 0);
  const int axis = given == -1 ? index->rank : emit_axis(im, given, index->rank + 1);
  number dims[CLAVE_MAX_RANK];
  for (int d = 0; d <= index->rank && d < CLAVE_MAX_RANK; d++)
    dims[d] = d == axis ? depth : number_int(1);
  value *classes = emit_arange(im, index->type, number_int(0), number_int(1), depth);
  classes = emit_reshape(im, classes, index->rank + 1, dims);
  value *same = emit_binary(im, "eq", emit_unsqueeze(im, index, axis), classes);
  on = emit_reshape(im, on, 0, NULL);
  tflite_set(op, 0, emit_where(im, same, on, emit_reshape(im, off, 0, NULL)));
}

void tflite_topk(operation *op) {
  importer *im = op->im;
  value *x = tflite_required(op, 0), *indices = NULL;
  const number k = value_scalar(im, tflite_parameter(op, 1), "k");
  const operand *out = tflite_result(op, 1);
  if (!x || !out || !import_ok(im)) return;
  if (x->rank == 0) import_invalid(im, "rank 0");
  if (!import_ok(im)) return;
  tflite_set(op, 0, emit_sort(im, x, x->rank - 1, k, true, &indices));
  tflite_set(op, 1, emit_cast(im, indices, out->dtype));
}

/* The coordinates of true elements: their number is not known before the run. */
void tflite_where(operation *op) {
  importer *im = op->im;
  value *x = tflite_required(op, 0);
  if (!x || !emit_prepare(im, x)) return;
  if (x->rank == 0) {
    import_unsupported(im, "rank 0");
    return;
  }
  const number dims[] = {value_numel(im, x), number_int(x->rank)};
  value *all = emit_begin(im, "Nonzero", CLAVE_I64, 2, dims);
  if (!all) return;
  emit_set_tensor(im, "x", x);
  value *count = emit_result(im, "count", CLAVE_I64, 0, NULL);
  number n = value_scalar(im, count, "the number of elements");
  n.no_sign = true;
  value *out = emit_slice(im, all, 0, number_int(0), n);
  if (out && out != all) out->dims[0] = n;
  tflite_set(op, 0, out);
}

void tflite_dynamic_update_slice(operation *op) {
  importer *im = op->im;
  value *x = tflite_required(op, 0), *update = tflite_required(op, 1);
  number start[CLAVE_MAX_RANK];
  const int n = tflite_sizes(op, 2, "start", start);
  if (!x || !update || !import_ok(im)) return;
  if (n != x->rank || update->rank != n) import_invalid(im, "%d starts for rank %d", n, x->rank);
  int axis = -1;
  for (int d = 0; d < n; d++) {
    if (number_is_same(x->dims[d], update->dims[d])) continue;
    if (axis >= 0) import_unsupported(im, "an update that is smaller along several axes");
    axis = d;
  }
  if (!import_ok(im)) return;
  if (axis < 0) {
    tflite_set(op, 0, update);
    return;
  }
  const number last = number_sub(im, x->dims[axis], update->dims[axis]);
  const number at = number_max(im, number_min(im, start[axis], last), number_int(0));
  tflite_set(op, 0, emit_slice_update(im, x, update, axis, at));
}
