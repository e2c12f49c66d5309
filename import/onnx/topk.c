/* TopK: the first elements in sorted order. The sort is stable: equal elements keep their order. */
#include "import/onnx/converters.h"

void onnx_top_k(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0), *indices = NULL;
  const int64_t given = node_int(node, "axis", -1);
  const bool largest = node->version < 11 || node_int(node, "largest", 1);
  if (node->version >= 11) (void)node_int(node, "sorted", 1); /* any order is allowed without it */
  number k = number_int(0);
  if (node->version >= 10)
    k = value_scalar(im, node_required(node, 1), "k");
  else
    k = number_int(node_int(node, "k", 0));
  if (!x || !import_ok(im)) return;
  const int axis = emit_axis(im, given, x->rank);
  if (!k.id && (k.i < 0 || (!x->dims[axis].id && k.i > x->dims[axis].i)))
    import_invalid(im, "k is %lld", (long long)k.i);
  value *out = emit_sort(im, onnx_ordered(im, x), axis, k, largest, &indices);
  node_set(node, 0, onnx_unordered(im, out, x->type));
  node_set(node, 1, indices);
}
