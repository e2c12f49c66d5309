/* Draws a method's graph as SVG: a box per node with what it does, its constants and its result's
 * shape; inputs, outputs and state as pills. A line that would pass too many layers is replaced by
 * a reference inside the box it leads to. Blocks that repeat may be one box. */
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
  const graph_node *node;        /* or NULL; the first of a fold's repeats */
  const graph_fold *fold;        /* whose repeats it stands for; or NULL */
  const clave_tensor_info *slot; /* of an input, output or state */
  uint32_t first_edge, n_edges;  /* into it */
} vertex;

typedef struct drawing {
  const graph *g;
  const graph_folds *folds; /* borrowed; NULL: every node has a box */
  vertex *vertices;         /* owned, as all below */
  layout_box *boxes;        /* one per vertex */
  layout_edge *edges;
  uint32_t *producer; /* by slot: the vertex that last wrote it, or NONE */
  bool *is_needed;    /* by slot: read by a node with a box of its own */
  uint32_t n_vertices, n_edges;
} drawing;

/* ---------------------------------------------------------------- vertices and edges */

static void add_vertex(drawing *d, const graph_node *node, const clave_tensor_info *slot) {
  d->vertices[d->n_vertices++] = (vertex){.node = node, .slot = slot, .first_edge = d->n_edges};
}

/* From the writer of `slot` to the newest vertex; once, and only if there is a writer. */
static void add_edge(drawing *d, uint32_t slot) {
  vertex *v = &d->vertices[d->n_vertices - 1];
  uint32_t from = d->producer[slot];
  if (from == NONE || from + 1 == d->n_vertices) return;
  for (uint32_t i = v->first_edge; i < d->n_edges; i++) {
    if (d->edges[i].from == from) return;
  }
  d->edges[d->n_edges++] = (layout_edge){.from = from, .to = d->n_vertices - 1};
  v->n_edges++;
}

static void add_node(drawing *d, uint32_t index) {
  const graph_node *n = &d->g->nodes[index];
  const graph_fold *fold = fold_of_node(d->folds, index);
  if (!fold && n->n_reads + n->n_writes == 0) return; /* host arithmetic on sizes */
  if (!fold || index == fold->first + fold->period) {
    add_vertex(d, n, NULL);
    d->vertices[d->n_vertices - 1].fold = fold;
  }
  for (uint32_t k = 0; k < n->n_reads; k++) add_edge(d, n->slots[k]);
  for (uint32_t k = 0; k < n->n_writes; k++) d->producer[node_writes(n)[k]] = d->n_vertices - 1;
}

static void add_source(drawing *d, const clave_tensor_info *slot) {
  add_vertex(d, NULL, slot);
  d->producer[slot->slot] = d->n_vertices - 1;
}

static void find_needed(drawing *d) {
  for (uint32_t i = 0; i < d->g->n_nodes; i++) {
    const graph_node *n = &d->g->nodes[i];
    if (fold_of_node(d->folds, i)) continue;
    for (uint32_t k = 0; k < n->n_reads; k++) d->is_needed[n->slots[k]] = true;
  }
}

static void connect_vertices(drawing *d) {
  const graph *g = d->g;
  find_needed(d);
  for (uint32_t i = 0; i < g->n_slots; i++) d->producer[i] = NONE;
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    if (!g->inputs[i].is_scalar) add_source(d, &g->inputs[i]);
  }
  for (uint32_t i = 0; i < g->n_slots; i++) {
    if (g->slots[i].kind == CLAVE_SLOT_STATE && d->is_needed[i]) add_source(d, &g->slots[i]);
  }
  for (uint32_t i = 0; i < g->n_nodes; i++) add_node(d, i);
  for (uint32_t i = 0; i < g->n_outputs; i++) {
    if (g->outputs[i].is_scalar) continue;
    add_vertex(d, NULL, &g->outputs[i]);
    add_edge(d, g->outputs[i].slot);
  }
}

static bool allocate_drawing(drawing *d) {
  const graph *g = d->g;
  size_t n_edges = g->n_outputs,
         n_vertices = (size_t)g->n_nodes + g->n_inputs + g->n_outputs + g->n_slots;
  for (uint32_t i = 0; i < g->n_nodes; i++) n_edges += g->nodes[i].n_reads;
  d->vertices = calloc(n_vertices + 1, sizeof *d->vertices);
  d->boxes = calloc(n_vertices + 1, sizeof *d->boxes);
  d->edges = calloc(n_edges + 1, sizeof *d->edges);
  d->producer = calloc((size_t)g->n_slots + 1, sizeof *d->producer);
  d->is_needed = calloc((size_t)g->n_slots + 1, sizeof *d->is_needed);
  return d->vertices && d->boxes && d->edges && d->producer && d->is_needed;
}

static void free_drawing(drawing *d) {
  free(d->vertices);
  free(d->boxes);
  free(d->edges);
  free(d->producer);
  free(d->is_needed);
}

/* ---------------------------------------------------------------- what a box says */

/* A line: the letter of its style class, its text cut to LINE_CHARACTERS, NUL. */
static void add_line(page *lines, char class, const char *words) {
  text_append(lines, &class, 1);
  const unsigned char *p = (const unsigned char *)words;
  for (int n = 0; *p; n++) {
    size_t size = utf8_sequence((const char *)p, 4); /* ends at NUL */
    bool bad = !size || *p < 0x20 || *p == 0x7f;
    if (n == LINE_CHARACTERS) {
      text_puts(lines, "\xe2\x80\xa6");
      break;
    }
    text_append(lines, bad ? "?" : (const char *)p, bad ? 1 : size);
    p += size ? size : 1;
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

static const char *name_vertex(const vertex *v) { return v->node ? v->node->name : v->slot->name; }

static uint32_t number_of(const drawing *d, const graph_node *n) {
  return (uint32_t)(n - d->g->nodes);
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

/* "weight F32 [16, 8]": the last word of a constant's name is enough. */
static void add_constant(page *lines, const clave_tensor_info *info) {
  const char *dot = strrchr(info->name, '.');
  page words = {0};
  text_printf(&words, "%s ", dot && dot[1] ? dot + 1 : info->name);
  add_info(lines, 'c', words.data ? words.data : "", info);
  text_free(&words);
}

static void describe_vertex(const drawing *d, const vertex *v, page *lines) {
  const graph_node *n = v->node;
  if (!n) {
    add_line(lines, 't', v->slot->name);
    add_info(lines, 's', "", v->slot);
    return;
  }
  if (v->fold) {
    describe_fold(v->fold, lines);
    return;
  }
  add_line(lines, 't', n->op);
  if (*n->name && strcmp(n->name, n->op) != 0) add_line(lines, 'n', n->name);
  if (*n->detail) add_line(lines, 'd', n->detail);
  for (uint32_t k = 0; k < n->n_reads; k++) {
    if (is_constant(d->g, n->slots[k])) add_constant(lines, &d->g->slots[n->slots[k]]);
  }
  for (uint32_t i = v->first_edge; i < v->first_edge + v->n_edges; i++) {
    if (!d->edges[i].cut) continue;
    page words = {0};
    text_printf(&words, "from %s", name_vertex(&d->vertices[d->edges[i].from]));
    add_line(lines, 'r', words.data ? words.data : "");
    text_free(&words);
  }
  for (uint32_t k = 0; k < n->n_writes; k++) {
    add_info(lines, 's', "\xe2\x86\x92 ", &d->g->slots[node_writes(n)[k]]);
  }
  if (n->note) add_line(lines, 'c', n->note);
}

static size_t count_characters(const char *s) {
  size_t n = 0;
  for (; *s; s++) n += ((unsigned char)*s & 0xc0) != 0x80;
  return n;
}

static void measure_box(const drawing *d, uint32_t index, page *lines) {
  layout_box *box = &d->boxes[index];
  uint32_t layer = box->layer;
  lines->size = 0;
  describe_vertex(d, &d->vertices[index], lines);
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
  const char *prefix; /* of the op's name */
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

/* What runs a node: itself, or the one that it is fused with. */
static const graph_node *runner_of(const drawing *d, const graph_node *n) {
  return &d->g->nodes[n->into];
}

static bool is_fused(const drawing *d, const vertex *v) {
  return v->node && !v->fold && runner_of(d, v->node) != v->node;
}

static const palette *palette_of_op(const char *op) {
  for (size_t i = 0; i < LENGTH(palettes); i++) {
    if (strncmp(op, palettes[i].prefix, strlen(palettes[i].prefix)) == 0) return &palettes[i];
  }
  return &plain_palette;
}

const char *colour_of_op(const char *op) { return palette_of_op(op)->stroke; }

/* One entry for each border colour that the graph's ops have. */
void write_colours(const graph *g, page *out) {
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
    for (uint32_t i = 0; i < g->n_nodes && !is_used; i++)
      is_used = strcmp(colour_of_op(g->nodes[i].op), colour) == 0;
    if (is_used)
      text_printf(out, "<span style=\"border:2px solid %s\">%s</span> ", colour, kinds[k].words);
  }
  text_puts(out, "</p>\n");
}

static const palette *choose_palette(const drawing *d, const vertex *v) {
  if (v->slot) {
    bool state = v->slot->kind == CLAVE_SLOT_STATE;
    return &slot_palettes[state ? 1 : v->slot->kind == CLAVE_SLOT_OUTPUT ? 2 : 0];
  }
  return v->fold ? &fold_palette : palette_of_op(runner_of(d, v->node)->op);
}

/* Writes what hovering shows: the whole description of the node. */
static void write_hover(const drawing *d, const vertex *v, page *out) {
  page words = {0};
  const graph_node *n = v->fold ? NULL : v->node;
  text_puts(&words, name_vertex(v));
  if (n) text_printf(&words, "\nnode %" PRIu32 ", %s", number_of(d, n), n->op);
  if (n && *n->detail) text_printf(&words, "\n%s", n->detail);
  for (uint32_t k = 0; n && k < n->n_reads + n->n_writes; k++) {
    const clave_tensor_info *slot = &d->g->slots[n->slots[k]];
    text_printf(&words, "\n%s %s ", k < n->n_reads ? "reads" : "writes", slot->name);
    page_info(&words, slot);
  }
  if (n && n->where) text_printf(&words, "\nruns on %s", n->where);
  if (n && n->reason) text_printf(&words, ": %s", n->reason);
  if (n && n->note) text_printf(&words, "\n%s", n->note);
  for (char *line = words.data; line && *line;) { /* page_markup knows no line breaks */
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

static void begin_box(const drawing *d, const vertex *v, page *out) {
  const bool is_dark = v->slot && v->slot->kind != CLAVE_SLOT_STATE;
  text_printf(out, "<g class=\"box%s\"", is_dark ? " dark" : "");
  if (v->node) text_printf(out, " data-node=\"%" PRIu32 "\"", number_of(d, v->node));
  text_puts(out, "><title>");
  write_hover(d, v, out);
  text_puts(out, "</title>");
}

static void draw_box(const drawing *d, uint32_t index, page *lines, page *out) {
  const vertex *v = &d->vertices[index];
  const layout_box *box = &d->boxes[index];
  const palette *colours = choose_palette(d, v);
  const char *fill = v->node && v->node->fill ? v->node->fill : colours->fill;
  const double left = box->x - box->width / 2;
  double y = box->y + padding + 8;
  begin_box(d, v, out);
  text_printf(out,
              "<rect%s x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%d\" "
              "fill=\"%s\" stroke=\"%s\"/>\n",
              is_fused(d, v) ? " class=\"f\"" : "", left, box->y, box->width, box->height,
              v->slot ? 14 : 5, fill, colours->stroke);
  lines->size = 0;
  describe_vertex(d, v, lines);
  for (size_t at = 0; at < lines->size; at += strlen(lines->data + at) + 1, y += line_height) {
    text_printf(out, "<text class=\"%c\" x=\"%.1f\" y=\"%.1f\">", lines->data[at], box->x, y);
    page_markup(out, lines->data + at + 1);
    text_puts(out, "</text>\n");
  }
  text_puts(out, "</g>\n");
}

/* Between nodes of one kernel. */
static bool is_within(const drawing *d, const layout_edge *e) {
  const vertex *from = &d->vertices[e->from], *to = &d->vertices[e->to];
  return from->node && to->node && !from->fold && !to->fold && from->node->into == to->node->into;
}

static void draw_edge(const drawing *d, const layout *l, uint32_t index, page *out) {
  const layout_edge *e = &d->edges[index];
  const layout_point *p = l->points + e->first_point;
  text_printf(out, "<path%s d=\"M%.1f %.1f", is_within(d, e) ? " class=\"g\"" : "", p->x, p->y);
  for (uint32_t i = 1; i + 2 < e->n_points; i += 3)
    text_printf(out, " C%.1f %.1f %.1f %.1f %.1f %.1f", p[i].x, p[i].y, p[i + 1].x, p[i + 1].y,
                p[i + 2].x, p[i + 2].y);
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

static void draw_all(const drawing *d, const layout *l, page *lines, page *out) {
  text_printf(
      out,
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
      "viewBox=\"0 0 %.0f %.0f\">\n%s<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
      l->width, l->height, l->width, l->height, style);
  for (uint32_t i = 0; i < d->n_edges; i++) {
    if (!d->edges[i].cut) draw_edge(d, l, i, out);
  }
  for (uint32_t i = 0; i < d->n_vertices; i++) draw_box(d, i, lines, out);
  text_puts(out, "</svg>\n");
}

static int draw_graph(drawing *d, layout *l, page *lines, page *out) {
  if (!allocate_drawing(d)) return fail_memory();
  connect_vertices(d);
  *l = (layout){
      .boxes = d->boxes, .edges = d->edges, .n_boxes = d->n_vertices, .n_edges = d->n_edges};
  if (!find_layers(l)) return fail_memory();
  for (uint32_t i = 0; i < d->n_vertices; i++) measure_box(d, i, lines);
  const char *why;
  if (lines->failed) return fail_memory();
  const bool is_placed = place_by_graphviz(l, &why);
  if (*why) print_note(NULL, why);
  if (!is_placed && !place_boxes(l)) return fail_memory();
  draw_all(d, l, lines, out);
  return lines->failed ? fail_memory() : EXIT_GOOD;
}

int write_svg(const graph *g, const graph_folds *folds, page *out) {
  drawing d = {.g = g, .folds = folds};
  layout l = {0};
  page lines = {0};
  int result = draw_graph(&d, &l, &lines, out);
  text_free(&lines);
  free_layout(&l);
  free_drawing(&d);
  return result;
}
