/* Ops that read by indices: Gather, GatherElements, GatherND, OneHot, Compress, NonZero,
 * ReverseSequence. Negative indices count from the end. */
#include "import/onnx/index.h"
#include "base/dtype.h"
#include "import/emit_index.h"
#include "import/onnx/converters.h"

void onnx_gather(node *node) {
  value *x = node_required(node, 0), *index = node_required(node, 1);
  if (!x || !index) return;
  const int axis = emit_axis(node->im, node_int(node, "axis", 0), x->rank);
  if (!import_ok(node->im)) return;
  value *wrapped = emit_wrap_index(node->im, index, x->dims[axis]);
  node_set(node, 0, emit_index_select(node->im, x, axis, wrapped));
}

void onnx_gather_elements(node *node) {
  value *x = node_required(node, 0), *index = node_required(node, 1);
  if (!x || !index) return;
  const int axis = emit_axis(node->im, node_int(node, "axis", 0), x->rank);
  if (index->rank != x->rank) import_invalid(node->im, "the ranks of input and indices differ");
  if (!import_ok(node->im)) return;
  value *wrapped = emit_wrap_index(node->im, index, x->dims[axis]);
  node_set(node, 0, emit_gather(node->im, x, axis, wrapped));
}

int onnx_index_tuple(node *node, value *index, int64_t max, value **parts) {
  const int last = index->rank - 1;
  if (last < 0) import_invalid(node->im, "the indices have rank 0");
  if (last >= 0 && index->dims[last].id)
    import_unsupported(node->im, "the last dimension of the indices is open");
  if (!import_ok(node->im)) return 0;
  const int64_t n = index->dims[last].i;
  if (n < 1) import_unsupported(node->im, "index tuples of length 0");
  if (n > max) import_invalid(node->im, "index tuples of length %lld", (long long)n);
  for (int i = 0; i < n && import_ok(node->im); i++)
    parts[i] = emit_select(node->im, index, last, number_int(i));
  return import_ok(node->im) ? (int)n : 0;
}

void onnx_gather_nd(node *node) {
  value *x = node_required(node, 0), *index = node_required(node, 1), *parts[CLAVE_MAX_RANK];
  const int64_t batch = node_int(node, "batch_dims", 0);
  if (!x || !index) return;
  if (batch < 0 || batch >= x->rank || batch >= index->rank) {
    import_invalid(node->im, "batch_dims is %lld", (long long)batch);
    return;
  }
  for (int d = 0; d < batch; d++)
    parts[d] = emit_positions(node->im, x->dims[d], d, index->rank - 1);
  const int n = onnx_index_tuple(node, index, x->rank - batch, parts + batch);
  if (n) node_set(node, 0, emit_index(node->im, x, parts, (int)batch + n));
}

void onnx_array_feature_extractor(node *node) {
  value *x = node_required(node, 0), *index = node_required(node, 1);
  if (!x || !index) return;
  const number n = value_numel(node->im, index);
  if (x->rank < 1) import_invalid(node->im, "the input has rank 0");
  value *list = emit_reshape(node->im, index, 1, &n);
  value *out = import_ok(node->im) ? emit_index_select(node->im, x, x->rank - 1, list) : NULL;
  node_set(node, 0, out && out->rank == 1 ? emit_unsqueeze(node->im, out, 0) : out);
}

/* ---------------------------------------------------------------- OneHot */

static bool index_is_unsigned(clave_dtype type) {
  return type == CLAVE_U8 || type == CLAVE_U16 || type == CLAVE_U32 || type == CLAVE_U64;
}

/* True where an index has the number of its class along a new dimension at `axis`. Up to version 10
 * a negative index is out of range. */
static value *index_one_hot_mask(node *node, value *index, int axis, number depth) {
  importer *im = node->im;
  value *classes = emit_positions(im, depth, axis, index->rank + 1);
  const bool wraps = node->version >= 11 && !index_is_unsigned(index->type);
  index = emit_cast(im, index, CLAVE_I64);
  if (wraps) index = emit_wrap_index(im, index, depth);
  return emit_binary(im, "eq", emit_unsqueeze(im, index, axis), classes);
}

void onnx_one_hot(node *node) {
  importer *im = node->im;
  value *index = node_required(node, 0), *values = node_required(node, 2);
  number depth = value_scalar(im, node_required(node, 1), "depth");
  if (!index || !values) return;
  const int axis = emit_axis(im, node_int(node, "axis", -1), index->rank + 1);
  if (values->rank != 1 || (!values->dims[0].id && values->dims[0].i != 2))
    import_invalid(im, "expected two values");
  depth = number_to_int(im, depth);
  if (!import_ok(im)) return;
  depth.no_sign = true;
  value *mask = index_one_hot_mask(node, index, axis, depth);
  node_set(node, 0,
           emit_where(im, mask, emit_select(im, values, 0, number_int(1)),
                      emit_select(im, values, 0, number_int(0))));
}

/* ---------------------------------------------------------------- elements that data select */

void onnx_compress(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0), *condition = node_required(node, 1);
  const bool whole = !node_has(node, "axis");
  number count;
  if (!x || !condition) return;
  if (condition->rank != 1) import_invalid(im, "the condition has rank %d", condition->rank);
  const number n = value_numel(im, x);
  if (whole) x = emit_reshape(im, x, 1, &n);
  const int axis = x && !whole ? emit_axis(im, node_int(node, "axis", 0), x->rank) : 0;
  node_set(node, 0, emit_index_select(im, x, axis, emit_true_indices(im, condition, &count)));
}

void onnx_nonzero(node *node) {
  value *x = node_required(node, 0);
  const number one = number_int(1);
  number count;
  if (x && x->rank == 0) x = emit_reshape(node->im, x, 1, &one);
  value *found = emit_nonzero(node->im, x, &count);
  if (found) node_set(node, 0, emit_transpose(node->im, found, 0, 1));
}

/* ---------------------------------------------------------------- ReverseSequence */

void onnx_reverse_sequence(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0), *lengths = node_required(node, 1);
  const int64_t batch = node_int(node, "batch_axis", 1), time = node_int(node, "time_axis", 0);
  if (!x || !lengths) return;
  if (batch < 0 || batch > 1 || time != 1 - batch || x->rank < 2 || lengths->rank != 1) {
    import_invalid(im, "axes %lld and %lld of rank %d, lengths of rank %d", (long long)batch,
                   (long long)time, x->rank, lengths->rank);
    return;
  }
  value *at = emit_positions(im, x->dims[time], (int)time, 2);
  value *length = emit_unsqueeze(im, emit_cast(im, lengths, CLAVE_I64), (int)time);
  value *mirrored =
      emit_binary(im, "sub", emit_binary_number(im, "sub", length, number_int(1)), at);
  value *parts[2];
  parts[time] = emit_where(im, emit_binary(im, "lt", at, length), mirrored, at);
  parts[batch] = emit_positions(im, x->dims[batch], (int)batch, 2);
  node_set(node, 0, emit_index(im, x, parts, 2));
}
