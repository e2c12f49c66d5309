/* Concat. */
#include "import/onnx/converters.h"
#include "import/onnx/decoder.h"

void onnx_concat(node *node) {
  value *first = node_required(node, 0);
  if (!first) return;
  const int axis = emit_axis(node->im, node_int(node, "axis", 1), first->rank);
  for (int i = 0; i < node->n_inputs; i++)
    if (!node_required(node, i)) return;
  node_set(node, 0,
           node->n_inputs == 2 ? decoder_cat(node->onnx, first, node->inputs[1], axis)
                               : emit_cat(node->im, node->inputs, node->n_inputs, axis));
}
