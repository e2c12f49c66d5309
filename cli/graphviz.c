/* Layout by graphviz: a graph of boxes without words for `dot`, a child process in a folder of its
 * own; its answer in its plain format, of which nothing is believed that does not fit the graph. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/process.h"
#include "cli/layout.h"

enum { MOST_BOXES = 1000, MOST_EDGES = 3000, LATEST_MS = 5000, MOST_BYTES = 16 << 20 };
static const double points_per_inch = 72;

/* ---------------------------------------------------------------- the question */

static double inches(double points) { return points / points_per_inch; }

static void write_question(const layout *l, text *to) {
  text_printf(to,
              "digraph g {\n  graph [nodesep=%.3f ranksep=%.3f];\n"
              "  node [shape=box fixedsize=true label=\"\"];\n  edge [arrowsize=%.1f];\n",
              inches(LAYOUT_COLUMN_GAP), inches(LAYOUT_ROW_GAP), LAYOUT_ARROW / 10.0);
  for (uint32_t i = 0; i < l->n_boxes; i++)
    text_printf(to, "  %u [width=%.4f height=%.4f];\n", i, inches(l->boxes[i].width),
                inches(l->boxes[i].height));
  for (uint32_t i = 0; i < l->n_edges; i++)
    if (!l->edges[i].cut) text_printf(to, "  %u -> %u;\n", l->edges[i].from, l->edges[i].to);
  text_puts(to, "}\n");
}

/* ---------------------------------------------------------------- the answer */

typedef struct answer {
  layout *l;
  const char *at;       /* the next word, in text that a NUL ends */
  double width, height; /* of the graph, in points */
  bool *placed;         /* owned (n_boxes) */
} answer;

/* A number of at most `most` that ends in white space. */
static bool read_real(answer *a, double most, double *out) {
  char *end;
  *out = number_read(a->at, &end);
  const bool good = end != a->at && strchr(" \n", *end) && fabs(*out) <= most;
  a->at = end;
  return good;
}

static bool read_index(answer *a, uint32_t count, uint32_t *out) {
  double x;
  if (!read_real(a, count, &x) || x < 0 || x >= count || x != floor(x)) return false;
  *out = (uint32_t)x;
  return true;
}

/* A place in the graph: y goes up there. Splines may leave it by a little. */
static bool read_point(answer *a, layout_point *out) {
  enum { BEYOND = LAYOUT_MARGIN };
  double x, y;
  if (!read_real(a, 1e6, &x) || !read_real(a, 1e6, &y)) return false;
  x *= points_per_inch;
  y *= points_per_inch;
  *out = (layout_point){x + LAYOUT_MARGIN, a->height - y + LAYOUT_MARGIN};
  return x >= -BEYOND && x <= a->width + BEYOND && y >= -BEYOND && y <= a->height + BEYOND;
}

/* graph SCALE WIDTH HEIGHT */
static bool read_graph_line(answer *a) {
  double scale;
  if (!read_real(a, 1, &scale) || scale != 1) return false;
  if (!read_real(a, 1e6, &a->width) || !read_real(a, 1e6, &a->height)) return false;
  a->width *= points_per_inch;
  a->height *= points_per_inch;
  a->l->width = a->width + 2 * LAYOUT_MARGIN;
  a->l->height = a->height + 2 * LAYOUT_MARGIN;
  return a->width > 0 && a->height > 0;
}

/* node NAME X Y ...: the centre */
static bool read_node_line(answer *a) {
  uint32_t i;
  layout_point p;
  if (!read_index(a, a->l->n_boxes, &i) || a->placed[i] || !read_point(a, &p)) return false;
  layout_box *b = &a->l->boxes[i];
  b->x = p.x;
  b->y = p.y - b->height / 2;
  a->placed[i] = true;
  return true;
}

static layout_edge *find_edge(const layout *l, uint32_t from, uint32_t to) {
  for (uint32_t i = 0; i < l->n_edges; i++)
    if (l->edges[i].from == from && l->edges[i].to == to && !l->edges[i].cut) return &l->edges[i];
  return NULL;
}

/* edge TAIL HEAD N X1 Y1 ... */
static bool read_edge_line(answer *a) {
  enum { MOST_POINTS = 3000 };
  uint32_t from, to, n;
  layout_point p;
  if (!read_index(a, a->l->n_boxes, &from) || !read_index(a, a->l->n_boxes, &to)) return false;
  layout_edge *e = find_edge(a->l, from, to);
  if (!e || e->n_points || !read_index(a, MOST_POINTS, &n) || n < 4 || n % 3 != 1) return false;
  for (uint32_t i = 0; i < n; i++)
    if (!read_point(a, &p) || !add_point(a->l, e, p.x, p.y)) return false;
  return true;
}

static bool read_line(answer *a) {
  static const struct {
    const char *word;
    bool (*read)(answer *a);
  } kinds[] = {{"graph ", read_graph_line}, {"node ", read_node_line}, {"edge ", read_edge_line}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    const size_t n = strlen(kinds[i].word);
    if (strncmp(a->at, kinds[i].word, n) != 0) continue;
    a->at += n;
    /* the graph's own size comes first */
    if ((i == 0) != (a->height == 0) || !kinds[i].read(a)) return false;
    a->at = strchr(a->at, '\n');
    return a->at && *++a->at;
  }
  return false;
}

static bool is_whole(const answer *a) {
  for (uint32_t i = 0; i < a->l->n_boxes; i++)
    if (!a->placed[i]) return false;
  for (uint32_t i = 0; i < a->l->n_edges; i++)
    if (!a->l->edges[i].cut && !a->l->edges[i].n_points) return false;
  return true;
}

static bool read_answer(layout *l, const char *words) {
  answer a = {.l = l, .at = words, .placed = calloc((size_t)l->n_boxes + 1, sizeof *a.placed)};
  bool good = a.placed != NULL;
  while (good && strcmp(a.at, "stop\n") != 0) good = read_line(&a);
  good = good && is_whole(&a);
  free(a.placed);
  return good;
}

/* What is read of a wrong one leaves no trace. */
static void forget_lines(layout *l) {
  l->n_points = 0;
  for (uint32_t i = 0; i < l->n_edges; i++) l->edges[i].n_points = 0;
}

/* ---------------------------------------------------------------- dot */

static bool read_file_of(const char *folder, text *to) {
  char *path = path_join(folder, "placed");
  file_map m = {0};
  clave_status st = path ? file_map_open(path, &m) : status_no_memory();
  const bool good = !st && m.size <= MOST_BYTES && !memchr(m.data, 0, m.size);
  if (good) text_append(to, (const char *)m.data, m.size);
  file_map_close(&m);
  free(path);
  status_free(st);
  return good && to->size && !to->failed;
}

static bool write_file_of(const char *folder, const text *from) {
  char *path = path_join(folder, "graph");
  file_writer *w = NULL;
  clave_status st = path ? file_writer_create(path, &w) : status_no_memory();
  if (!st) st = file_writer_append(w, from->data, from->size);
  if (!st) st = file_writer_commit(w);
  file_writer_destroy(w);
  free(path);
  const bool good = !st;
  status_free(st);
  return good;
}

/* Without a shell. "": there is no such program. */
static const char *run_dot(const char *program, const char *folder) {
  const char *const arguments[] = {program, "-Tplain", "-oplaced", "graph", NULL};
  tool *t;
  char *log = path_join(folder, "said");
  clave_status st = log ? tool_start(arguments, folder, log, &t) : status_no_memory();
  free(log);
  if (st) {
    status_free(st);
    return "";
  }
  const int code = tool_end_within(t, LATEST_MS);
  if (code == 128 + 9) return "graphviz took too long: drawn without it";
  if (code == 127) return ""; /* where spawning tells it so late */
  return code ? "graphviz failed: drawn without it" : NULL;
}

static const char *ask(layout *l, const char *program, const char *folder) {
  text words = {0};
  write_question(l, &words);
  const bool is_asked = !words.failed && write_file_of(folder, &words);
  text_clear(&words);
  const char *why = is_asked ? run_dot(program, folder) : "";
  if (!why && (!read_file_of(folder, &words) || !read_answer(l, words.data))) {
    forget_lines(l);
    why = "graphviz gave no layout of this graph: drawn without it";
  }
  text_free(&words);
  return why;
}

bool place_by_graphviz(layout *l, const char **why) {
  const char *given = getenv("CLAVE_DOT"), *program = given && *given ? given : "dot";
  uint64_t removed;
  *why = "";
  if (strcmp(program, "off") == 0 || l->n_boxes == 0) return false;
  if (l->n_boxes > MOST_BOXES || l->n_edges > MOST_EDGES) return false;
  char *folder = folder_create_unique(temporary_folder(), "clave-dot-"), *path = NULL;
  clave_status st =
      strchr(program, '/') ? path_absolute(program, &path) : NULL; /* not from there */
  const char *wrong = folder && !st ? ask(l, path ? path : program, folder) : "";
  if (folder) (void)folder_remove(folder, &removed);
  status_free(st);
  free(folder);
  free(path);
  if (wrong) *why = wrong;
  return !wrong;
}
