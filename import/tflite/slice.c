/* Ops that select parts of tensors, or join them. */
#include "import/tflite/converters.h"

enum { MAX_PARTS = 4096 };

void tflite_slice(operation *op) {
  importer *im = op->im;
  value *x = tflite_required(op, 0);
  number begin[CLAVE_MAX_RANK], size[CLAVE_MAX_RANK];
  const int n = tflite_sizes(op, 1, "begin", begin), n_sizes = tflite_sizes(op, 2, "size", size);
  if (!x || !import_ok(im)) return;
  if (n != x->rank || n_sizes != n) import_invalid(im, "begin and size do not fit the rank");
  for (int d = 0; d < n && import_ok(im); d++) {
    const int axis = tflite_dim(op, d);
    const bool to_end = number_is(size[d], -1);
    if (size[d].id && !size[d].no_sign) import_unsupported(im, "a computed size, which may be -1");
    const number end = to_end ? x->dims[axis] : number_add(im, begin[d], size[d]);
    if (!import_ok(im)) return;
    if (!end.id && !begin[d].id && !x->dims[axis].id &&
        (begin[d].i < 0 || end.i > x->dims[axis].i || end.i < begin[d].i))
      import_invalid(im, "elements %lld to %lld of %lld", (long long)begin[d].i, (long long)end.i,
                     (long long)x->dims[axis].i);
    value *part = emit_slice(im, x, axis, begin[d], end);
    if (part && part != x && !to_end) part->dims[axis] = size[d];
    x = part;
  }
  tflite_set(op, 0, x);
}

/* ---------------------------------------------------------------- strided slices */

typedef struct strided {
  number begin[CLAVE_MAX_RANK], end[CLAVE_MAX_RANK];
  int64_t stride[CLAVE_MAX_RANK];
  int64_t begin_mask, end_mask, ellipsis, new_axis, shrink;
  bool is_offset; /* ends count from begins */
  int n;
} strided;

static number slice_clamp(importer *im, number index, number low, number high) {
  return number_min(im, number_max(im, index, low), high);
}

/* Returns an index, which may count from the end, within [low, high]. */
static number absolute(importer *im, number index, number size, number low, number high) {
  const number negative = number_compute(im, NUMBER_LT, index, number_int(0));
  return slice_clamp(im, number_where(im, negative, number_add(im, index, size), index), low, high);
}

static value *strided_axis(importer *im, value *input, int axis, const strided *slice, int i) {
  if (!input || !import_ok(im)) return NULL;
  const number size = input->dims[axis], zero = number_int(0), one = number_int(1);
  const int64_t stride = slice->stride[i];
  const bool all_before = slice->begin_mask >> i & 1, all_after = slice->end_mask >> i & 1;
  const number last = number_sub(im, size, one);
  number begin = slice->begin[i], end = slice->end[i];
  if (stride > 0)
    begin = all_before ? zero : absolute(im, begin, size, zero, size);
  else
    begin = all_before ? last : absolute(im, begin, size, number_int(-1), last);
  if (slice->is_offset) end = number_add(im, begin, end);
  if (stride > 0) {
    end = all_after ? size : absolute(im, end, size, zero, size);
    return emit_slice_step(im, input, axis, begin, end, stride);
  }
  /* on the reversed axis, where i becomes last - i */
  end = all_after ? number_int(-1) : absolute(im, end, size, number_int(-1), last);
  return emit_slice_step(im, emit_flip(im, input, axis), axis, number_sub(im, last, begin),
                         number_sub(im, last, end), -stride);
}

/* Returns the index of an axis that is left out. Unlike in TensorFlow, masks apply to it. */
static number single_index(importer *im, number size, const strided *slice, int i) {
  const number last = number_sub(im, size, number_int(1));
  if (slice->begin_mask >> i & 1) return slice->stride[i] > 0 ? number_int(0) : last;
  return absolute(im, slice->begin[i], size, number_int(0), last);
}

static bool read_strided(operation *op, strided *slice) {
  slice->n = tflite_sizes(op, 1, "begin", slice->begin);
  const int n_ends = tflite_sizes(op, 2, "end", slice->end);
  const int n_strides = value_constant_ints(op->im, tflite_parameter(op, 3), "strides",
                                            slice->stride, CLAVE_MAX_RANK);
  int64_t *const masks[] = {&slice->begin_mask, &slice->end_mask, &slice->ellipsis,
                            &slice->new_axis, &slice->shrink};
  for (int i = 0; i < 5; i++) *masks[i] = flat_int(&op->options, i, 4, 0);
  slice->is_offset = flat_bool(&op->options, 5);
  if (!import_ok(op->im)) return false;
  if (n_ends != slice->n || n_strides != slice->n)
    import_invalid(op->im, "begin, end and strides have different lengths");
  for (int i = 0; i < slice->n; i++)
    if (slice->stride[i] == 0 || slice->stride[i] < -INT32_MAX)
      import_invalid(op->im, "a stride of %lld", (long long)slice->stride[i]);
  return import_ok(op->im);
}

/* The rank of x without entries for an ellipsis and new axes. */
static int plain_entries(const strided *slice, int from) {
  int n = 0;
  for (int i = from; i < slice->n; i++)
    n += !(slice->new_axis >> i & 1) && !(slice->ellipsis >> i & 1);
  return n;
}

void tflite_strided_slice(operation *op) {
  importer *im = op->im;
  value *x = tflite_required(op, 0);
  strided slice;
  if (!x || !read_strided(op, &slice)) return;
  if (plain_entries(&slice, 0) > x->rank) import_invalid(im, "more indices than dimensions");
  int axis = 0;
  for (int i = 0; i < slice.n && x && import_ok(im); i++) {
    if (slice.ellipsis >> i & 1) {
      axis = x->rank - plain_entries(&slice, i + 1);
    } else if (slice.new_axis >> i & 1) {
      x = emit_unsqueeze(im, x, axis++);
    } else if (slice.shrink >> i & 1) {
      x = emit_select(im, x, axis, single_index(im, x->dims[axis], &slice, i));
    } else {
      x = strided_axis(im, x, axis++, &slice, i);
    }
  }
  tflite_set_last(op, 0, x);
}

/* ---------------------------------------------------------------- splits */

/* Splits input into parts of these sizes. */
static void split_parts_of(operation *op, value *input, int axis, const number *sizes) {
  number at = number_int(0);
  for (int i = 0; i < op->n_outputs && input && import_ok(op->im); i++) {
    const number end = number_add(op->im, at, sizes[i]);
    value *part = emit_slice(op->im, input, axis, at, end);
    if (part && part != input) part->dims[axis] = sizes[i];
    tflite_set(op, i, part);
    at = end;
  }
}

static int split_axis(operation *op, int i) {
  int64_t axis = 0;
  (void)value_constant_ints(op->im, tflite_parameter(op, i), "axis", &axis, 1);
  return import_ok(op->im) ? tflite_axis(op, axis) : 0;
}

/* Equal parts; the axis is the first input. */
void tflite_split(operation *op) {
  importer *im = op->im;
  value *x = tflite_required(op, 1);
  const int axis = split_axis(op, 0);
  number sizes[MAX_PARTS];
  if (!x || !import_ok(im)) return;
  const number size = x->dims[axis];
  if (op->n_outputs > MAX_PARTS || op->n_outputs == 0)
    import_unsupported(im, "%d parts", op->n_outputs);
  else if (!size.id && size.i % op->n_outputs)
    import_invalid(im, "%lld elements in %d equal parts", (long long)size.i, op->n_outputs);
  if (!import_ok(im)) return;
  for (int i = 0; i < op->n_outputs; i++)
    sizes[i] = number_floor_div(im, size, number_int(op->n_outputs));
  split_parts_of(op, x, axis, sizes);
}

/* Parts of given sizes, one of which may be -1. */
void tflite_split_v(operation *op) {
  importer *im = op->im;
  value *x = tflite_required(op, 0), *list = tflite_parameter(op, 1);
  int64_t given[MAX_PARTS];
  number sizes[MAX_PARTS], rest;
  const int axis = split_axis(op, 2), n = value_constant_ints(im, list, "sizes", given, MAX_PARTS);
  if (!x || !import_ok(im)) return;
  if (n != op->n_outputs) import_invalid(im, "%d sizes for %d parts", n, op->n_outputs);
  rest = x->dims[axis];
  for (int i = 0; i < n; i++)
    if (given[i] >= 0) rest = number_sub(im, rest, number_int(given[i]));
  for (int i = 0; i < n; i++) sizes[i] = given[i] >= 0 ? number_int(given[i]) : rest;
  split_parts_of(op, x, axis, sizes);
}

void tflite_unpack(operation *op) {
  value *x = tflite_required(op, 0);
  if (!x) return;
  const int axis = emit_axis(op->im, flat_int(&op->options, 1, 4, 0), x->rank);
  if (import_ok(op->im) && !x->dims[axis].id && x->dims[axis].i != op->n_outputs)
    import_invalid(op->im, "%lld elements in %d results", (long long)x->dims[axis].i,
                   op->n_outputs);
  for (int i = 0; i < op->n_outputs && import_ok(op->im); i++)
    tflite_set(op, i, emit_select(op->im, x, axis, number_int(i)));
}

/* ---------------------------------------------------------------- joins */

void tflite_concatenation(operation *op) {
  value **xs = import_alloc(op->im, (size_t)op->n_inputs, sizeof *xs);
  for (int i = 0; xs && i < op->n_inputs; i++) xs[i] = tflite_required(op, i);
  if (!xs || !op->n_inputs || !import_ok(op->im)) return;
  op->rank = xs[0]->rank;
  const int axis = tflite_axis(op, flat_int(&op->options, 0, 4, 0));
  value *out = emit_cat(op->im, xs, op->n_inputs, axis);
  tflite_set(op, 0, tflite_activated(op, out, 1));
}

void tflite_pack(operation *op) {
  value **xs = import_alloc(op->im, (size_t)op->n_inputs, sizeof *xs);
  const int64_t given = flat_int(&op->options, 1, 4, 0);
  for (int i = 0; xs && i < op->n_inputs; i++) xs[i] = tflite_required(op, i);
  if (!xs || !op->n_inputs || !import_ok(op->im)) return;
  const int axis = emit_axis(op->im, given, xs[0]->rank + 1);
  for (int i = 0; i < op->n_inputs; i++) xs[i] = emit_unsqueeze(op->im, xs[i], axis);
  tflite_set(op, 0, emit_cat(op->im, xs, op->n_inputs, axis));
}

void tflite_reverse(operation *op) {
  value *x = tflite_required(op, 0);
  int axes[CLAVE_MAX_RANK];
  if (!x) return;
  const int n = tflite_axes(op, 1, x->rank, axes);
  for (int i = 0; i < n; i++) x = emit_flip(op->im, x, tflite_dim(op, axes[i]));
  tflite_set(op, 0, x);
}
