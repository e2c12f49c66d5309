/* Ops that write by indices: ScatterElements (Scatter), ScatterND, TensorScatter. */
#include "import/emit_index.h"
#include "import/onnx/converters.h"
#include "import/onnx/index.h"

static const char *scatter_kind(node *node) {
  static const char *const names[] = {"none", "add", "mul", "max", "min"}, *const kinds[] = {
                                                                               "assign", "add",
                                                                               "mul", "max", "min"};
  return kinds[node_choice(node, "reduction", names, 5)];
}

void onnx_scatter_elements(node *node) {
  value *x = node_required(node, 0), *index = node_required(node, 1),
        *source = node_required(node, 2);
  const char *kind = scatter_kind(node);
  if (!x || !index || !source) return;
  const int axis = emit_axis(node->im, node_int(node, "axis", 0), x->rank);
  if (index->rank != x->rank || source->rank != x->rank || source->type != x->type)
    import_invalid(node->im, "the ranks or dtypes of input, indices and updates differ");
  node_set(node, 0, emit_scatter_any(node->im, kind, x, axis, index, source));
}

void onnx_scatter_nd(node *node) {
  value *x = node_required(node, 0), *index = node_required(node, 1),
        *source = node_required(node, 2), *parts[CLAVE_MAX_RANK];
  const char *kind = scatter_kind(node);
  if (!x || !index || !source) return;
  if (source->type != x->type) import_invalid(node->im, "the dtypes of input and updates differ");
  const int n = onnx_index_tuple(node, index, x->rank, parts);
  if (n && source->rank != index->rank - 1 + x->rank - n)
    import_invalid(node->im, "the updates have rank %d", source->rank);
  if (n) node_set(node, 0, emit_scatter_nd(node->im, kind, x, parts, n, source));
}

/* Writes update[b, ..., s, ...] to position write_indices[b] + s of the axis. */
void onnx_tensor_scatter(node *node) {
  static const char *const modes[] = {"linear", "circular"};
  importer *im = node->im;
  value *x = node_required(node, 0), *update = node_required(node, 1), *start = node_input(node, 2);
  const bool circular = node_choice(node, "mode", modes, 2) == 1;
  number dims[CLAVE_MAX_RANK];
  if (!x || !update) return;
  const int axis = emit_axis(im, node_int(node, "axis", -2), x->rank);
  if (update->rank != x->rank || update->type != x->type || axis == 0)
    import_invalid(im, "the update does not fit the cache, or the axis is 0");
  if (!import_ok(im)) return;
  value *at = emit_positions(im, update->dims[axis], axis, x->rank);
  for (int d = 0; d < x->rank; d++) dims[d] = d == 0 ? x->dims[0] : number_int(1);
  if (start) {
    start = emit_reshape(im, emit_cast(im, start, CLAVE_I64), x->rank, dims);
    at = emit_binary(im, "add", at, start);
  }
  if (circular) at = emit_binary_number(im, "remainder", at, x->dims[axis]);
  at = emit_expand(im, at, update->rank, update->dims);
  node_set(node, 0, emit_scatter_any(im, "assign", x, axis, at, update));
}
