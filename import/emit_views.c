/* Views: the same elements with another shape. Elements that are known at import are moved there.
 */
#include "import/coded.h"
#include "import/emit.h"

value *emit_begin(importer *im, const char *op, clave_dtype type, int rank, const number *dims) {
  if (!import_ok(im)) return NULL;
  clave_builder_op(im->builder, op, im->node);
  return emit_result(im, "out", type, rank, dims);
}

/* Adds a tensor of this kind to the program. */
static value *declare_tensor(importer *im, clave_slot_kind kind, const char *name, clave_dtype type,
                             int rank, const number *dims) {
  value *out = value_new(im, type, rank, dims);
  int64_t sizes[CLAVE_MAX_RANK];
  clave_id values[CLAVE_MAX_RANK];
  if (!out) return NULL;
  for (int i = 0; i < rank; i++) {
    sizes[i] = dims[i].i;
    values[i] = dims[i].id;
  }
  out->tensor = clave_builder_tensor(im->builder, kind, name, type, rank, sizes, values);
  return out;
}

value *emit_declare(importer *im, clave_dtype type, int rank, const number *dims) {
  value *out = declare_tensor(im, CLAVE_SLOT_TEMPORARY, "", type, rank, dims);
  if (out) out->scope = import_scope(im);
  return out;
}

value *emit_input(importer *im, const char *name, clave_dtype type, int rank, const number *dims) {
  value *input = declare_tensor(im, CLAVE_SLOT_INPUT, name, type, rank, dims);
  if (input) clave_builder_input(im->builder, name, input->tensor);
  return input;
}

value *emit_state(importer *im, const char *name, clave_dtype type, int rank, const number *dims) {
  return declare_tensor(im, CLAVE_SLOT_STATE, name, type, rank, dims);
}

value *emit_begin_move(importer *im, const char *op, const value *input, int rank,
                       const number *dims) {
  value *out = emit_begin(im, op, input->type, rank, dims);
  if (out) out->bits = input->bits;
  emit_set_tensor(im, "x", input);
  return out;
}

value *emit_result(importer *im, const char *field, clave_dtype type, int rank,
                   const number *dims) {
  value *out = emit_declare(im, type, rank, dims);
  if (out) clave_builder_set_tensor(im->builder, field, out->tensor);
  return out;
}

void emit_set_tensor(importer *im, const char *field, const value *input) {
  if (input && import_ok(im)) clave_builder_set_tensor(im->builder, field, input->tensor);
}

void emit_set_number(importer *im, const char *field, number a) {
  if (!import_ok(im)) return;
  if (a.id)
    clave_builder_set_value(im->builder, field, a.id);
  else if (a.type == NUMBER_FLOAT)
    clave_builder_set_float(im->builder, field, a.f);
  else
    clave_builder_set_int(im->builder, field, a.i);
}

void emit_set_sizes(importer *im, const char *field, const number *sizes, int n) {
  int64_t literals[CLAVE_MAX_RANK];
  clave_id values[CLAVE_MAX_RANK];
  if (!import_ok(im)) return;
  for (int i = 0; i < n; i++) {
    literals[i] = sizes[i].i;
    values[i] = sizes[i].id;
  }
  clave_builder_set_sizes(im->builder, field, literals, values, (uint32_t)n);
}

void emit_set_ints(importer *im, const char *field, const int64_t *ints, int n) {
  int32_t narrow[2 * CLAVE_MAX_RANK];
  if (!import_ok(im)) return;
  for (int i = 0; i < n && i < 2 * CLAVE_MAX_RANK; i++) {
    narrow[i] = (int32_t)ints[i];
    if (narrow[i] != ints[i]) import_invalid(im, "%s is %lld", field, (long long)ints[i]);
  }
  clave_builder_set_ints(im->builder, field, narrow, (uint32_t)n);
}

void emit_check(importer *im, number_kind kind, number a, number b, const char *message) {
  static const char *const names[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  if (!import_ok(im) || number_is_same(a, b)) {
    if (kind == NUMBER_NE || kind == NUMBER_LT || kind == NUMBER_GT)
      import_invalid(im, "%s", message);
    return;
  }
  if (!a.id && !b.id) {
    if (!number_compute(im, kind, a, b).i) import_invalid(im, "%s", message);
    return;
  }
  clave_builder_op(im->builder, "Check", im->node);
  clave_builder_set_text(im->builder, "kind", names[kind - NUMBER_EQ]);
  emit_set_number(im, "a", a);
  emit_set_number(im, "b", b);
  clave_builder_set_text(im->builder, "message", message);
}

bool emit_prepare(importer *im, value *input) {
  return input && value_tensor(im, input) && import_ok(im);
}

int emit_axis(importer *im, int64_t axis, int rank) {
  const int64_t from_start = axis < 0 ? axis + rank : axis;
  if (from_start >= 0 && from_start < rank) return (int)from_start;
  import_invalid(im, "axis %lld is out of range for rank %d", (long long)axis, rank);
  return 0;
}

/* ---------------------------------------------------------------- moves of known elements */

/* Returns a value of this shape whose element i is the element from[i] of input; NULL after an
 * error. */
static value *moved(importer *im, const value *input, int rank, const number *dims,
                    const int64_t *from, int64_t n) {
  int64_t sizes[CLAVE_MAX_RANK];
  number *elements = import_alloc(im, (size_t)n + 1, sizeof *elements);
  for (int d = 0; d < rank; d++) sizes[d] = dims[d].i;
  for (int64_t i = 0; elements && i < n; i++) elements[i] = input->elements[from[i]];
  value *out = elements ? value_numbers(im, input->type, rank, sizes, elements) : NULL;
  if (out) out->bits = input->bits;
  return out;
}

/* Does the same for a view of input by strides: element (i0, i1, ...) is input's element offset +
 * the sum of i * stride. Sets *done if the elements of input are known and few. */
static value *view_known(importer *im, value *input, int rank, const number *dims,
                         const int64_t *strides, int64_t offset, bool *done) {
  int64_t n = 1, index[CLAVE_MAX_RANK] = {0};
  *done = false;
  if (!value_known(im, input)) return NULL;
  for (int d = 0; d < rank; d++) {
    if (dims[d].id || dims[d].i < 0 || dims[d].i > MAX_ELEMENTS) return NULL;
    n *= dims[d].i;
    if (n > MAX_ELEMENTS) return NULL;
  }
  int64_t *from = import_alloc(im, (size_t)n + 1, sizeof *from);
  *done = true;
  for (int64_t i = 0; from && i < n; i++) {
    from[i] = offset;
    for (int d = 0; d < rank; d++) from[i] += index[d] * strides[d];
    for (int d = rank - 1; d >= 0 && ++index[d] == dims[d].i; d--) index[d] = 0;
  }
  return from ? moved(im, input, rank, dims, from, n) : NULL;
}

/* Sets the strides of input's contiguous elements. The sizes are constant if the elements are
 * known. */
static void strides_of(const value *input, int64_t *strides) {
  int64_t stride = 1;
  for (int d = input->rank - 1; d >= 0; d--) {
    strides[d] = stride;
    stride *= input->dims[d].i;
  }
}

/* ---------------------------------------------------------------- views */

value *emit_reshape(importer *im, value *input, int rank, const number *dims) {
  if (!input || !import_ok(im)) return NULL;
  value *out = value_new(im, input->type, rank, dims);
  if (!out || value_is_same_shape(input, out)) return out ? input : NULL;
  out->bits = input->bits;
  const int64_t before = value_count(input), after = value_count(out);
  if (before >= 0 && after >= 0 && before != after) {
    import_invalid(im, "%lld elements do not fit a shape of %lld", (long long)before,
                   (long long)after);
    return NULL;
  }
  if (after >= 0 && (input->data || input->elements)) {
    out->data = input->data;
    out->elements = input->elements;
    if (input->data && input->name[0])
      out->name = import_text(im, "%s#%u", input->name, im->n_names++);
    return out;
  }
  if (!emit_prepare(im, input)) return NULL;
  out = emit_begin_move(im, "Reshape", input, rank, dims);
  emit_set_sizes(im, "shape", dims, rank);
  return out;
}

value *emit_permute(importer *im, value *input, const int *order) {
  number dims[CLAVE_MAX_RANK];
  int64_t from[CLAVE_MAX_RANK], strides[CLAVE_MAX_RANK], axes[CLAVE_MAX_RANK];
  bool done, same = true;
  if (!input || !import_ok(im)) return NULL;
  strides_of(input, from);
  for (int d = 0; d < input->rank; d++) {
    dims[d] = input->dims[order[d]];
    strides[d] = from[order[d]];
    axes[d] = order[d];
    same = same && order[d] == d;
  }
  if (same) return input;
  if (input->coded && input->rank == 2) return coded_transpose(im, input);
  value *out = view_known(im, input, input->rank, dims, strides, 0, &done);
  if (done || !emit_prepare(im, input)) return out;
  out = emit_begin_move(im, "Permute", input, input->rank, dims);
  emit_set_ints(im, "dims", axes, input->rank);
  return out;
}

value *emit_transpose(importer *im, value *input, int axis, int other) {
  int order[CLAVE_MAX_RANK];
  if (!input) return NULL;
  for (int d = 0; d < input->rank; d++) order[d] = d == axis ? other : d == other ? axis : d;
  return emit_permute(im, input, order);
}

value *emit_expand(importer *im, value *input, int rank, const number *dims) {
  int64_t from[CLAVE_MAX_RANK], strides[CLAVE_MAX_RANK];
  bool done;
  if (!input || !import_ok(im)) return NULL;
  value *want = value_new(im, input->type, rank, dims);
  if (!want || value_is_same_shape(input, want)) return want ? input : NULL;
  strides_of(input, from);
  for (int d = 0; d < rank; d++) {
    const int own = d - (rank - input->rank);
    strides[d] = own < 0 || number_is(input->dims[own], 1) ? 0 : from[own];
  }
  value *out = view_known(im, input, rank, dims, strides, 0, &done);
  if (done || !emit_prepare(im, input)) return out;
  out = emit_begin_move(im, "Expand", input, rank, dims);
  emit_set_sizes(im, "shape", dims, rank);
  return out;
}

value *emit_unsqueeze(importer *im, value *input, int axis) {
  number dims[CLAVE_MAX_RANK + 1];
  if (!input) return NULL;
  for (int d = 0; d <= input->rank; d++)
    dims[d] = d == axis ? number_int(1) : input->dims[d - (d > axis)];
  return emit_reshape(im, input, input->rank + 1, dims);
}

value *emit_squeeze(importer *im, value *input, int axis) {
  number dims[CLAVE_MAX_RANK];
  if (!input) return NULL;
  for (int d = 0; d < input->rank - 1; d++) dims[d] = input->dims[d + (d >= axis)];
  return emit_reshape(im, input, input->rank - 1, dims);
}

value *emit_slice_step(importer *im, value *input, int axis, number start, number stop,
                       int64_t step) {
  number dims[CLAVE_MAX_RANK];
  int64_t strides[CLAVE_MAX_RANK];
  bool done = false;
  if (!input || !import_ok(im)) return NULL;
  if (number_is(start, 0) && number_is_same(stop, input->dims[axis]) && step == 1) return input;
  const number size = input->dims[axis];
  if (!size.id && ((!start.id && (start.i < 0 || start.i > size.i)) ||
                   (!stop.id && (stop.i < 0 || stop.i > size.i)))) {
    import_invalid(im, "elements %lld to %lld of an axis of size %lld", (long long)start.i,
                   (long long)stop.i, (long long)size.i);
    return NULL;
  }
  for (int d = 0; d < input->rank; d++) dims[d] = input->dims[d];
  if ((!start.id && start.i < 0) || (!stop.id && stop.i < 0) ||
      (!dims[axis].id &&
       ((!start.id && start.i > dims[axis].i) || (!stop.id && stop.i > dims[axis].i)))) {
    import_invalid(im, "elements %lld to %lld of axis %d are out of range", (long long)start.i,
                   (long long)stop.i, axis);
    return NULL;
  }
  const number length = number_max(im, number_sub(im, stop, start), number_int(0));
  dims[axis] = step == 1 ? length : number_ceil_div(im, length, step);
  dims[axis].no_sign = true;
  value *out = NULL;
  strides_of(input, strides);
  const int64_t offset = start.i * strides[axis];
  strides[axis] *= step;
  if (!start.id) out = view_known(im, input, input->rank, dims, strides, offset, &done);
  if (done || !emit_prepare(im, input)) return out;
  out = emit_begin_move(im, "Slice", input, input->rank, dims);
  clave_builder_set_int(im->builder, "axis", axis);
  emit_set_number(im, "start", start);
  emit_set_number(im, "stop", stop);
  clave_builder_set_int(im->builder, "step", step);
  return out;
}

value *emit_slice(importer *im, value *input, int axis, number start, number stop) {
  return emit_slice_step(im, input, axis, start, stop, 1);
}

value *emit_flip(importer *im, value *input, int axis) {
  int64_t strides[CLAVE_MAX_RANK], axes[1] = {axis};
  bool done;
  if (!input || !import_ok(im)) return NULL;
  strides_of(input, strides);
  const int64_t offset = (input->dims[axis].i - 1) * strides[axis];
  strides[axis] = -strides[axis];
  value *out = view_known(im, input, input->rank, input->dims, strides, offset, &done);
  if (done || !emit_prepare(im, input)) return out;
  out = emit_begin_move(im, "Flip", input, input->rank, input->dims);
  emit_set_ints(im, "axes", axes, 1);
  return out;
}

value *emit_select(importer *im, value *input, int axis, number index) {
  number dims[CLAVE_MAX_RANK];
  if (!input || !import_ok(im)) return NULL;
  if (!index.id && value_known(im, input))
    return emit_squeeze(im, emit_slice(im, input, axis, index, number_int(index.i + 1)), axis);
  for (int d = 0; d < input->rank - 1; d++) dims[d] = input->dims[d + (d >= axis)];
  if (!emit_prepare(im, input)) return NULL;
  value *out = emit_begin_move(im, "Select", input, input->rank - 1, dims);
  clave_builder_set_int(im->builder, "axis", axis);
  emit_set_number(im, "index", index);
  return out;
}

value *emit_diagonal(importer *im, value *input, int axis, int other) {
  number dims[CLAVE_MAX_RANK];
  int rank = 0;
  if (!emit_prepare(im, input)) return NULL;
  for (int d = 0; d < input->rank; d++)
    if (d != axis && d != other) dims[rank++] = input->dims[d];
  const number size = input->dims[axis], other_size = input->dims[other];
  dims[rank++] = number_is_same(size, other_size) ? size : number_min(im, size, other_size);
  dims[rank - 1].no_sign = true;
  value *out = emit_begin_move(im, "Diagonal", input, rank, dims);
  if (!out) return NULL;
  clave_builder_set_int(im->builder, "axis1", axis);
  clave_builder_set_int(im->builder, "axis2", other);
  return out;
}

value *emit_flatten(importer *im, value *input, int axis) {
  number dims[2] = {number_int(1), number_int(1)};
  for (int d = 0; input && d < input->rank; d++)
    dims[d >= axis] = number_mul(im, dims[d >= axis], input->dims[d]);
  return emit_reshape(im, input, 2, dims);
}
