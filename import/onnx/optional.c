/* Optional, OptionalHasElement and OptionalGetElement of tensors, which are always present. */
#include "import/onnx/converters.h"

void onnx_optional(node *node) {
  (void)node_attribute(node, "type");
  if (node_input(node, 0))
    node_set(node, 0, node_input(node, 0));
  else
    import_unsupported(node->im, "an optional without an element");
}

void onnx_optional_has_element(node *node) {
  const bool has = node_input(node, 0) != NULL;
  node_set(node, 0, value_of_number(node->im, CLAVE_BOOL, number_bool(has)));
}
