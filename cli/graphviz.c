/* Layout by Graphviz: runs `dot` on a graph of unlabelled boxes, as a child process in a temporary
 * folder. Its answer in plain format is checked against the graph. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/process.h"
#include "cli/layout.h"

enum { MAX_BOXES = 1000, MAX_EDGES = 3000, LATEST_MS = 5000, MAX_BYTES = 16 << 20 };
static const double points_per_inch = 72;

/* ---------------------------------------------------------------- input for dot */

static double inches(double points) { return points / points_per_inch; }

static void write_dot_input(const layout *layout, text *to) {
  text_printf(to,
              "digraph g {\n  graph [nodesep=%.3f ranksep=%.3f];\n"
              "  node [shape=box fixedsize=true label=\"\"];\n  edge [arrowsize=%.1f];\n",
              inches(LAYOUT_COLUMN_GAP), inches(LAYOUT_ROW_GAP), LAYOUT_ARROW / 10.0);
  for (uint32_t i = 0; i < layout->n_boxes; i++)
    text_printf(to, "  %u [width=%.4f height=%.4f];\n", i, inches(layout->boxes[i].width),
                inches(layout->boxes[i].height));
  for (uint32_t i = 0; i < layout->n_edges; i++)
    if (!layout->edges[i].cut)
      text_printf(to, "  %u -> %u;\n", layout->edges[i].from, layout->edges[i].to);
  text_puts(to, "}\n");
}

/* ---------------------------------------------------------------- output of dot */

typedef struct answer {
  layout *layout;
  const char *at;       /* the next word; the text is NUL-terminated */
  double width, height; /* size of the graph in points */
  bool *placed;         /* owned (n_boxes) */
} answer;

/* Reads a number of at most `most`, followed by white space. */
static bool graphviz_read_real(answer *answer, double most, double *out) {
  char *end;
  *out = number_read(answer->at, &end);
  const bool good = end != answer->at && strchr(" \n", *end) && fabs(*out) <= most;
  answer->at = end;
  return good;
}

static bool read_index(answer *answer, uint32_t count, uint32_t *out) {
  double x;
  if (!graphviz_read_real(answer, count, &x) || x < 0 || x >= count || x != floor(x)) return false;
  *out = (uint32_t)x;
  return true;
}

/* Reads a point in Graphviz's coordinates, where y points up. Splines may exceed the graph
 * slightly. */
static bool graphviz_read_point(answer *answer, layout_point *out) {
  enum { BEYOND = LAYOUT_MARGIN };
  double x, y;
  if (!graphviz_read_real(answer, 1e6, &x) || !graphviz_read_real(answer, 1e6, &y)) return false;
  x *= points_per_inch;
  y *= points_per_inch;
  *out = (layout_point){x + LAYOUT_MARGIN, answer->height - y + LAYOUT_MARGIN};
  return x >= -BEYOND && x <= answer->width + BEYOND && y >= -BEYOND &&
         y <= answer->height + BEYOND;
}

/* graph SCALE WIDTH HEIGHT */
static bool read_graph_line(answer *answer) {
  double scale;
  if (!graphviz_read_real(answer, 1, &scale) || scale != 1) return false;
  if (!graphviz_read_real(answer, 1e6, &answer->width) ||
      !graphviz_read_real(answer, 1e6, &answer->height))
    return false;
  answer->width *= points_per_inch;
  answer->height *= points_per_inch;
  answer->layout->width = answer->width + 2 * LAYOUT_MARGIN;
  answer->layout->height = answer->height + 2 * LAYOUT_MARGIN;
  return answer->width > 0 && answer->height > 0;
}

/* node NAME X Y ...: the centre */
static bool read_node_line(answer *answer) {
  uint32_t i;
  layout_point point;
  if (!read_index(answer, answer->layout->n_boxes, &i) || answer->placed[i] ||
      !graphviz_read_point(answer, &point))
    return false;
  layout_box *box = &answer->layout->boxes[i];
  box->x = point.x;
  box->y = point.y - box->height / 2;
  answer->placed[i] = true;
  return true;
}

static layout_edge *find_edge(const layout *layout, uint32_t from, uint32_t to) {
  for (uint32_t i = 0; i < layout->n_edges; i++)
    if (layout->edges[i].from == from && layout->edges[i].to == to && !layout->edges[i].cut)
      return &layout->edges[i];
  return NULL;
}

/* edge TAIL HEAD N X1 Y1 ... */
static bool read_edge_line(answer *answer) {
  enum { MAX_POINTS = 3000 };
  uint32_t from, to, n;
  layout_point point;
  if (!read_index(answer, answer->layout->n_boxes, &from) ||
      !read_index(answer, answer->layout->n_boxes, &to))
    return false;
  layout_edge *edge = find_edge(answer->layout, from, to);
  if (!edge || edge->n_points || !read_index(answer, MAX_POINTS, &n) || n < 4 || n % 3 != 1)
    return false;
  for (uint32_t i = 0; i < n; i++)
    if (!graphviz_read_point(answer, &point) || !add_point(answer->layout, edge, point.x, point.y))
      return false;
  return true;
}

static bool graphviz_read_line(answer *reply) {
  static const struct {
    const char *word;
    bool (*read)(answer *reply);
  } kinds[] = {{"graph ", read_graph_line}, {"node ", read_node_line}, {"edge ", read_edge_line}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    const size_t n = strlen(kinds[i].word);
    if (strncmp(reply->at, kinds[i].word, n) != 0) continue;
    reply->at += n;
    /* the graph line must be the first */
    if ((i == 0) != (reply->height == 0) || !kinds[i].read(reply)) return false;
    reply->at = strchr(reply->at, '\n');
    return reply->at && *++reply->at;
  }
  return false;
}

static bool graphviz_is_whole(const answer *answer) {
  for (uint32_t i = 0; i < answer->layout->n_boxes; i++)
    if (!answer->placed[i]) return false;
  for (uint32_t i = 0; i < answer->layout->n_edges; i++)
    if (!answer->layout->edges[i].cut && !answer->layout->edges[i].n_points) return false;
  return true;
}

static bool read_answer(layout *layout, const char *words) {
  answer answer = {.layout = layout,
                   .at = words,
                   .placed = calloc((size_t)layout->n_boxes + 1, sizeof *answer.placed)};
  bool good = answer.placed != NULL;
  while (good && strcmp(answer.at, "stop\n") != 0) good = graphviz_read_line(&answer);
  good = good && graphviz_is_whole(&answer);
  free(answer.placed);
  return good;
}

/* Discards everything read from an invalid answer. */
static void forget_lines(layout *layout) {
  layout->n_points = 0;
  for (uint32_t i = 0; i < layout->n_edges; i++) layout->edges[i].n_points = 0;
}

/* ---------------------------------------------------------------- dot */

static bool read_file_of(const char *folder, text *to) {
  char *path = path_join(folder, "placed");
  file_map map = {0};
  clave_status st = path ? file_map_open(path, &map) : status_no_memory();
  const bool good = !st && map.size <= MAX_BYTES && !memchr(map.data, 0, map.size);
  if (good) text_append(to, (const char *)map.data, map.size);
  file_map_close(&map);
  free(path);
  status_free(st);
  return good && to->size && !to->failed;
}

static bool write_file_of(const char *folder, const text *from) {
  char *path = path_join(folder, "graph");
  clave_status st = path ? file_write(path, from->data, from->size) : status_no_memory();
  free(path);
  const bool good = !st;
  status_free(st);
  return good;
}

/* Runs dot without a shell. Returns NULL on success, "" if the program does not exist, otherwise a
 * description of the failure. */
static const char *run_dot(const char *program, const char *folder) {
  const char *const arguments[] = {program, "-Tplain", "-oplaced", "graph", NULL};
  tool *tool;
  char *log = path_join(folder, "said");
  clave_status st = log ? tool_start(arguments, folder, log, &tool) : status_no_memory();
  free(log);
  if (st) {
    status_free(st);
    return "";
  }
  const int code = tool_end_within(tool, LATEST_MS);
  if (code == 128 + 9) return "Graphviz took too long, so the built-in layout is used";
  if (code == 127) return ""; /* some systems report a missing program only now */
  return code ? "Graphviz failed, so the built-in layout is used" : NULL;
}

static const char *graphviz_place(layout *layout, const char *program, const char *folder) {
  text words = {0};
  write_dot_input(layout, &words);
  const bool is_written = !words.failed && write_file_of(folder, &words);
  text_clear(&words);
  const char *why = is_written ? run_dot(program, folder) : "";
  if (!why && (!read_file_of(folder, &words) || !read_answer(layout, words.data))) {
    forget_lines(layout);
    why = "Graphviz wrote no usable layout, so the built-in layout is used";
  }
  text_free(&words);
  return why;
}

bool place_by_graphviz(layout *layout, const char **why) {
  const char *given = getenv("CLAVE_DOT"), *program = given && *given ? given : "dot";
  uint64_t removed;
  *why = "";
  if (strcmp(program, "off") == 0 || layout->n_boxes == 0) return false;
  if (layout->n_boxes > MAX_BOXES || layout->n_edges > MAX_EDGES) return false;
  char *folder = folder_create_unique(temporary_folder(), "clave-dot-"), *path = NULL;
  clave_status st =
      strchr(program, '/') ? path_absolute(program, &path) : NULL; /* dot runs elsewhere */
  const char *wrong = folder && !st ? graphviz_place(layout, path ? path : program, folder) : "";
  if (folder) (void)folder_remove(folder, &removed);
  status_free(st);
  free(folder);
  free(path);
  if (wrong) *why = wrong;
  return !wrong;
}
