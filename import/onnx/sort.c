/* Orders the nodes of a graph so that each comes after those whose results it reads. */
#include "import/onnx/sort.h"

#include <string.h>

typedef struct producer {
  const char *name; /* NULL: a free entry */
  uint32_t node;
} producer;

typedef enum visit_state { VISIT_NONE, VISIT_OPEN, VISIT_DONE } visit_state;

typedef struct sorter {
  onnx_import *onnx;
  onnx_node *nodes;
  producer *table; /* (mask + 1), open addressing */
  size_t mask;
  uint8_t *states; /* visit_state by node */
  uint32_t *order;
  size_t n_ordered;
  uint32_t *stack; /* nodes that are being visited */
  size_t depth;
} sorter;

static size_t slot_of(const sorter *sorter, const char *name) {
  uint32_t hash = 2166136261u;
  for (const char *at = name; *at; at++) hash = (hash ^ (uint8_t)*at) * 16777619u;
  size_t slot = (hash ^ hash >> 15) & sorter->mask;
  while (sorter->table[slot].name && strcmp(sorter->table[slot].name, name) != 0)
    slot = (slot + 1) & sorter->mask;
  return slot;
}

static bool add_producers(sorter *sorter, size_t n, size_t n_names) {
  sorter->mask = 15;
  while (sorter->mask < 2 * n_names) sorter->mask = 2 * sorter->mask + 1;
  sorter->table = import_alloc(sorter->onnx->im, sorter->mask + 1, sizeof *sorter->table);
  for (size_t i = 0; sorter->table && i < n; i++) {
    const onnx_texts *outputs = &sorter->nodes[i].outputs;
    for (size_t k = 0; k < outputs->count; k++) {
      if (!outputs->items[k][0]) continue;
      producer *to = &sorter->table[slot_of(sorter, outputs->items[k])];
      if (to->name)
        import_end(sorter->onnx->im,
                   INVALID("'%.100s' is the result of two nodes", outputs->items[k]));
      *to = (producer){outputs->items[k], (uint32_t)i};
    }
  }
  return import_ok(sorter->onnx->im);
}

/* Returns false and pushes the node that has this result, if it is not ordered yet. */
static bool is_ready(sorter *sorter, const char *name) {
  const producer *from = &sorter->table[slot_of(sorter, name)];
  if (!from->name || sorter->states[from->node] == VISIT_DONE) return true;
  if (sorter->states[from->node] == VISIT_OPEN) {
    if (!sorter->onnx->im->fatal)
      sorter->onnx->im->fatal = INVALID("the graph has a circle through '%.100s'", name);
    return false;
  }
  sorter->states[from->node] = VISIT_OPEN;
  sorter->stack[sorter->depth++] = from->node;
  return false;
}

/* A graph within a node, and the graphs around it. */
typedef struct inner_graph {
  const onnx_graph *graph;
  const struct inner_graph *around; /* or NULL */
  int depth;
} inner_graph;

/* True if a graph within the node, around the reader of the name, defines it itself. */
static bool is_inner(const inner_graph *inner, const char *name) {
  for (; inner; inner = inner->around) {
    const onnx_graph *graph = inner->graph;
    for (size_t i = 0; i < graph->n_inputs; i++)
      if (strcmp(graph->inputs[i].name, name) == 0) return true;
    for (size_t i = 0; i < graph->n_initializers; i++)
      if (strcmp(graph->initializers[i].name, name) == 0) return true;
    for (size_t i = 0; i < graph->n_nodes; i++)
      for (size_t k = 0; k < graph->nodes[i].outputs.count; k++)
        if (strcmp(graph->nodes[i].outputs.items[k], name) == 0) return true;
  }
  return false;
}

static bool is_name_ready(sorter *sorter, const inner_graph *inner, const char *name) {
  const producer *from = &sorter->table[slot_of(sorter, name)];
  if (!from->name || sorter->states[from->node] == VISIT_DONE) return true;
  return is_inner(inner, name) || is_ready(sorter, name);
}

static bool are_inputs_ready(sorter *sorter, onnx_node *node, const inner_graph *inner);

/* True if the names that a graph within a node reads from outside are ready. */
static bool is_graph_ready(sorter *sorter, onnx_graph *graph, const inner_graph *around) {
  const inner_graph inner = {graph, around, around ? around->depth + 1 : 1};
  for (size_t i = 0; i < graph->n_nodes; i++)
    if (!are_inputs_ready(sorter, &graph->nodes[i], &inner)) return false;
  for (size_t i = 0; i < graph->n_outputs; i++)
    if (!is_name_ready(sorter, &inner, graph->outputs[i].name)) return false;
  return true;
}

static bool is_attribute_ready(sorter *sorter, onnx_attribute *attribute,
                               const inner_graph *inner) {
  importer *im = sorter->onnx->im;
  if (!attribute->g.data) return true;
  if (inner && inner->depth == MAX_GRAPH_DEPTH) {
    import_end(im, INVALID("graphs are nested deeper than %d", MAX_GRAPH_DEPTH));
    return false;
  }
  if (!attribute->graph) {
    attribute->graph = import_alloc(im, 1, sizeof *attribute->graph);
    clave_status st =
        attribute->graph ? onnx_read_graph(im->pool, attribute->g, attribute->graph) : NULL;
    import_end(im, st);
    if (im->fatal) return false;
  }
  return is_graph_ready(sorter, attribute->graph, inner);
}

static bool are_inputs_ready(sorter *sorter, onnx_node *node, const inner_graph *inner) {
  for (size_t i = 0; i < node->inputs.count; i++)
    if (!is_name_ready(sorter, inner, node->inputs.items[i])) return false;
  for (size_t i = 0; i < node->n_attributes; i++)
    if (!is_attribute_ready(sorter, &node->attributes[i], inner)) return false;
  return true;
}

/* Orders a node after all nodes that it needs. */
static void order_node(sorter *sorter, uint32_t node) {
  if (sorter->states[node] != VISIT_NONE) return;
  sorter->states[node] = VISIT_OPEN;
  sorter->stack[sorter->depth++] = node;
  while (sorter->depth && import_ok(sorter->onnx->im)) {
    const uint32_t top = sorter->stack[sorter->depth - 1];
    if (!are_inputs_ready(sorter, &sorter->nodes[top], NULL)) continue;
    sorter->states[top] = VISIT_DONE;
    sorter->order[sorter->n_ordered++] = top;
    sorter->depth--;
  }
}

const uint32_t *onnx_sort(onnx_import *onnx, onnx_node *nodes, size_t n) {
  sorter sorter = {.onnx = onnx, .nodes = nodes};
  size_t n_names = 0;
  for (size_t i = 0; i < n; i++) n_names += nodes[i].outputs.count;
  sorter.states = import_alloc(onnx->im, n + 1, sizeof *sorter.states);
  sorter.order = import_alloc(onnx->im, n + 1, sizeof *sorter.order);
  sorter.stack = import_alloc(onnx->im, n + 1, sizeof *sorter.stack);
  if (!sorter.stack || !add_producers(&sorter, n, n_names)) return NULL;
  for (uint32_t i = 0; i < n && import_ok(onnx->im); i++) order_node(&sorter, i);
  return import_ok(onnx->im) ? sorter.order : NULL;
}
