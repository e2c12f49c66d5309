/* Reductions, sorting and matrix products. */
#include <string.h>

#include "base/dtype.h"
#include "import/coded.h"
#include "import/emit.h"

/* Computes the product, sum or extreme of known elements of rank 1 at import. */
static value *reduce_known(importer *im, const char *kind, value *input, bool keepdim) {
  static const struct {
    const char *name;
    number_kind kind;
  } kinds[] = {{"prod", NUMBER_MUL}, {"sum", NUMBER_ADD}, {"max", NUMBER_MAX}, {"min", NUMBER_MIN}};
  const int64_t one = 1;
  if (input->rank != 1 || !dtype_is_int((dtype)input->type) || !value_known(im, input)) return NULL;
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    if (strcmp(kind, kinds[k].name) != 0) continue;
    const int64_t n = value_count(input);
    if (n == 0 && k >= 2) return NULL;
    number out = n ? input->elements[0] : number_int(k == 0);
    for (int64_t i = 1; i < n; i++)
      out = number_compute(im, kinds[k].kind, out, input->elements[i]);
    return value_numbers(im, input->type, keepdim, &one, &out);
  }
  return NULL;
}

value *emit_reduce(importer *im, const char *kind, value *input, const int *axes, int n,
                   bool keepdim) {
  number dims[CLAVE_MAX_RANK];
  int64_t list[CLAVE_MAX_RANK];
  bool reduced[CLAVE_MAX_RANK] = {false};
  int rank = 0;
  if (!input || !import_ok(im)) return NULL;
  value *known = reduce_known(im, kind, input, keepdim);
  if (known || !emit_prepare(im, input)) return known;
  for (int i = 0; i < n; i++) {
    list[i] = axes[i];
    reduced[axes[i]] = true;
  }
  for (int d = 0; d < input->rank; d++) {
    if (n && !reduced[d])
      dims[rank++] = input->dims[d];
    else if (keepdim)
      dims[rank++] = number_int(1);
  }
  const bool truth = strcmp(kind, "any") == 0 || strcmp(kind, "all") == 0;
  value *out = emit_begin(im, "Reduce", truth ? CLAVE_BOOL : input->type, rank, dims);
  if (!out) return NULL;
  clave_builder_set_text(im->builder, "kind", kind);
  emit_set_tensor(im, "x", input);
  emit_set_ints(im, "axes", list, n);
  clave_builder_set_bool(im->builder, "keepdim", keepdim);
  return out;
}

value *emit_arg_reduce(importer *im, const char *kind, value *input, int axis, bool keepdim) {
  number dims[CLAVE_MAX_RANK];
  int rank = 0;
  if (!emit_prepare(im, input)) return NULL;
  for (int d = 0; d < input->rank; d++) {
    if (d != axis)
      dims[rank++] = input->dims[d];
    else if (keepdim)
      dims[rank++] = number_int(1);
  }
  value *out = emit_begin(im, "ArgReduce", CLAVE_I64, rank, dims);
  if (!out) return NULL;
  clave_builder_set_text(im->builder, "kind", kind);
  emit_set_tensor(im, "x", input);
  clave_builder_set_int(im->builder, "axis", axis);
  clave_builder_set_bool(im->builder, "keepdim", keepdim);
  return out;
}

value *emit_softmax(importer *im, value *input, int axis, bool log) {
  if (!emit_prepare(im, input)) return NULL;
  value *out = emit_begin(im, "Softmax", input->type, input->rank, input->dims);
  if (!out) return NULL;
  emit_set_tensor(im, "x", input);
  clave_builder_set_int(im->builder, "axis", axis);
  clave_builder_set_bool(im->builder, "log", log);
  return out;
}

value *emit_cumulate(importer *im, const char *kind, value *input, int axis) {
  if (!emit_prepare(im, input)) return NULL;
  value *out = emit_begin(im, "Cumulate", input->type, input->rank, input->dims);
  if (!out) return NULL;
  clave_builder_set_text(im->builder, "kind", kind);
  emit_set_tensor(im, "x", input);
  clave_builder_set_int(im->builder, "axis", axis);
  return out;
}

value *emit_sort(importer *im, value *input, int axis, number k, bool descending, value **indices) {
  number dims[CLAVE_MAX_RANK];
  if (indices) *indices = NULL;
  if (!emit_prepare(im, input)) return NULL;
  for (int d = 0; d < input->rank; d++) dims[d] = d == axis ? k : input->dims[d];
  value *out = emit_begin(im, "Sort", input->type, input->rank, dims);
  if (!out) return NULL;
  emit_set_tensor(im, "x", input);
  clave_builder_set_int(im->builder, "axis", axis);
  clave_builder_set_bool(im->builder, "descending", descending);
  if (indices) *indices = emit_result(im, "indices", CLAVE_I64, input->rank, dims);
  return out;
}

value *emit_matmul(importer *im, value *left, value *right, value *bias, double alpha,
                   double beta) {
  number dims[CLAVE_MAX_RANK];
  const clave_id rows =
      left && right && left->type == right->type ? coded_rows(im, right, true) : 0;
  if (!emit_prepare(im, left) || (!rows && !emit_prepare(im, right)) ||
      (bias && !emit_prepare(im, bias)))
    return NULL;
  if (left->rank < 2 || right->rank < 2) {
    import_invalid(im, "a matrix product of ranks %d and %d", left->rank, right->rank);
    return NULL;
  }
  value lead_a = *left, lead_b = *right;
  lead_a.rank -= 2;
  lead_b.rank -= 2;
  int rank = emit_broadcast(im, (value *[]){&lead_a, &lead_b}, 2, dims);
  dims[rank++] = left->dims[left->rank - 2];
  dims[rank++] = right->dims[right->rank - 1];
  value *out = emit_begin(im, "Matmul", left->type, rank, dims);
  if (!out) return NULL;
  emit_set_tensor(im, "a", left);
  if (rows)
    clave_builder_set_tensor(im->builder, "b", rows);
  else
    emit_set_tensor(im, "b", right);
  clave_builder_set_bool(im->builder, "b_transposed", rows != 0);
  emit_set_tensor(im, "bias", bias);
  clave_builder_set_float(im->builder, "alpha", alpha);
  clave_builder_set_float(im->builder, "beta", beta);
  return out;
}
