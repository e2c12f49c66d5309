/* Reductions, sorting and matrix products. */
#include <string.h>

#include "base/dtype.h"
#include "import/coded.h"
#include "import/emit.h"

/* Computes the product, sum or extreme of known elements of rank 1 at import. */
static value *reduce_known(importer *im, const char *kind, value *x, bool keepdim) {
  static const struct {
    const char *name;
    number_kind kind;
  } kinds[] = {{"prod", NUMBER_MUL}, {"sum", NUMBER_ADD}, {"max", NUMBER_MAX}, {"min", NUMBER_MIN}};
  const int64_t one = 1;
  if (x->rank != 1 || !dtype_is_int((dtype)x->type) || !value_known(im, x)) return NULL;
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    if (strcmp(kind, kinds[k].name) != 0) continue;
    const int64_t n = value_count(x);
    if (n == 0 && k >= 2) return NULL;
    number out = n ? x->elements[0] : number_int(k == 0);
    for (int64_t i = 1; i < n; i++) out = number_compute(im, kinds[k].kind, out, x->elements[i]);
    return value_numbers(im, x->type, keepdim, &one, &out);
  }
  return NULL;
}

value *emit_reduce(importer *im, const char *kind, value *x, const int *axes, int n, bool keepdim) {
  number dims[CLAVE_MAX_RANK];
  int64_t list[CLAVE_MAX_RANK];
  bool reduced[CLAVE_MAX_RANK] = {false};
  int rank = 0;
  if (!x || !import_ok(im)) return NULL;
  value *known = reduce_known(im, kind, x, keepdim);
  if (known || !emit_prepare(im, x)) return known;
  for (int i = 0; i < n; i++) {
    list[i] = axes[i];
    reduced[axes[i]] = true;
  }
  for (int d = 0; d < x->rank; d++) {
    if (n && !reduced[d])
      dims[rank++] = x->dims[d];
    else if (keepdim)
      dims[rank++] = number_int(1);
  }
  const bool truth = strcmp(kind, "any") == 0 || strcmp(kind, "all") == 0;
  value *out = emit_begin(im, "Reduce", truth ? CLAVE_BOOL : x->type, rank, dims);
  if (!out) return NULL;
  clave_builder_set_text(im->builder, "kind", kind);
  emit_set_tensor(im, "x", x);
  emit_set_ints(im, "axes", list, n);
  clave_builder_set_bool(im->builder, "keepdim", keepdim);
  return out;
}

value *emit_arg_reduce(importer *im, const char *kind, value *x, int axis, bool keepdim) {
  number dims[CLAVE_MAX_RANK];
  int rank = 0;
  if (!emit_prepare(im, x)) return NULL;
  for (int d = 0; d < x->rank; d++) {
    if (d != axis)
      dims[rank++] = x->dims[d];
    else if (keepdim)
      dims[rank++] = number_int(1);
  }
  value *out = emit_begin(im, "ArgReduce", CLAVE_I64, rank, dims);
  if (!out) return NULL;
  clave_builder_set_text(im->builder, "kind", kind);
  emit_set_tensor(im, "x", x);
  clave_builder_set_int(im->builder, "axis", axis);
  clave_builder_set_bool(im->builder, "keepdim", keepdim);
  return out;
}

value *emit_softmax(importer *im, value *x, int axis, bool log) {
  if (!emit_prepare(im, x)) return NULL;
  value *out = emit_begin(im, "Softmax", x->type, x->rank, x->dims);
  if (!out) return NULL;
  emit_set_tensor(im, "x", x);
  clave_builder_set_int(im->builder, "axis", axis);
  clave_builder_set_bool(im->builder, "log", log);
  return out;
}

value *emit_cumulate(importer *im, const char *kind, value *x, int axis) {
  if (!emit_prepare(im, x)) return NULL;
  value *out = emit_begin(im, "Cumulate", x->type, x->rank, x->dims);
  if (!out) return NULL;
  clave_builder_set_text(im->builder, "kind", kind);
  emit_set_tensor(im, "x", x);
  clave_builder_set_int(im->builder, "axis", axis);
  return out;
}

value *emit_sort(importer *im, value *x, int axis, number k, bool descending, value **indices) {
  number dims[CLAVE_MAX_RANK];
  if (indices) *indices = NULL;
  if (!emit_prepare(im, x)) return NULL;
  for (int d = 0; d < x->rank; d++) dims[d] = d == axis ? k : x->dims[d];
  value *out = emit_begin(im, "Sort", x->type, x->rank, dims);
  if (!out) return NULL;
  emit_set_tensor(im, "x", x);
  clave_builder_set_int(im->builder, "axis", axis);
  clave_builder_set_bool(im->builder, "descending", descending);
  if (indices) *indices = emit_result(im, "indices", CLAVE_I64, x->rank, dims);
  return out;
}

value *emit_matmul(importer *im, value *a, value *b, value *bias, double alpha, double beta) {
  number dims[CLAVE_MAX_RANK];
  const clave_id rows = a && b && a->type == b->type ? coded_rows(im, b, true) : 0;
  if (!emit_prepare(im, a) || (!rows && !emit_prepare(im, b)) || (bias && !emit_prepare(im, bias)))
    return NULL;
  if (a->rank < 2 || b->rank < 2) {
    import_invalid(im, "a matrix product of ranks %d and %d", a->rank, b->rank);
    return NULL;
  }
  value lead_a = *a, lead_b = *b;
  lead_a.rank -= 2;
  lead_b.rank -= 2;
  int rank = emit_broadcast(im, (value *[]){&lead_a, &lead_b}, 2, dims);
  dims[rank++] = a->dims[a->rank - 2];
  dims[rank++] = b->dims[b->rank - 1];
  value *out = emit_begin(im, "Matmul", a->type, rank, dims);
  if (!out) return NULL;
  emit_set_tensor(im, "a", a);
  if (rows)
    clave_builder_set_tensor(im->builder, "b", rows);
  else
    emit_set_tensor(im, "b", b);
  clave_builder_set_bool(im->builder, "b_transposed", rows != 0);
  emit_set_tensor(im, "bias", bias);
  clave_builder_set_float(im->builder, "alpha", alpha);
  clave_builder_set_float(im->builder, "beta", beta);
  return out;
}
