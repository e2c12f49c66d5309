/* Converts the nodes of graphs and functions, and finds the row of each op. */
#include <string.h>

#include "import/onnx/decoder.h"
#include "import/onnx/sort.h"

/* ---------------------------------------------------------------- versions and functions */

static const char *plain_domain(const char *domain) {
  return strcmp(domain, "ai.onnx") == 0 ? "" : domain;
}

/* Returns the version of a domain that the model, or the function, imports; 0: none. */
static int64_t opset_version(const onnx_import *onnx, const char *domain) {
  const onnx_opsets *opsets = onnx->frame->opsets;
  for (size_t i = 0; i < opsets->count; i++)
    if (strcmp(plain_domain(opsets->items[i].domain), domain) == 0) return opsets->items[i].version;
  return 0;
}

static onnx_function *find_function(const onnx_import *onnx, const onnx_node *node) {
  for (size_t i = 0; i < onnx->model->n_functions; i++) {
    onnx_function *function = &onnx->model->functions[i];
    if (strcmp(function->name, node->op) == 0 &&
        strcmp(plain_domain(function->domain), plain_domain(node->domain)) == 0 &&
        strcmp(function->overload, node->overload) == 0)
      return function;
  }
  return NULL;
}

/* ---------------------------------------------------------------- functions */

/* Finds the attribute of a call, or of the function that calls, by its name. */
static onnx_attribute *find_argument_of_call(node *call, onnx_function *function,
                                             const char *name) {
  onnx_attribute *given = node_attribute(call, name);
  if (given) return given;
  for (size_t i = 0; i < function->n_defaults; i++)
    if (strcmp(function->defaults[i].name, name) == 0) return &function->defaults[i];
  return NULL;
}

static void add_attribute(node *call, onnx_function *function, const char *name,
                          onnx_frame *frame) {
  onnx_attribute *given = find_argument_of_call(call, function, name);
  onnx_attribute *own = given ? import_alloc(call->im, 1, sizeof *own) : NULL;
  if (!own) return;
  *own = *given;
  own->name = name;
  frame->attributes[frame->n_attributes++] = own;
}

static void inline_function(node *call, onnx_function *function) {
  onnx_import *onnx = call->onnx;
  onnx_frame *outer = onnx->frame, frame = {.opsets = &function->opsets,
                                            .first_binding = onnx->n_bindings,
                                            .depth = outer->depth + 1};
  if (frame.depth > MAX_GRAPH_DEPTH) {
    import_invalid(call->im, "functions call each other deeper than %d", MAX_GRAPH_DEPTH);
    return;
  }
  frame.attributes = import_alloc(call->im, function->attributes.count + function->n_defaults,
                                  sizeof *frame.attributes);
  if (!frame.attributes) return;
  for (size_t i = 0; i < function->attributes.count; i++)
    add_attribute(call, function, function->attributes.items[i], &frame);
  for (size_t i = 0; i < function->n_defaults; i++)
    add_attribute(call, function, function->defaults[i].name, &frame);
  onnx->frame = &frame;
  for (size_t i = 0; i < function->inputs.count; i++)
    onnx_bind(onnx, function->inputs.items[i], node_input(call, (int)i));
  onnx_convert_nodes(onnx, function->nodes, function->n_nodes);
  for (size_t i = 0; i < function->outputs.count && !call->im->fatal; i++) {
    const onnx_binding *out = onnx_lookup(onnx, function->outputs.items[i]);
    if (out)
      node_set(call, (int)i, out->value);
    else
      import_invalid(call->im, "'%.100s', a result of the function, is not computed",
                     function->outputs.items[i]);
  }
  onnx_unbind(onnx, frame.first_binding);
  onnx->frame = outer;
}

/* ---------------------------------------------------------------- nodes */

static void check_attributes(node *node) {
  for (size_t i = 0; i < node->source->n_attributes && import_ok(node->im); i++)
    if (!node->source->attributes[i].is_used)
      import_unsupported(node->im, "attribute '%.60s'", node->source->attributes[i].name);
}

/* Sets the inputs of a node. False: one is unknown because of an earlier unsupported node, or is
 * missing, which ends the import. */
static bool find_node_inputs(node *node) {
  bool known = true;
  for (int i = 0; i < node->n_inputs; i++) {
    const char *name = node->source->inputs.items[i];
    if (!name[0]) continue;
    const onnx_binding *binding = onnx_lookup(node->onnx, name);
    if (!binding) {
      import_end(node->im, INVALID("input '%.100s' is the result of no node; node '%.100s' (%s)",
                                   name, node->im->node, node->op));
      return false;
    }
    node->inputs[i] = binding->value;
    known = known && binding->value;
  }
  return known;
}

/* Refuses sequences of tensors, except for the ops whose kind is "sequence". */
static bool inputs_are_tensors(node *node) {
  for (int i = 0; i < node->n_inputs; i++)
    if (node->inputs[i] && node->inputs[i]->is_sequence && strcmp(node->kind, "sequence") != 0)
      import_unsupported(node->im, "input %d is a sequence of tensors", i);
  return import_ok(node->im);
}

static const char *full_op_name(importer *im, const onnx_node *node) {
  const char *domain = plain_domain(node->domain);
  return domain[0] ? import_text(im, "%.60s.%.60s", domain, node->op) : node->op;
}

/* Converts a node that has a row or a function; reports any other. */
static void convert(node *node, const char *op) {
  onnx_function *function = find_function(node->onnx, node->source);
  const onnx_op *row =
      onnx_find_op(plain_domain(node->source->domain), node->source->op, node->version);
  if (!function && !row) {
    import_report(node->im, node->version ? import_text(node->im, "%s (opset %lld)", op,
                                                        (long long)node->version)
                                          : import_text(node->im, "%s (no opset)", op));
    return;
  }
  if (!find_node_inputs(node)) return;
  if (function) {
    inline_function(node, function);
  } else {
    node->kind = row->kind;
    if (inputs_are_tensors(node)) row->convert(node);
  }
  if (!function && import_ok(node->im)) check_attributes(node);
  if (import_end_node(node->im, op)) return;
  for (int i = 0; i < node->n_outputs; i++) node->outputs[i] = NULL;
}

static void convert_node(onnx_import *onnx, onnx_node *source, size_t index) {
  importer *im = onnx->im;
  const char *outer = im->node, *op = full_op_name(im, source);
  node node = {.onnx = onnx,
               .im = im,
               .source = source,
               .op = source->op,
               .version = opset_version(onnx, plain_domain(source->domain)),
               .n_inputs = (int)source->inputs.count,
               .n_outputs = (int)source->outputs.count};
  node.inputs = import_alloc(im, source->inputs.count, sizeof *node.inputs);
  node.outputs = import_alloc(im, source->outputs.count, sizeof *node.outputs);
  if (!node.inputs || !node.outputs) return;
  im->node = source->name[0] ? import_text(im, "%.200s", source->name)
                             : import_text(im, "%.60s_%zu", source->op, index);
  convert(&node, op);
  if (onnx->decoder) decoder_note_rows(&node);
  for (int i = 0; i < node.n_outputs && !im->fatal; i++)
    if (source->outputs.items[i][0]) onnx_bind(onnx, source->outputs.items[i], node.outputs[i]);
  im->node = outer;
}

void onnx_convert_nodes(onnx_import *onnx, onnx_node *nodes, size_t n) {
  enum { MAX_CONVERTED = 1 << 20 };
  const uint32_t *order = onnx_sort(onnx, nodes, n);
  for (size_t i = 0; order && i < n && !onnx->im->fatal; i++) {
    convert_node(onnx, &nodes[order[i]], order[i]);
    if (++onnx->n_converted > MAX_CONVERTED)
      import_end(onnx->im, INVALID("functions and bodies have more than %d nodes", MAX_CONVERTED));
  }
}

/* ---------------------------------------------------------------- initializers */

/* Binds a constant, or nothing if its dtype is unsupported. */
static void bind_constant_tensor(onnx_import *onnx, const char *name, value *constant) {
  const char *outer = onnx->im->node;
  onnx->im->node = name;
  if (constant && onnx->im->depth + onnx->graph_depth + onnx->frame->depth > 0)
    constant->name = import_text(onnx->im, "%s#%u", name, onnx->im->n_names++);
  if (!import_end_node(onnx->im, "initializer")) constant = NULL;
  if (!onnx->im->fatal) onnx_bind(onnx, name, constant);
  onnx->im->node = outer;
}

void onnx_bind_initializers(onnx_import *onnx, const onnx_graph *graph) {
  for (size_t i = 0; i < graph->n_initializers && !onnx->im->fatal; i++)
    bind_constant_tensor(onnx, graph->initializers[i].name,
                         onnx_constant(onnx, &graph->initializers[i]));
  for (size_t i = 0; i < graph->n_sparse && !onnx->im->fatal; i++) {
    const char *name = "";
    value *constant = onnx_sparse_constant(onnx, graph->sparse[i], &name);
    bind_constant_tensor(onnx, name, constant);
  }
}
