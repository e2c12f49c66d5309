/* The inputs, attributes and results of a node, for its converter. */
#include "import/onnx/node.h"

#include <string.h>

value *node_input(node *node, int i) { return i < node->n_inputs ? node->inputs[i] : NULL; }

value *node_required(node *node, int i) {
  value *input = node_input(node, i);
  if (!input) import_invalid(node->im, "input %d is missing", i);
  return input;
}

bool node_has_output(const node *node, int i) {
  return i < node->n_outputs && node->source->outputs.items[i][0];
}

void node_set(node *node, int i, value *out) {
  if (i < node->n_outputs) node->outputs[i] = out;
}

/* ---------------------------------------------------------------- attributes */

/* Returns the attribute of the function's caller that `attribute` refers to; NULL: it has none. */
static onnx_attribute *resolve(const onnx_frame *frame, onnx_attribute *attribute) {
  if (!attribute->reference[0]) return attribute;
  for (size_t i = 0; i < frame->n_attributes; i++)
    if (strcmp(frame->attributes[i]->name, attribute->reference) == 0) return frame->attributes[i];
  return NULL;
}

onnx_attribute *node_attribute(node *node, const char *name) {
  for (size_t i = 0; i < node->source->n_attributes; i++) {
    onnx_attribute *attribute = &node->source->attributes[i];
    if (strcmp(attribute->name, name) != 0) continue;
    attribute->is_used = true;
    return resolve(node->onnx->frame, attribute);
  }
  return NULL;
}

enum { TYPE_FLOAT = 1, TYPE_INT, TYPE_STRING, TYPE_TENSOR, TYPE_GRAPH, TYPE_FLOATS, TYPE_INTS };

/* Returns the attribute if it has this type; old files have no types. */
static onnx_attribute *of_type(node *node, const char *name, int type) {
  onnx_attribute *attribute = node_attribute(node, name);
  if (!attribute || attribute->type == type || attribute->type == 0) return attribute;
  import_invalid(node->im, "attribute '%.60s' has type %d, expected %d", name, attribute->type,
                 type);
  return NULL;
}

bool node_has(node *node, const char *name) { return node_attribute(node, name) != NULL; }

int64_t node_int(node *node, const char *name, int64_t missing) {
  const onnx_attribute *attribute = of_type(node, name, TYPE_INT);
  return attribute ? attribute->i : missing;
}

double node_float(node *node, const char *name, double missing) {
  const onnx_attribute *attribute = of_type(node, name, TYPE_FLOAT);
  return attribute ? (double)attribute->f : missing;
}

const char *node_text(node *node, const char *name, const char *missing) {
  const onnx_attribute *attribute = of_type(node, name, TYPE_STRING);
  return attribute ? import_text(node->im, "%.*s", (int)(attribute->s.size & 0xFFFF),
                                 attribute->s.data ? attribute->s.data : "")
                   : missing;
}

int node_choice(node *node, const char *name, const char *const *names, int n) {
  const char *text = node_text(node, name, names[0]);
  for (int i = 0; i < n; i++)
    if (strcmp(text, names[i]) == 0) return i;
  import_unsupported(node->im, "attribute %s = '%.60s'", name, text);
  return 0;
}

static bool list_fits(node *node, const char *name, size_t n, int capacity) {
  if (n <= (size_t)capacity) return true;
  import_invalid(node->im, "attribute '%.60s' has %zu numbers, expected at most %d", name, n,
                 capacity);
  return false;
}

int node_ints(node *node, const char *name, int64_t *out, int capacity) {
  const onnx_attribute *attribute = of_type(node, name, TYPE_INTS);
  if (!attribute || !list_fits(node, name, attribute->ints.count, capacity)) return -1;
  for (size_t i = 0; i < attribute->ints.count; i++) out[i] = (int64_t)attribute->ints.items[i];
  return (int)attribute->ints.count;
}

int node_floats(node *node, const char *name, double *out, int capacity) {
  const onnx_attribute *attribute = of_type(node, name, TYPE_FLOATS);
  if (!attribute || !list_fits(node, name, attribute->floats.count, capacity)) return -1;
  for (size_t i = 0; i < attribute->floats.count; i++) {
    float f;
    const uint32_t bits = (uint32_t)attribute->floats.items[i];
    memcpy(&f, &bits, sizeof f);
    out[i] = (double)f;
  }
  return (int)attribute->floats.count;
}

value *node_tensor(node *node, const char *name) {
  const onnx_attribute *attribute = of_type(node, name, TYPE_TENSOR);
  onnx_tensor tensor;
  if (!attribute) return NULL;
  import_fail(node->im, onnx_read_tensor(node->im->pool, attribute->t, &tensor));
  return import_ok(node->im) ? onnx_constant(node->onnx, &tensor) : NULL;
}

onnx_graph *node_graph(node *node, const char *name) {
  onnx_attribute *attribute = of_type(node, name, TYPE_GRAPH);
  if (!attribute) {
    import_invalid(node->im, "attribute '%.60s', a graph, is missing", name);
    return NULL;
  }
  if (attribute->graph) return attribute->graph;
  onnx_graph *graph = import_alloc(node->im, 1, sizeof *graph);
  if (!graph) return NULL;
  import_fail(node->im, onnx_read_graph(node->im->pool, attribute->g, graph));
  return attribute->graph = graph;
}

int node_axes(node *node, const char *name, int i, int64_t input_since, int rank, int *out) {
  int64_t axes[CLAVE_MAX_RANK];
  int n = -1;
  bool seen[CLAVE_MAX_RANK] = {false};
  value *input = node->version >= input_since ? node_input(node, i) : NULL;
  if (node->version < input_since)
    n = node_ints(node, name, axes, CLAVE_MAX_RANK);
  else if (input)
    n = value_constant_ints(node->im, input, "axes", axes, CLAVE_MAX_RANK);
  for (int k = 0; k < n; k++) {
    out[k] = emit_axis(node->im, axes[k], rank);
    if (import_ok(node->im) && seen[out[k]])
      import_invalid(node->im, "axis %d is given twice", out[k]);
    seen[out[k]] = true;
  }
  return import_ok(node->im) ? n : -1;
}

clave_dtype node_dtype(node *node, int32_t data_type) {
  clave_dtype type;
  if (!onnx_dtype(data_type, &type))
    import_unsupported(node->im, "dtype %s", onnx_dtype_name(data_type));
  return type;
}
