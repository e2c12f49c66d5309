/* Ops that move or make elements: joins, padding, index ops, ranges. */
#include "import/emit.h"

#include <string.h>

#include "base/dtype.h"
#include "import/coded.h"

/* ---------------------------------------------------------------- joins and copies */

/* Returns a join of known elements along axis 0 of values of rank 1; NULL: it must be an op. */
static value *cat_known(importer *im, value *const *xs, int n) {
  int64_t total = 0;
  for (int i = 0; i < n; i++) {
    if (xs[i]->rank != 1 || !value_known(im, xs[i])) return NULL;
    total += xs[i]->dims[0].i;
  }
  number *elements =
      total > MAX_ELEMENTS ? NULL : import_alloc(im, (size_t)total + 1, sizeof *elements);
  int64_t at = 0;
  for (int i = 0; elements && i < n; i++) {
    if (xs[i]->dims[0].i)
      memcpy(elements + at, xs[i]->elements, (size_t)xs[i]->dims[0].i * sizeof *elements);
    at += xs[i]->dims[0].i;
  }
  value *out = elements ? value_numbers(im, xs[0]->type, 1, &total, elements) : NULL;
  if (out) out->bits = xs[0]->bits;
  return out;
}

static bool cat_fits(importer *im, value *const *xs, int n, int axis, number *dims) {
  for (int i = 0; i < n; i++) {
    if (!xs[i] || !import_ok(im)) return false;
    if (xs[i]->rank != xs[0]->rank || xs[i]->type != xs[0]->type) {
      import_invalid(im, "tensors of different ranks or dtypes cannot be joined");
      return false;
    }
    for (int d = 0; d < xs[i]->rank; d++) {
      if (i == 0 || (d != axis && dims[d].id))
        dims[d] = xs[i]->dims[d];
      else if (d == axis)
        dims[d] = number_add(im, dims[d], xs[i]->dims[d]);
    }
  }
  return import_ok(im);
}

value *emit_cat(importer *im, value *const *xs, int n, int axis) {
  number dims[CLAVE_MAX_RANK];
  if (!cat_fits(im, xs, n, axis, dims)) return NULL;
  if (n == 1) return xs[0];
  value *known = cat_known(im, xs, n);
  if (known) return known;
  clave_id *tensors = import_alloc(im, (size_t)n, sizeof *tensors);
  for (int i = 0; tensors && i < n; i++) tensors[i] = value_tensor(im, xs[i]);
  value *out = tensors ? emit_begin(im, "Cat", xs[0]->type, xs[0]->rank, dims) : NULL;
  if (!out) return NULL;
  out->bits = xs[0]->bits;
  clave_builder_set_tensors(im->builder, "xs", tensors, (uint32_t)n);
  clave_builder_set_int(im->builder, "axis", axis);
  return out;
}

value *emit_copy(importer *im, value *input) {
  if (!emit_prepare(im, input)) return NULL;
  return emit_begin_move(im, "Copy", input, input->rank, input->dims);
}

value *emit_bitcast(importer *im, value *input, clave_dtype type) {
  if (!emit_prepare(im, input)) return NULL;
  value *out = emit_begin(im, "Bitcast", type, input->rank, input->dims);
  emit_set_tensor(im, "x", input);
  return out;
}

/* ---------------------------------------------------------------- made of numbers */

value *emit_full(importer *im, clave_dtype type, int rank, const number *dims, number element) {
  value *shape = value_new(im, type, rank, dims);
  const int64_t n = shape ? value_count(shape) : -1;
  if (n >= 0 && n <= (element.id ? 0 : MAX_NUMBERS)) {
    number *elements = import_alloc(im, (size_t)n + 1, sizeof *elements);
    int64_t sizes[CLAVE_MAX_RANK];
    for (int64_t i = 0; elements && i < n; i++) elements[i] = element;
    for (int d = 0; d < rank; d++) sizes[d] = dims[d].i;
    return elements ? value_numbers(im, type, rank, sizes, elements) : NULL;
  }
  const clave_dtype computed = emit_computable_type(type);
  if (computed != type) return emit_cast(im, emit_full(im, computed, rank, dims, element), type);
  value *out = emit_begin(im, "Full", type, rank, dims);
  const bool floats = dtype_has_fractions((dtype)type);
  if (floats && element.type != NUMBER_FLOAT && !element.id)
    element = number_float((double)element.i);
  emit_set_number(im, floats ? "value" : "int_value", element);
  return out;
}

value *emit_arange_tensor(importer *im, number count) {
  value *out = emit_begin(im, "Arange", CLAVE_I64, 1, &count);
  emit_set_number(im, "start", number_int(0));
  emit_set_number(im, "step", number_int(1));
  return out;
}

value *emit_arange(importer *im, clave_dtype type, number start, number step, number count) {
  if (!count.id && count.i <= (start.id || step.id ? MAX_NUMBERS : MAX_ELEMENTS) &&
      dtype_is_int((dtype)type)) {
    number *elements = import_alloc(im, (size_t)(count.i > 0 ? count.i : 0) + 1, sizeof *elements);
    const int64_t n = count.i > 0 ? count.i : 0;
    for (int64_t i = 0; elements && i < n; i++)
      elements[i] = number_add(im, start, number_mul(im, number_int(i), step));
    return elements ? value_numbers(im, type, 1, &n, elements) : NULL;
  }
  value *out = emit_begin(im, "Arange", type, 1, &count);
  const bool floats = dtype_is_float((dtype)type);
  emit_set_number(im, floats ? "start_float" : "start", start);
  emit_set_number(im, floats ? "step_float" : "step", step);
  return out;
}

value *emit_pad(importer *im, value *input, const number *before, const number *after,
                const char *mode, double fill) {
  number dims[CLAVE_MAX_RANK];
  bool any = false;
  if (!emit_prepare(im, input)) return NULL;
  for (int d = 0; d < input->rank; d++) {
    dims[d] = number_add(im, input->dims[d], number_add(im, before[d], after[d]));
    any = any || !number_is(before[d], 0) || !number_is(after[d], 0);
    dims[d].no_sign = true;
  }
  if (!any) return input;
  value *out = emit_begin_move(im, "Pad", input, input->rank, dims);
  if (!out) return NULL;
  emit_set_sizes(im, "before", before, input->rank);
  emit_set_sizes(im, "after", after, input->rank);
  clave_builder_set_text(im->builder, "mode", mode);
  clave_builder_set_float(im->builder, "value", fill);
  return out;
}

value *emit_triangle(importer *im, value *input, int64_t diagonal, bool upper) {
  if (!emit_prepare(im, input)) return NULL;
  value *out = emit_begin_move(im, "Triangle", input, input->rank, input->dims);
  if (!out) return NULL;
  clave_builder_set_int(im->builder, "diagonal", diagonal);
  clave_builder_set_bool(im->builder, "upper", upper);
  return out;
}

/* ---------------------------------------------------------------- index ops */

value *emit_wrap_index(importer *im, value *index, number size) {
  if (!index) return NULL;
  value *zero = value_of_number(im, index->type, number_int(0));
  value *own_size = emit_cast(im, value_of_number(im, CLAVE_I64, size), index->type);
  const number *known = value_known(im, index);
  bool negative = !known;
  for (int64_t i = 0, n = known ? value_count(index) : 0; i < n; i++)
    negative = negative || !known[i].no_sign;
  if (!negative) return index;
  value *wrapped = emit_binary(im, "add", index, own_size);
  return emit_where(im, emit_binary(im, "lt", index, zero), wrapped, index);
}

/* Selects known elements by one known index along an axis. */
static value *select_known(importer *im, value *input, int axis, value *index) {
  const number *known = index->rank <= 1 && value_known(im, input) ? value_known(im, index) : NULL;
  const int64_t n = known ? value_count(index) : 0;
  if (!known || n > MAX_NUMBERS || input->dims[axis].id) return NULL;
  value **parts = import_alloc(im, (size_t)n + 1, sizeof *parts);
  for (int64_t i = 0; parts && i < n; i++) {
    if (known[i].id) return NULL;
    if (known[i].i < 0 || known[i].i >= input->dims[axis].i) {
      import_invalid(im, "index %lld is out of range for size %lld", (long long)known[i].i,
                     (long long)input->dims[axis].i);
      return NULL;
    }
    parts[i] = emit_slice(im, input, axis, known[i], number_int(known[i].i + 1));
  }
  if (!parts || (n == 0 && index->rank == 1)) return NULL;
  if (index->rank == 0) return emit_squeeze(im, parts[0], axis);
  return input->rank == 1 ? emit_cat(im, parts, (int)n, axis) : NULL;
}

value *emit_index_select(importer *im, value *input, int axis, value *index) {
  number dims[2 * CLAVE_MAX_RANK];
  if (!input || !index || !import_ok(im)) return NULL;
  value *known = select_known(im, input, axis, index);
  if (known || !import_ok(im)) return known;
  if (index->rank == 0 && value_known(im, index)) {
    if (!index->elements[0].no_sign) /* the op would count it from the end */
      emit_check(im, NUMBER_GE, index->elements[0], number_int(0), "an index is out of range");
    return emit_select(im, input, axis, index->elements[0]);
  }
  const clave_id rows = axis == 0 ? coded_rows(im, input, false) : 0;
  if ((!rows && !emit_prepare(im, input)) || !emit_prepare(im, index)) return NULL;
  int rank = 0;
  for (int d = 0; d < axis; d++) dims[rank++] = input->dims[d];
  for (int d = 0; d < index->rank; d++) dims[rank++] = index->dims[d];
  for (int d = axis + 1; d < input->rank; d++) dims[rank++] = input->dims[d];
  value *out = emit_begin(im, "IndexSelect", input->type, rank, dims);
  if (!out) return NULL;
  out->bits = input->bits;
  if (rows)
    clave_builder_set_tensor(im->builder, "x", rows);
  else
    emit_set_tensor(im, "x", input);
  clave_builder_set_int(im->builder, "axis", axis);
  emit_set_tensor(im, "index", index);
  return out;
}

value *emit_gather(importer *im, value *input, int axis, value *index) {
  if (!emit_prepare(im, input) || !emit_prepare(im, index)) return NULL;
  value *out = emit_begin_move(im, "Gather", input, index->rank, index->dims);
  if (!out) return NULL;
  clave_builder_set_int(im->builder, "axis", axis);
  emit_set_tensor(im, "index", index);
  return out;
}

value *emit_index(importer *im, value *input, value *const *indices, int n) {
  number dims[2 * CLAVE_MAX_RANK];
  clave_id tensors[CLAVE_MAX_RANK];
  int64_t axes[CLAVE_MAX_RANK];
  if (!emit_prepare(im, input)) return NULL;
  int rank = emit_broadcast(im, indices, n, dims);
  for (int i = 0; i < n; i++) {
    tensors[i] = value_tensor(im, indices[i]);
    axes[i] = i;
  }
  for (int d = n; d < input->rank; d++) dims[rank++] = input->dims[d];
  value *out = emit_begin_move(im, "Index", input, rank, dims);
  if (!out) return NULL;
  clave_builder_set_tensors(im->builder, "indices", tensors, (uint32_t)n);
  emit_set_ints(im, "axes", axes, n);
  return out;
}

value *emit_scatter(importer *im, const char *kind, value *input, int axis, value *index,
                    value *source) {
  if (!emit_prepare(im, input) || !emit_prepare(im, index) || !emit_prepare(im, source))
    return NULL;
  value *out = emit_begin_move(im, "Scatter", input, input->rank, input->dims);
  if (!out) return NULL;
  clave_builder_set_text(im->builder, "kind", kind);
  clave_builder_set_int(im->builder, "axis", axis);
  emit_set_tensor(im, "index", index);
  emit_set_tensor(im, "source", source);
  clave_builder_set_bool(im->builder, "wrap", true);
  return out;
}

value *emit_slice_update(importer *im, value *input, value *update, int axis, number start) {
  if (!emit_prepare(im, input) || !emit_prepare(im, update)) return NULL;
  value *out = emit_begin_move(im, "SliceUpdate", input, input->rank, input->dims);
  if (!out) return NULL;
  emit_set_tensor(im, "update", update);
  clave_builder_set_int(im->builder, "axis", axis);
  emit_set_number(im, "start", start);
  return out;
}

void emit_output(importer *im, const char *name, value *out) {
  if (!emit_prepare(im, out)) return;
  if (!clave_builder_make_output(im->builder, name, out->tensor)) {
    value *copy = emit_copy(im, out);
    if (copy && !clave_builder_make_output(im->builder, name, copy->tensor))
      import_invalid(im, "the output cannot be stored");
  }
}
