/* Binarizer of ai.onnx.ml: 1 above a threshold, else 0. */
#include "base/dtype.h"
#include "import/onnx/converters.h"

void onnx_binarizer(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0);
  const double threshold = node_float(node, "threshold", 0);
  if (!x) return;
  value *wide = dtype_is_float((dtype)x->type) ? x : emit_cast(im, x, CLAVE_F64);
  node_set(node, 0, emit_cast(im, emit_binary_float(im, "gt", wide, threshold), x->type));
}
