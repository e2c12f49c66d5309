/* Draws a method's graph as SVG: one box per node with its op, its constants and its result's
 * shape; inputs, outputs and state as pills. A line that would cross too many layers is replaced by
 * a reference in its target box. Repeated blocks may be drawn as one box. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "cli/folds.h"
#include "cli/html.h"
#include "cli/layout.h"

enum { LINE_CHARACTERS = 46 };
static const uint32_t NONE = UINT32_MAX;
static const double line_height = 15, padding = 9, character_width = 6.7, title_width = 7.6;

typedef struct vertex {
  const graph_node *node;        /* NULL if it is not a node; the first node of a fold's repeats */
  const graph_fold *fold;        /* the fold whose repeats it represents, or NULL */
  const clave_tensor_info *slot; /* an input, output or state, or NULL */
  uint32_t first_edge, n_edges;  /* edges that end in it */
} vertex;

typedef struct drawing {
  const graph *graph;
  const graph_folds *folds; /* borrowed; NULL: every node has a box */
  vertex *vertices;         /* owned, as are the following */
  layout_box *boxes;        /* one for each vertex */
  layout_edge *edges;
  uint32_t *producer; /* by slot: the vertex that last wrote it, or NONE */
  bool *is_needed;    /* by slot: read by a node that has its own box */
  uint32_t n_vertices, n_edges;
} drawing;

/* ---------------------------------------------------------------- vertices and edges */

static void add_vertex(drawing *drawing, const graph_node *node, const clave_tensor_info *slot) {
  drawing->vertices[drawing->n_vertices++] =
      (vertex){.node = node, .slot = slot, .first_edge = drawing->n_edges};
}

/* Adds an edge from the writer of `slot`, if any, to the newest vertex, once. */
static void add_edge(drawing *drawing, uint32_t slot) {
  vertex *vertex = &drawing->vertices[drawing->n_vertices - 1];
  uint32_t from = drawing->producer[slot];
  if (from == NONE || from + 1 == drawing->n_vertices) return;
  for (uint32_t i = vertex->first_edge; i < drawing->n_edges; i++) {
    if (drawing->edges[i].from == from) return;
  }
  drawing->edges[drawing->n_edges++] = (layout_edge){.from = from, .to = drawing->n_vertices - 1};
  vertex->n_edges++;
}

static void svg_add_node(drawing *drawing, uint32_t index) {
  const graph_node *node = &drawing->graph->nodes[index];
  const graph_fold *fold = fold_of_node(drawing->folds, index);
  if (!fold && node->n_reads + node->n_writes == 0) return; /* arithmetic on sizes */
  if (!fold || index == fold->first + fold->period) {
    add_vertex(drawing, node, NULL);
    drawing->vertices[drawing->n_vertices - 1].fold = fold;
  }
  for (uint32_t k = 0; k < node->n_reads; k++) add_edge(drawing, node->slots[k]);
  for (uint32_t k = 0; k < node->n_writes; k++)
    drawing->producer[node_writes(node)[k]] = drawing->n_vertices - 1;
}

static void add_source(drawing *drawing, const clave_tensor_info *slot) {
  add_vertex(drawing, NULL, slot);
  drawing->producer[slot->slot] = drawing->n_vertices - 1;
}

static void svg_find_needed(drawing *drawing) {
  for (uint32_t i = 0; i < drawing->graph->n_nodes; i++) {
    const graph_node *node = &drawing->graph->nodes[i];
    if (fold_of_node(drawing->folds, i)) continue;
    for (uint32_t k = 0; k < node->n_reads; k++) drawing->is_needed[node->slots[k]] = true;
  }
}

static void connect_vertices(drawing *drawing) {
  const graph *graph = drawing->graph;
  svg_find_needed(drawing);
  for (uint32_t i = 0; i < graph->n_slots; i++) drawing->producer[i] = NONE;
  for (uint32_t i = 0; i < graph->n_inputs; i++) {
    if (!graph->inputs[i].is_scalar) add_source(drawing, &graph->inputs[i]);
  }
  for (uint32_t i = 0; i < graph->n_slots; i++) {
    if (graph->slots[i].kind == CLAVE_SLOT_STATE && drawing->is_needed[i])
      add_source(drawing, &graph->slots[i]);
  }
  for (uint32_t i = 0; i < graph->n_nodes; i++) svg_add_node(drawing, i);
  for (uint32_t i = 0; i < graph->n_outputs; i++) {
    if (graph->outputs[i].is_scalar) continue;
    add_vertex(drawing, NULL, &graph->outputs[i]);
    add_edge(drawing, graph->outputs[i].slot);
  }
}

static bool allocate_drawing(drawing *drawing) {
  const graph *graph = drawing->graph;
  size_t n_edges = graph->n_outputs,
         n_vertices = (size_t)graph->n_nodes + graph->n_inputs + graph->n_outputs + graph->n_slots;
  for (uint32_t i = 0; i < graph->n_nodes; i++) n_edges += graph->nodes[i].n_reads;
  drawing->vertices = calloc(n_vertices + 1, sizeof *drawing->vertices);
  drawing->boxes = calloc(n_vertices + 1, sizeof *drawing->boxes);
  drawing->edges = calloc(n_edges + 1, sizeof *drawing->edges);
  drawing->producer = calloc((size_t)graph->n_slots + 1, sizeof *drawing->producer);
  drawing->is_needed = calloc((size_t)graph->n_slots + 1, sizeof *drawing->is_needed);
  return drawing->vertices && drawing->boxes && drawing->edges && drawing->producer &&
         drawing->is_needed;
}

static void free_drawing(drawing *drawing) {
  free(drawing->vertices);
  free(drawing->boxes);
  free(drawing->edges);
  free(drawing->producer);
  free(drawing->is_needed);
}

/* ---------------------------------------------------------------- texts of boxes */

/* Appends a line: the letter of its style class, its text cut to LINE_CHARACTERS, and NUL. */
static void add_line(page *lines, char class, const char *words) {
  text_append(lines, &class, 1);
  const unsigned char *at = (const unsigned char *)words;
  for (int n = 0; *at; n++) {
    size_t size = utf8_sequence((const char *)at, 4); /* stops at NUL */
    bool bad = !size || *at < 0x20 || *at == 0x7f;
    if (n == LINE_CHARACTERS) {
      text_puts(lines, "\xe2\x80\xa6");
      break;
    }
    text_append(lines, bad ? "?" : (const char *)at, bad ? 1 : size);
    at += size ? size : 1;
  }
  text_append(lines, "", 1);
}

static void add_info(page *lines, char class, const char *prefix, const clave_tensor_info *info) {
  page words = {0};
  text_puts(&words, prefix);
  page_info(&words, info);
  add_line(lines, class, words.data ? words.data : "");
  lines->failed |= words.failed;
  text_free(&words);
}

static const char *name_vertex(const vertex *vertex) {
  return vertex->node ? vertex->node->name : vertex->slot->name;
}

static uint32_t svg_number_of(const drawing *drawing, const graph_node *node) {
  return (uint32_t)(node - drawing->graph->nodes);
}

static void describe_fold(const graph_fold *fold, page *lines) {
  page words = {0};
  text_printf(&words, "%" PRIu32 " more of the block before", fold->count - 1);
  add_line(lines, 't', words.data ? words.data : "");
  words.size = 0;
  text_printf(&words, "nodes %" PRIu32 " to %" PRIu32 " repeat %" PRIu32 " to %" PRIu32,
              fold->first + fold->period, fold->first + fold->period * fold->count - 1, fold->first,
              fold->first + fold->period - 1);
  add_line(lines, 'd', words.data ? words.data : "");
  if (fold->note) add_line(lines, 'c', fold->note);
  lines->failed |= words.failed;
  text_free(&words);
}

/* Adds a line such as "weight F32 [16, 8]", with the last part of a constant's name. */
static void svg_add_constant(page *lines, const clave_tensor_info *info) {
  const char *dot = strrchr(info->name, '.');
  page words = {0};
  text_printf(&words, "%s ", dot && dot[1] ? dot + 1 : info->name);
  add_info(lines, 'c', words.data ? words.data : "", info);
  text_free(&words);
}

static void describe_vertex(const drawing *drawing, const vertex *vertex, page *lines) {
  const graph_node *node = vertex->node;
  if (!node) {
    add_line(lines, 't', vertex->slot->name);
    add_info(lines, 's', "", vertex->slot);
    return;
  }
  if (vertex->fold) {
    describe_fold(vertex->fold, lines);
    return;
  }
  add_line(lines, 't', node->op);
  if (*node->name && strcmp(node->name, node->op) != 0) add_line(lines, 'n', node->name);
  if (*node->detail) add_line(lines, 'd', node->detail);
  for (uint32_t k = 0; k < node->n_reads; k++) {
    if (is_constant(drawing->graph, node->slots[k]))
      svg_add_constant(lines, &drawing->graph->slots[node->slots[k]]);
  }
  for (uint32_t i = vertex->first_edge; i < vertex->first_edge + vertex->n_edges; i++) {
    if (!drawing->edges[i].cut) continue;
    page words = {0};
    text_printf(&words, "from %s", name_vertex(&drawing->vertices[drawing->edges[i].from]));
    add_line(lines, 'r', words.data ? words.data : "");
    text_free(&words);
  }
  for (uint32_t k = 0; k < node->n_writes; k++) {
    add_info(lines, 's', "\xe2\x86\x92 ", &drawing->graph->slots[node_writes(node)[k]]);
  }
  if (node->note) add_line(lines, 'c', node->note);
}

static size_t count_characters(const char *text) {
  size_t n = 0;
  for (; *text; text++) n += ((unsigned char)*text & 0xc0) != 0x80;
  return n;
}

static void measure_box(const drawing *drawing, uint32_t index, page *lines) {
  layout_box *box = &drawing->boxes[index];
  uint32_t layer = box->layer;
  lines->size = 0;
  describe_vertex(drawing, &drawing->vertices[index], lines);
  *box = (layout_box){.width = 60, .height = 2 * padding - 4, .layer = layer};
  for (size_t at = 0; at < lines->size; at += strlen(lines->data + at) + 1) {
    double each = lines->data[at] == 't' ? title_width : character_width;
    double width = each * (double)count_characters(lines->data + at + 1) + 2 * padding;
    if (width > box->width) box->width = width;
    box->height += line_height;
  }
}

/* ---------------------------------------------------------------- drawing */

typedef struct palette {
  const char *prefix; /* prefix of the op's name */
  const char *fill, *stroke;
} palette;

static const palette palettes[] = {
    {"matmul", "#e3edfb", "#3b6fb6"},       {"conv", "#e3edfb", "#3b6fb6"},
    {"linear", "#e3edfb", "#3b6fb6"},       {"attention", "#dfe7fb", "#4453b8"},
    {"elementwise", "#fdf1da", "#b98517"},  {"softmax", "#e5f4e6", "#3f8f4d"},
    {"layer_norm", "#e5f4e6", "#3f8f4d"},   {"rms_norm", "#e5f4e6", "#3f8f4d"},
    {"group_norm", "#e5f4e6", "#3f8f4d"},   {"batch_norm", "#e5f4e6", "#3f8f4d"},
    {"pool", "#fbe6e3", "#b9503f"},         {"adaptive_pool", "#fbe6e3", "#b9503f"},
    {"reduce", "#fbe6e3", "#b9503f"},       {"arg_reduce", "#fbe6e3", "#b9503f"},
    {"cumulate", "#fbe6e3", "#b9503f"},     {"rope", "#f0e6fa", "#7a4fb0"},
    {"index", "#f0e6fa", "#7a4fb0"},        {"gather", "#f0e6fa", "#7a4fb0"},
    {"slice_update", "#f0e6fa", "#7a4fb0"},
};
static const palette plain_palette = {"", "#f3f4f6", "#8a919c"};
static const palette fold_palette = {"", "#ffffff", "#1b2430"};
static const palette slot_palettes[] = {{"input", "#2f3b4c", "#2f3b4c"},
                                        {"state", "#ffffff", "#2f3b4c"},
                                        {"output", "#2f3b4c", "#2f3b4c"}};

/* Returns the node that runs `node`: itself, or the node that it is fused into. */
static const graph_node *runner_of(const drawing *drawing, const graph_node *node) {
  return &drawing->graph->nodes[node->into];
}

static bool is_fused(const drawing *drawing, const vertex *vertex) {
  return vertex->node && !vertex->fold && runner_of(drawing, vertex->node) != vertex->node;
}

static const palette *palette_of_op(const char *op) {
  for (size_t i = 0; i < LENGTH(palettes); i++) {
    if (strncmp(op, palettes[i].prefix, strlen(palettes[i].prefix)) == 0) return &palettes[i];
  }
  return &plain_palette;
}

const char *colour_of_op(const char *op) { return palette_of_op(op)->stroke; }

/* Writes one entry for each border colour of the graph's ops. */
void write_colours(const graph *graph, page *out) {
  static const struct {
    const char *op, *words;
  } kinds[] = {{"matmul", "products and convolutions"},
               {"attention", "attention"},
               {"elementwise", "elementwise"},
               {"softmax", "softmax and norms"},
               {"reduce", "pooling and reductions"},
               {"index", "rotary embedding and indexing"},
               {"", "other ops"}};
  text_puts(out, "<p>Borders: ");
  for (size_t k = 0; k < LENGTH(kinds); k++) {
    const char *colour = colour_of_op(kinds[k].op);
    bool is_used = false;
    for (uint32_t i = 0; i < graph->n_nodes && !is_used; i++)
      is_used = strcmp(colour_of_op(graph->nodes[i].op), colour) == 0;
    if (is_used)
      text_printf(out, "<span style=\"border:2px solid %s\">%s</span> ", colour, kinds[k].words);
  }
  text_puts(out, "</p>\n");
}

static const palette *choose_palette(const drawing *drawing, const vertex *vertex) {
  if (vertex->slot) {
    bool state = vertex->slot->kind == CLAVE_SLOT_STATE;
    return &slot_palettes[state ? 1 : vertex->slot->kind == CLAVE_SLOT_OUTPUT ? 2 : 0];
  }
  return vertex->fold ? &fold_palette : palette_of_op(runner_of(drawing, vertex->node)->op);
}

/* Writes the hover text: the node's whole description. */
static void write_hover(const drawing *drawing, const vertex *vertex, page *out) {
  page words = {0};
  const graph_node *node = vertex->fold ? NULL : vertex->node;
  text_puts(&words, name_vertex(vertex));
  if (node) text_printf(&words, "\nnode %" PRIu32 ", %s", svg_number_of(drawing, node), node->op);
  if (node && *node->detail) text_printf(&words, "\n%s", node->detail);
  for (uint32_t k = 0; node && k < node->n_reads + node->n_writes; k++) {
    const clave_tensor_info *slot = &drawing->graph->slots[node->slots[k]];
    text_printf(&words, "\n%s %s ", k < node->n_reads ? "reads" : "writes", slot->name);
    page_info(&words, slot);
  }
  if (node && node->where) text_printf(&words, "\nruns on %s", node->where);
  if (node && node->reason) text_printf(&words, ": %s", node->reason);
  if (node && node->note) text_printf(&words, "\n%s", node->note);
  for (char *line = words.data; line && *line;) { /* page_markup does not handle newlines */
    char *end = line + strcspn(line, "\n");
    const bool is_last = !*end;
    *end = 0;
    page_markup(out, line);
    if (is_last) break;
    text_puts(out, "\n");
    line = end + 1;
  }
  out->failed |= words.failed;
  text_free(&words);
}

static void begin_box(const drawing *drawing, const vertex *vertex, page *out) {
  const bool is_dark = vertex->slot && vertex->slot->kind != CLAVE_SLOT_STATE;
  text_printf(out, "<g class=\"box%s\"", is_dark ? " dark" : "");
  if (vertex->node)
    text_printf(out, " data-node=\"%" PRIu32 "\"", svg_number_of(drawing, vertex->node));
  text_puts(out, "><title>");
  write_hover(drawing, vertex, out);
  text_puts(out, "</title>");
}

static void draw_box(const drawing *drawing, uint32_t index, page *lines, page *out) {
  const vertex *vertex = &drawing->vertices[index];
  const layout_box *box = &drawing->boxes[index];
  const palette *colours = choose_palette(drawing, vertex);
  const char *fill = vertex->node && vertex->node->fill ? vertex->node->fill : colours->fill;
  const double left = box->x - box->width / 2;
  double y = box->y + padding + 8;
  begin_box(drawing, vertex, out);
  text_printf(out,
              "<rect%s x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%d\" "
              "fill=\"%s\" stroke=\"%s\"/>\n",
              is_fused(drawing, vertex) ? " class=\"f\"" : "", left, box->y, box->width,
              box->height, vertex->slot ? 14 : 5, fill, colours->stroke);
  lines->size = 0;
  describe_vertex(drawing, vertex, lines);
  for (size_t at = 0; at < lines->size; at += strlen(lines->data + at) + 1, y += line_height) {
    text_printf(out, "<text class=\"%c\" x=\"%.1f\" y=\"%.1f\">", lines->data[at], box->x, y);
    page_markup(out, lines->data + at + 1);
    text_puts(out, "</text>\n");
  }
  text_puts(out, "</g>\n");
}

/* True if both ends are in the same kernel. */
static bool is_within(const drawing *drawing, const layout_edge *edge) {
  const vertex *from = &drawing->vertices[edge->from], *to = &drawing->vertices[edge->to];
  return from->node && to->node && !from->fold && !to->fold && from->node->into == to->node->into;
}

static void draw_edge(const drawing *drawing, const layout *layout, uint32_t index, page *out) {
  const layout_edge *edge = &drawing->edges[index];
  const layout_point *point = layout->points + edge->first_point;
  text_printf(out, "<path%s d=\"M%.1f %.1f", is_within(drawing, edge) ? " class=\"g\"" : "",
              point->x, point->y);
  for (uint32_t i = 1; i + 2 < edge->n_points; i += 3)
    text_printf(out, " C%.1f %.1f %.1f %.1f %.1f %.1f", point[i].x, point[i].y, point[i + 1].x,
                point[i + 1].y, point[i + 2].x, point[i + 2].y);
  text_puts(out, "\" marker-end=\"url(#arrow)\"/>\n");
}

static const char style[] =
    "<style>text{font-family:ui-monospace,'DejaVu Sans "
    "Mono',Menlo,Consolas,monospace;font-size:11px;"
    "text-anchor:middle;fill:#4a5360}.t{font-size:12px;font-weight:bold;fill:#1b2430}.n{fill:#"
    "7b8594}"
    ".d{fill:#4a5360}.c{fill:#8a5a1f}.r{fill:#7a4fb0;font-style:italic}.s{fill:#29526b}"
    ".dark .t{fill:#ffffff}.dark .s{fill:#cdd6e2}path{fill:none;stroke:#8a919c;stroke-width:1.3}"
    "rect{stroke-width:1.2}.f{stroke-dasharray:5 "
    "3}.g{stroke-width:5;stroke:#f0b429}.tip{fill:#8a919c;stroke:none}</style>\n"
    "<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"2\" refY=\"4\" markerWidth=\"9\" "
    "markerHeight=\"9\" markerUnits=\"userSpaceOnUse\" "
    "orient=\"auto\"><path class=\"tip\" d=\"M0 0 L8 4 L0 8 z\"/></marker></defs>\n";

static void draw_all(const drawing *drawing, const layout *layout, page *lines, page *out) {
  text_printf(
      out,
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
      "viewBox=\"0 0 %.0f %.0f\">\n%s<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
      layout->width, layout->height, layout->width, layout->height, style);
  for (uint32_t i = 0; i < drawing->n_edges; i++) {
    if (!drawing->edges[i].cut) draw_edge(drawing, layout, i, out);
  }
  for (uint32_t i = 0; i < drawing->n_vertices; i++) draw_box(drawing, i, lines, out);
  text_puts(out, "</svg>\n");
}

static int draw_graph(drawing *drawing, layout *placed, page *lines, page *out) {
  if (!allocate_drawing(drawing)) return fail_memory();
  connect_vertices(drawing);
  *placed = (layout){.boxes = drawing->boxes,
                     .edges = drawing->edges,
                     .n_boxes = drawing->n_vertices,
                     .n_edges = drawing->n_edges};
  if (!find_layers(placed)) return fail_memory();
  for (uint32_t i = 0; i < drawing->n_vertices; i++) measure_box(drawing, i, lines);
  const char *why;
  if (lines->failed) return fail_memory();
  const bool is_placed = place_by_graphviz(placed, &why);
  if (*why) print_note(NULL, why);
  if (!is_placed && !place_boxes(placed)) return fail_memory();
  draw_all(drawing, placed, lines, out);
  return lines->failed ? fail_memory() : EXIT_GOOD;
}

int write_svg(const graph *graph, const graph_folds *folds, page *out) {
  drawing drawing = {.graph = graph, .folds = folds};
  layout l = {0};
  page lines = {0};
  int result = draw_graph(&drawing, &l, &lines, out);
  text_free(&lines);
  free_layout(&l);
  free_drawing(&drawing);
  return result;
}
