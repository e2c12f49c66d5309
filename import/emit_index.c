/* Ops on positions: counting, combined indices, and elements that data select. */
#include "import/emit_index.h"

#include <string.h>

#include "base/dtype.h"

/* ---------------------------------------------------------------- counting and repeating */

value *emit_positions(importer *im, number n, int axis, int rank) {
  number dims[2 * CLAVE_MAX_RANK];
  value *row = emit_arange(im, CLAVE_I64, number_int(0), number_int(1), n);
  for (int d = 0; d < rank; d++) dims[d] = d == axis ? n : number_int(1);
  return emit_reshape(im, row, rank, dims);
}

value *emit_binary_number(importer *im, const char *kind, value *input, number y) {
  return input ? emit_binary(im, kind, input, value_of_number(im, input->type, y)) : NULL;
}

value *emit_fill(importer *im, value *element, int rank, const number *dims) {
  return emit_expand(im, emit_reshape(im, element, 0, NULL), rank, dims);
}

/* Repeats input along one axis, as (outer, repeats, size * inner). */
static value *index_tile_axis(importer *im, value *input, int axis, number repeats) {
  number dims[CLAVE_MAX_RANK], parts[3] = {number_int(1), number_int(1), number_int(1)};
  if (!input || number_is(repeats, 1)) return input;
  for (int d = 0; d < input->rank; d++) {
    const int part = d < axis ? 0 : 2;
    dims[d] = input->dims[d];
    parts[part] = number_mul(im, parts[part], input->dims[d]);
  }
  dims[axis] = number_mul(im, dims[axis], repeats);
  dims[axis].no_sign = true;
  if (number_is(input->dims[axis], 1)) return emit_expand(im, input, input->rank, dims);
  value *rows = emit_reshape(im, input, 3, parts);
  parts[1] = repeats;
  parts[1].no_sign = true;
  return emit_reshape(im, emit_expand(im, rows, 3, parts), input->rank, dims);
}

value *emit_tile(importer *im, value *input, const number *repeats) {
  for (int d = input ? input->rank - 1 : -1; d >= 0; d--)
    input = index_tile_axis(im, input, d, repeats[d]);
  return input;
}

/* Crops one axis by negative numbers, or joins it with repeated elements. */
static value *index_pad_axis(importer *im, value *input, int axis, number before, number after,
                             value *element) {
  const number zero = number_int(0);
  number sides[2] = {number_max(im, before, zero), number_max(im, after, zero)},
         dims[CLAVE_MAX_RANK];
  value *parts[3] = {NULL, input, NULL};
  int n = 0;
  if (!input || !import_ok(im)) return NULL;
  const number start = number_max(im, number_sub(im, zero, before), zero),
               crop = number_max(im, number_sub(im, zero, after), zero);
  parts[1] = emit_slice(im, input, axis, start, number_sub(im, input->dims[axis], crop));
  for (int d = 0; d < input->rank; d++) dims[d] = input->dims[d];
  for (int i = 0; i < 2; i++) {
    dims[axis] = sides[i];
    parts[2 * i] = number_is(sides[i], 0) ? NULL : emit_fill(im, element, input->rank, dims);
  }
  for (int i = 0; i < 3; i++)
    if (parts[i]) parts[n++] = parts[i];
  return import_ok(im) ? emit_cat(im, parts, n, axis) : NULL;
}

/* True if the Pad op has the element exactly, as a double. */
static bool index_exact_double(importer *im, value *element, double *out) {
  const number *known = value_is_constant(element) ? value_known(im, element) : NULL;
  const int64_t limit = (int64_t)1 << 53;
  if (!known) return false;
  *out = known->type == NUMBER_FLOAT ? known->f : (double)known->i;
  return known->type == NUMBER_FLOAT ||
         (known->i <= limit && known->i >= (element->type == CLAVE_U64 ? 0 : -limit));
}

value *emit_pad_element(importer *im, value *input, const number *before, const number *after,
                        value *element) {
  double fill = 0;
  if (!input || !element || !import_ok(im)) return NULL;
  if (index_exact_double(im, element, &fill))
    return emit_pad(im, input, before, after, "constant", fill);
  for (int d = 0; input && d < input->rank; d++)
    input = index_pad_axis(im, input, d, before[d], after[d], element);
  return input;
}

/* ---------------------------------------------------------------- data that decide */

number emit_read_count(importer *im, value *count, number limit) {
  if (!emit_prepare(im, count)) return number_int(0);
  const number out = number_new(im, "", NUMBER_INT, 0, limit.most);
  clave_builder_op(im->builder, "Item", im->node);
  emit_set_tensor(im, "x", count);
  clave_builder_set_value(im->builder, "out", out.id);
  return out;
}

value *emit_nonzero(importer *im, value *input, number *count) {
  *count = number_int(0);
  if (!emit_prepare(im, input)) return NULL;
  const number dims[2] = {value_numel(im, input), number_int(input->rank)};
  value *out = emit_begin(im, "Nonzero", CLAVE_I64, 2, dims);
  emit_set_tensor(im, "x", input);
  value *found = emit_result(im, "count", CLAVE_I64, 0, NULL);
  *count = emit_read_count(im, found, dims[0]);
  return emit_slice(im, out, 0, number_int(0), *count);
}

value *emit_true_indices(importer *im, value *input, number *count) {
  value *found = emit_nonzero(im, input, count);
  return emit_reshape(im, found, 1, count);
}

value *emit_ravel_index(importer *im, value *const *indices, int n, const number *sizes) {
  number dims[CLAVE_MAX_RANK];
  clave_id tensors[CLAVE_MAX_RANK];
  for (int i = 0; i < n; i++) {
    if (!emit_prepare(im, indices[i])) return NULL;
    tensors[i] = indices[i]->tensor;
  }
  const int rank = emit_broadcast(im, indices, n, dims);
  value *out = emit_begin(im, "RavelIndex", CLAVE_I64, rank, dims);
  if (!out) return NULL;
  clave_builder_set_tensors(im->builder, "indices", tensors, (uint32_t)n);
  emit_set_sizes(im, "sizes", sizes, n);
  return out;
}

/* ---------------------------------------------------------------- scatters */

/* U64 as I64 of the same bits, or of the same order if `ordered`; and back. */
static value *index_signed_bits(importer *im, value *input, clave_dtype type, bool ordered) {
  const number flip = number_int(INT64_MIN);
  if (input && ordered && input->type == CLAVE_I64)
    input = emit_binary_number(im, "bitwise_xor", input, flip);
  const bool to_signed = type == CLAVE_I64;
  input = emit_bitcast(im, input, type);
  return ordered && to_signed ? emit_binary_number(im, "bitwise_xor", input, flip) : input;
}

value *emit_scatter_any(importer *im, const char *kind, value *input, int axis, value *index,
                        value *source) {
  if (!input || !index || !source || !import_ok(im)) return NULL;
  const clave_dtype type = input->type;
  if (value_count(index) == 0) return input;
  if (strcmp(kind, "assign") == 0) return emit_scatter(im, kind, input, axis, index, source);
  const bool ordered = strcmp(kind, "max") == 0 || strcmp(kind, "min") == 0;
  if (type == CLAVE_U64) {
    value *out = emit_scatter(im, kind, index_signed_bits(im, input, CLAVE_I64, ordered), axis,
                              index, index_signed_bits(im, source, CLAVE_I64, ordered));
    return index_signed_bits(im, out, CLAVE_U64, ordered);
  }
  const clave_dtype computed = type == CLAVE_BOOL ? CLAVE_U8 : emit_computable_type(type);
  if (type == CLAVE_BOOL && !ordered) kind = strcmp(kind, "add") == 0 ? "max" : "min";
  value *out = emit_scatter(im, kind, emit_cast(im, input, computed), axis, index,
                            emit_cast(im, source, computed));
  return emit_cast(im, out, type);
}

value *emit_scatter_nd(importer *im, const char *kind, value *input, value *const *indices, int n,
                       value *source) {
  number rows[2] = {number_int(1), number_int(1)}, picks[2];
  if (!input || !source || !import_ok(im)) return NULL;
  for (int d = 0; d < input->rank; d++) rows[d >= n] = number_mul(im, rows[d >= n], input->dims[d]);
  value *index = emit_ravel_index(im, indices, n, input->dims);
  picks[0] = value_numel(im, index);
  picks[1] = number_int(1);
  index = emit_reshape(im, index, 2, picks);
  picks[1] = rows[1];
  value *wide = emit_expand(im, index, 2, picks), *flat = emit_reshape(im, input, 2, rows);
  value *out = emit_scatter_any(im, kind, flat, 0, wide, emit_reshape(im, source, 2, picks));
  return emit_reshape(im, out, input->rank, input->dims);
}

/* ---------------------------------------------------------------- numbers by axis */

number emit_number_at(importer *im, const number *axes, const number *given, int n, int axis,
                      number missing) {
  number out = missing;
  for (int i = 0; i < n; i++) {
    const number is = number_compute(im, NUMBER_EQ, axes[i], number_int(axis));
    out = number_where(im, is, given[i], out);
  }
  return out;
}
