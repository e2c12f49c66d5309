/* Softmax, LogSoftmax and Hardmax. Before opset 13 all dimensions from the axis on are one. */
#include <string.h>

#include "import/onnx/converters.h"

/* Returns 1 for the first of the greatest elements, and 0 for the others. */
static value *hardmax(importer *im, value *input, int axis) {
  number dims[CLAVE_MAX_RANK];
  if (!input->dims[axis].id && input->dims[axis].i == 0)
    return input; /* argmax takes no empty axis */
  value *place = emit_arg_reduce(im, "argmax", input, axis, true);
  if (!place) return NULL;
  for (int d = 0; d < input->rank; d++) dims[d] = d == axis ? input->dims[d] : number_int(1);
  value *counting = emit_arange(im, CLAVE_I64, number_int(0), number_int(1), input->dims[axis]);
  counting = emit_reshape(im, counting, input->rank, dims);
  return emit_cast(im, emit_binary(im, "eq", counting, place), input->type);
}

static value *softmax_of_kind(node *node, value *input, int axis) {
  if (strcmp(node->kind, "hard") == 0) return hardmax(node->im, input, axis);
  return emit_softmax(node->im, input, axis, strcmp(node->kind, "log") == 0);
}

void onnx_softmax(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0);
  const bool flat = node->version < 13;
  const int64_t given = node_int(node, "axis", flat ? 1 : -1);
  if (!x) return;
  const int axis = flat && given == x->rank ? x->rank : emit_axis(im, given, x->rank);
  if (!import_ok(im)) return;
  if (!flat) {
    node_set(node, 0, softmax_of_kind(node, x, axis));
    return;
  }
  value *out = softmax_of_kind(node, emit_flatten(im, x, axis), 1);
  node_set(node, 0, emit_reshape(im, out, x->rank, x->dims));
}
