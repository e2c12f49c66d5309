/* Det: the product of the diagonal of a triangular factor. */
#include "import/onnx/converters.h"

/* Returns the row with which each row was exchanged: I32, counted from 1. *factor receives U. */
static value *factorize(importer *im, value *input, value **factor) {
  *factor = NULL;
  if (!emit_prepare(im, input)) return NULL;
  value *out = emit_begin(im, "Linalg", input->type, input->rank, input->dims);
  if (!out) return NULL;
  clave_builder_set_text(im->builder, "kind", "lu");
  emit_set_tensor(im, "x", input);
  value *pivots = emit_result(im, "b", CLAVE_I32, input->rank - 1, input->dims);
  *factor = out;
  return pivots;
}

/* Returns -1 for each row that was exchanged with another, else 1. */
static value *signs_of_exchanges(importer *im, value *pivots, clave_dtype type) {
  if (!pivots) return NULL;
  const number n = pivots->dims[pivots->rank - 1];
  value *own = emit_arange(im, CLAVE_I32, number_int(1), number_int(1), n);
  value *moved = emit_binary(im, "ne", pivots, own);
  return emit_where(im, moved, value_of_float(im, type, -1), value_of_float(im, type, 1));
}

void onnx_det(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0), *factor;
  if (!x) return;
  if (x->rank < 2) {
    import_invalid(im, "expected matrices, got rank %d", x->rank);
    return;
  }
  const number rows = x->dims[x->rank - 2], columns = x->dims[x->rank - 1];
  if (!rows.id && !columns.id && rows.i != columns.i)
    import_invalid(im, "expected square matrices, got %lld x %lld", (long long)rows.i,
                   (long long)columns.i);
  value *wide = emit_cast(im, x, x->type == CLAVE_F64 ? CLAVE_F64 : CLAVE_F32);
  value *pivots = factorize(im, wide, &factor);
  value *signs = pivots ? signs_of_exchanges(im, pivots, wide->type) : NULL;
  value *factors =
      emit_binary(im, "mul", emit_diagonal(im, factor, x->rank - 2, x->rank - 1), signs);
  const int last = x->rank - 2;
  node_set(node, 0, emit_cast(im, emit_reduce(im, "prod", factors, &last, 1, false), x->type));
}
