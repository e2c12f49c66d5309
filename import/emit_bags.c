/* Interpolation at fractional positions, and groups of elements whose sizes depend on data. */
#include "import/emit_bags.h"

value *emit_flat(importer *im, value *input) {
  const number n = value_numel(im, input);
  return emit_reshape(im, input, 1, &n);
}

value *emit_flat_as(importer *im, value *input, int rank, const number *dims) {
  return emit_flat(im, emit_expand(im, input, rank, dims));
}

value *emit_channel_rows(importer *im, value *input) {
  static const int order[4] = {0, 2, 3, 1};
  if (!input) return NULL;
  const number rows[2] = {
      number_mul(im, input->dims[0], number_mul(im, input->dims[2], input->dims[3])),
      input->dims[1]};
  return emit_reshape(im, emit_permute(im, input, order), 2, rows);
}

parts emit_equal_parts(importer *im, number size, number n) {
  parts made = {.total = number_mul(im, n, size)};
  value *all = emit_positions(im, made.total, 0, 1);
  made.owner = emit_binary_number(im, "floor_divide", all, size);
  made.place = emit_binary_number(im, "remainder", all, size);
  made.first = emit_binary_number(im, "mul", emit_positions(im, n, 0, 1), size);
  return made;
}

/* Each index i, as many times as the increase of the running totals at i. */
static value *bags_owners(importer *im, value *ends, number total) {
  const number room = number_add(im, total, number_int(1));
  value *zeros = emit_full(im, CLAVE_I64, 1, &room, number_int(0)),
        *ones = emit_full(im, CLAVE_I64, 1, ends->dims, number_int(1));
  value *marks = emit_scatter_any(im, "add", zeros, 0, ends, ones);
  return emit_slice(im, emit_cumulate(im, "sum", marks, 0), 0, number_int(0), total);
}

parts emit_parts(importer *im, value *sizes) {
  const int axis = 0;
  parts made = {0};
  value *sum = emit_reduce(im, "sum", sizes, &axis, 1, false);
  made.total = emit_read_count(im, sum, number_int(INT64_MAX));
  value *ends = emit_cumulate(im, "sum", sizes, 0);
  made.first = emit_binary(im, "sub", ends, sizes);
  if (!import_ok(im)) return made;
  made.owner = bags_owners(im, ends, made.total);
  made.place = emit_binary(im, "sub", emit_positions(im, made.total, 0, 1),
                           emit_index_select(im, made.first, 0, made.owner));
  return made;
}

value *emit_neighbours(importer *im, value *position, int64_t first, number last, value **weights) {
  *weights = NULL;
  if (!position || !import_ok(im)) return NULL;
  const clave_dtype type = position->type;
  value *side = emit_positions(im, number_int(2), position->rank - 1, position->rank),
        *low_end = value_of_number(im, type, number_float((double)first)),
        *high_end = value_of_number(im, type, number_to_float(im, last));
  value *inside = emit_where(im, emit_binary(im, "gt", position, low_end), position, low_end);
  inside = emit_where(im, emit_binary(im, "lt", inside, high_end), inside, high_end);
  value *low = emit_unary(im, "floor", inside), *part = emit_binary(im, "sub", inside, low);
  value *one = emit_binary(im, "sub", value_of_float(im, type, 1), part);
  *weights = emit_where(im, emit_binary_float(im, "eq", side, 1), part, one);
  value *place = emit_binary(im, "add", emit_cast(im, low, CLAVE_I64), side);
  place = emit_binary_number(im, "minimum", place, last);
  return emit_binary_number(im, "sub", place, number_int(first));
}

value *emit_bags(importer *im, value *table, value *index, value *first, value *weights) {
  if (!emit_prepare(im, table) || !emit_prepare(im, index) || !emit_prepare(im, first) ||
      (weights && !emit_prepare(im, weights)))
    return NULL;
  const number dims[2] = {first->dims[0], table->dims[1]};
  value *out = emit_begin(im, "EmbeddingBag", table->type, 2, dims);
  if (!out) return NULL;
  clave_builder_set_text(im->builder, "kind", weights ? "sum" : "max");
  emit_set_tensor(im, "weight", table);
  emit_set_tensor(im, "indices", index);
  emit_set_tensor(im, "offsets", first);
  emit_set_tensor(im, "weights", weights);
  return out;
}
