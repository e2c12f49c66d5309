/* Writes a method's graph in Graphviz's DOT language. */
#include <inttypes.h>
#include <stdlib.h>

#include "cli/graph.h"

/* Escapes text for a quoted string of DOT. */
static void dot_write_escaped(page *out, const char *text) {
  for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
    if (*p == '"' || *p == '\\') {
      text_printf(out, "\\%c", *p);
    } else {
      text_printf(out, "%c", *p < 0x20 || *p == 0x7f ? '?' : *p);
    }
  }
}

static void dot_write_slot(page *out, const char *id, uint32_t number,
                           const clave_tensor_info *info, const char *style) {
  text_printf(out, "  %s%" PRIu32 " [shape=box style=\"%s\" label=\"", id, number, style);
  dot_write_escaped(out, info->name);
  text_puts(out, "\\n");
  page shape = {0};
  page_info(&shape, info);
  dot_write_escaped(out, shape.data ? shape.data : "");
  out->failed |= shape.failed;
  text_free(&shape);
  text_puts(out, "\"];\n");
}

static void dot_write_node(page *out, uint32_t number, const graph_node *node) {
  text_printf(out, "  node%" PRIu32 " [shape=box label=\"", number);
  dot_write_escaped(out, node->op);
  text_puts(out, "\\n");
  dot_write_escaped(out, node->name);
  if (*node->detail) text_puts(out, "\\n");
  dot_write_escaped(out, node->detail);
  text_puts(out, "\"];\n");
}

void write_dot(const graph *graph, page *out) {
  text_puts(out, "digraph \"");
  dot_write_escaped(out, graph->method);
  text_puts(out, "\" {\n  node [fontname=\"monospace\" fontsize=10];\n");
  for (uint32_t i = 0; i < graph->n_slots; i++) {
    const char *style = graph->slots[i].kind == CLAVE_SLOT_CONSTANT ? "dotted" : "rounded";
    if (graph->is_used[i]) dot_write_slot(out, "slot", i, &graph->slots[i], style);
  }
  for (uint32_t i = 0; i < graph->n_nodes; i++) {
    const graph_node *node = &graph->nodes[i];
    dot_write_node(out, i, node);
    for (uint32_t k = 0; k < node->n_reads; k++) {
      text_printf(out, "  slot%" PRIu32 " -> node%" PRIu32 ";\n", node->slots[k], i);
    }
    for (uint32_t k = 0; k < node->n_writes; k++) {
      text_printf(out, "  node%" PRIu32 " -> slot%" PRIu32 ";\n", i, node_writes(node)[k]);
    }
  }
  text_puts(out, "}\n");
}
