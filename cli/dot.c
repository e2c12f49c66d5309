/* A method's graph in graphviz's language. */
#include <inttypes.h>
#include <stdlib.h>

#include "cli/graph.h"

/* Inside a quoted string of dot. */
static void write_escaped(page *out, const char *s) {
  for (const unsigned char *p = (const unsigned char *)s; *p; p++) {
    if (*p == '"' || *p == '\\') {
      page_format(out, "\\%c", *p);
    } else {
      page_format(out, "%c", *p < 0x20 || *p == 0x7f ? '?' : *p);
    }
  }
}

static void write_slot(page *out, const char *id, uint32_t number, const clave_tensor_info *info,
                       const char *style) {
  page_format(out, "  %s%" PRIu32 " [shape=box style=\"%s\" label=\"", id, number, style);
  write_escaped(out, info->name);
  page_string(out, "\\n");
  page shape = {0};
  page_info(&shape, info);
  write_escaped(out, shape.data ? shape.data : "");
  out->failed |= shape.failed;
  page_free(&shape);
  page_string(out, "\"];\n");
}

static void write_node(page *out, uint32_t number, const graph_node *n) {
  page_format(out, "  node%" PRIu32 " [shape=box label=\"", number);
  write_escaped(out, n->op);
  page_string(out, "\\n");
  write_escaped(out, n->name);
  if (*n->detail) page_string(out, "\\n");
  write_escaped(out, n->detail);
  page_string(out, "\"];\n");
}

void write_dot(const graph *g, page *out) {
  page_string(out, "digraph \"");
  write_escaped(out, g->method);
  page_string(out, "\" {\n  node [fontname=\"monospace\" fontsize=10];\n");
  for (uint32_t i = 0; i < g->n_slots; i++) {
    const char *style = g->slots[i].kind == CLAVE_SLOT_CONSTANT ? "dotted" : "rounded";
    if (g->is_used[i]) write_slot(out, "slot", i, &g->slots[i], style);
  }
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    const graph_node *n = &g->nodes[i];
    write_node(out, i, n);
    for (uint32_t k = 0; k < n->n_reads; k++) {
      page_format(out, "  slot%" PRIu32 " -> node%" PRIu32 ";\n", n->slots[k], i);
    }
    for (uint32_t k = 0; k < n->n_writes; k++) {
      page_format(out, "  node%" PRIu32 " -> slot%" PRIu32 ";\n", i, node_writes(n)[k]);
    }
  }
  page_string(out, "}\n");
}
