/* Sequences of tensors, whose lengths and positions are known at import. */
#include "import/onnx/converters.h"

enum { MAX_ITEMS = 4096 };

/* Returns a sequence; NULL after an error. */
static value *sequence_input(node *node, int i) {
  value *input = node_required(node, i);
  if (!input || input->is_sequence) return input;
  import_invalid(node->im, "input %d: expected a sequence of tensors", i);
  return NULL;
}

/* Returns a sequence of `list` without item `removed` (-1: none), with `added` (NULL: none) before
 * item `at`. */
static value *sequence_edited(importer *im, const value *list, int removed, value *added, int at) {
  value **items = import_alloc(im, (size_t)list->n_items + 1, sizeof *items);
  int n = 0;
  if (list->n_items >= MAX_ITEMS) import_unsupported(im, "a sequence of %d items", list->n_items);
  for (int i = 0; items && i <= list->n_items; i++) {
    if (added && i == at) items[n++] = added;
    if (i < list->n_items && i != removed) items[n++] = list->items[i];
  }
  return items && import_ok(im) ? value_sequence(im, items, n) : NULL;
}

/* Returns a position among n items, from input i. False after an error. */
static bool sequence_position(node *node, int i, int n, int *out) {
  const number at = value_scalar(node->im, node_input(node, i), "position");
  if (at.id) import_unsupported(node->im, "the position is not constant");
  const int64_t from_start = at.i < 0 ? at.i + n : at.i;
  if (import_ok(node->im) && (from_start < 0 || from_start >= n))
    import_invalid(node->im, "position %lld of %d items", (long long)at.i, n);
  *out = (int)from_start;
  return import_ok(node->im);
}

static bool sequence_is_tensor(node *node, int i) {
  const value *input = node_required(node, i);
  if (input && input->is_sequence)
    import_unsupported(node->im, "a sequence of sequences of tensors");
  return import_ok(node->im);
}

void onnx_sequence_empty(node *node) {
  (void)node_int(node, "dtype", 1);
  node_set(node, 0, value_sequence(node->im, NULL, 0));
}

void onnx_sequence_construct(node *node) {
  for (int i = 0; i < node->n_inputs; i++)
    if (!sequence_is_tensor(node, i)) return;
  node_set(node, 0, value_sequence(node->im, node->inputs, node->n_inputs));
}

void onnx_sequence_insert(node *node) {
  const value *list = sequence_input(node, 0);
  if (!list || !sequence_is_tensor(node, 1)) return;
  int at = list->n_items;
  if (node_input(node, 2)) {
    const number given = value_scalar(node->im, node_input(node, 2), "position");
    const int n = list->n_items + !(given.id == 0 && given.i < 0); /* -1: before the last item */
    if (!sequence_position(node, 2, n, &at)) return;
  }
  node_set(node, 0, sequence_edited(node->im, list, -1, node_input(node, 1), at));
}

void onnx_sequence_erase(node *node) {
  const value *list = sequence_input(node, 0);
  int at = list ? list->n_items - 1 : 0;
  if (!list || (node_input(node, 1) && !sequence_position(node, 1, list->n_items, &at))) return;
  if (list->n_items == 0) import_invalid(node->im, "the sequence is empty");
  node_set(node, 0, sequence_edited(node->im, list, at, NULL, 0));
}

void onnx_sequence_at(node *node) {
  const value *list = sequence_input(node, 0);
  int at;
  if (list && node_required(node, 1) && sequence_position(node, 1, list->n_items, &at))
    node_set(node, 0, list->items[at]);
}

void onnx_sequence_length(node *node) {
  const value *list = sequence_input(node, 0);
  if (list) node_set(node, 0, value_of_number(node->im, CLAVE_I64, number_int(list->n_items)));
}

/* ---------------------------------------------------------------- splits and joins */

/* Sets the sizes of the parts: of the input, or equal ones. Returns their number, -1 after an
 * error. */
static int sequence_parts(node *node, number size, number **parts) {
  importer *im = node->im;
  value *split = node_input(node, 1);
  const number *given = split ? value_elements(im, split, "split") : NULL;
  if (!import_ok(im)) return -1;
  if (given && split->rank == 1) {
    *parts = (number *)given;
    return (int)value_count(split);
  }
  const int64_t each = given ? given[0].i : 1;
  if ((given && given[0].id) || size.id) {
    import_unsupported(im, "the number of parts is not known at import");
    return -1;
  }
  if (each < 1) import_invalid(im, "parts of %lld elements", (long long)each);
  if (!import_ok(im)) return -1;
  const int64_t n = size.i / each + (size.i % each != 0);
  if (n > MAX_ITEMS) import_unsupported(im, "%lld parts", (long long)n);
  *parts = import_ok(im) ? import_alloc(im, (size_t)n, sizeof **parts) : NULL;
  for (int64_t i = 0; *parts && i < n; i++)
    (*parts)[i] = number_int(i + 1 < n ? each : size.i - i * each);
  return *parts ? (int)n : -1;
}

void onnx_split_to_sequence(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0);
  const bool keeps = node_int(node, "keepdims", 1) || node_input(node, 1);
  number *parts = NULL, at = number_int(0);
  if (!x || !sequence_is_tensor(node, 0)) return;
  const int axis = emit_axis(im, node_int(node, "axis", 0), x->rank);
  const int n = import_ok(im) ? sequence_parts(node, x->dims[axis], &parts) : -1;
  value **items = n < 0 ? NULL : import_alloc(im, (size_t)n, sizeof *items);
  for (int i = 0; items && i < n; i++) {
    const number end = number_add(im, at, parts[i]);
    items[i] = emit_slice(im, x, axis, at, end);
    if (!keeps) items[i] = emit_squeeze(im, items[i], axis);
    at = end;
  }
  if (items)
    emit_check(im, NUMBER_EQ, at, x->dims[axis], "the parts are not all elements of the axis");
  if (items && import_ok(im)) node_set(node, 0, value_sequence(im, items, n));
}

void onnx_concat_from_sequence(node *node) {
  importer *im = node->im;
  const value *list = sequence_input(node, 0);
  const bool stack = node_int(node, "new_axis", 0);
  if (!list) return;
  if (list->n_items == 0) {
    import_invalid(im, "the sequence is empty");
    return;
  }
  const int axis = emit_axis(im, node_int(node, "axis", 0), list->items[0]->rank + stack);
  value **items = import_alloc(im, (size_t)list->n_items, sizeof *items);
  for (int i = 0; items && i < list->n_items && import_ok(im); i++)
    items[i] = stack ? emit_unsqueeze(im, list->items[i], axis) : list->items[i];
  if (items && import_ok(im)) node_set(node, 0, emit_cat(im, items, list->n_items, axis));
}

/* ---------------------------------------------------------------- SequenceMap */

/* Converts the body for item i of the sequences, and sets results[output][i]. */
static void sequence_map_item(node *node, onnx_graph *body, int i, value ***results) {
  onnx_import *onnx = node->onnx;
  const size_t first = onnx->n_bindings;
  onnx->graph_depth++;
  onnx_bind_initializers(onnx, body);
  for (size_t k = 0; k < body->n_inputs && k < (size_t)node->n_inputs; k++) {
    value *input = node->inputs[k];
    onnx_bind(onnx, body->inputs[k].name, input->is_sequence ? input->items[i] : input);
  }
  onnx_convert_nodes(onnx, body->nodes, body->n_nodes);
  for (int k = 0; k < node->n_outputs && !node->im->fatal; k++) {
    const onnx_binding *out = onnx_lookup(onnx, body->outputs[k].name);
    if (out)
      results[k][i] = out->value;
    else
      import_invalid(node->im, "a result of the body is not computed");
  }
  onnx_unbind(onnx, first);
  onnx->graph_depth--;
}

/* Sets the results that the body has for all items; others are unknown. */
static void sequence_set_lists(node *node, value ***results, int n) {
  for (int k = 0; k < node->n_outputs && import_ok(node->im); k++) {
    bool known = true;
    for (int i = 0; i < n; i++) {
      known = known && results[k][i];
      if (known && results[k][i]->is_sequence)
        import_unsupported(node->im, "a sequence of sequences of tensors");
    }
    if (known) node_set(node, k, value_sequence(node->im, results[k], n));
  }
}

void onnx_sequence_map(node *node) {
  importer *im = node->im;
  const value *list = sequence_input(node, 0);
  onnx_graph *body = node_graph(node, "body");
  if (!list || !body) return;
  const int n = list->n_items,
            limit = 1024 >> (node->onnx->graph_depth < 3 ? 4 * node->onnx->graph_depth : 10);
  if (n > limit) import_unsupported(im, "%d items, for each of which the body is repeated", n);
  if (body->n_inputs != (size_t)node->n_inputs || body->n_outputs < (size_t)node->n_outputs)
    import_invalid(im, "the body has %zu inputs and %zu results", body->n_inputs, body->n_outputs);
  for (int k = 0; k < node->n_inputs && import_ok(im); k++)
    if (node_required(node, k) && node->inputs[k]->is_sequence && node->inputs[k]->n_items != n)
      import_invalid(im, "the sequences have different lengths");
  value ***results = import_alloc(im, (size_t)node->n_outputs, sizeof *results);
  for (int k = 0; results && k < node->n_outputs; k++)
    results[k] = import_alloc(im, (size_t)n, sizeof **results);
  for (int i = 0; i < n && import_ok(im); i++) sequence_map_item(node, body, i, results);
  if (import_ok(im)) sequence_set_lists(node, results, n);
}
