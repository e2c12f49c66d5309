/* Trilu and EyeLike. */
#include "base/dtype.h"
#include "import/emit_index.h"
#include "import/onnx/converters.h"

/* Compares the column minus the row of each element of (rows, columns) with the diagonal. */
static value *triangle_compare(importer *im, const char *kind, number rows, number columns,
                               value *diagonal) {
  value *row = emit_positions(im, rows, 0, 2), *column = emit_positions(im, columns, 1, 2);
  return emit_binary(im, kind, emit_binary(im, "sub", column, row), diagonal);
}

void onnx_trilu(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0), *diagonal = node_input(node, 1);
  const bool upper = node_int(node, "upper", 1);
  if (!x) return;
  if (x->rank < 2) import_invalid(im, "expected rank 2 or more, got %d", x->rank);
  if (!diagonal) diagonal = value_of_number(im, CLAVE_I64, number_int(0));
  if (!import_ok(im)) return;
  if (value_is_constant(diagonal)) {
    const number k = value_scalar(im, diagonal, "k");
    node_set(node, 0, emit_triangle(im, x, k.i, upper));
    return;
  }
  value *keep = triangle_compare(im, upper ? "ge" : "le", x->dims[x->rank - 2],
                                 x->dims[x->rank - 1], emit_reshape(im, diagonal, 0, NULL));
  value *zero = value_of_float(im, x->type, 0);
  node_set(node, 0, emit_where(im, keep, x, zero));
}

void onnx_eye_like(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0);
  const int64_t k = node_int(node, "k", 0);
  if (!x) return;
  const clave_dtype type =
      node_has(node, "dtype") ? node_dtype(node, (int32_t)node_int(node, "dtype", 1)) : x->type;
  if (x->rank != 2) import_invalid(im, "expected rank 2, got %d", x->rank);
  if (!import_ok(im)) return;
  value *diagonal = value_of_number(im, CLAVE_I64, number_int(k));
  value *is = triangle_compare(im, "eq", x->dims[0], x->dims[1], diagonal);
  node_set(node, 0, emit_cast(im, is, type));
}
