/* clave inspect --html: a method's graph with fused ops and times, its memory plan, and a table. */
#include "cli/picture.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/files.h"
#include "cli/folds.h"
#include "cli/html.h"
#include "cli/inputs.h"
#include "cli/progress.h"
#include "json/fields.h"

/* ---------------------------------------------------------------- times */

/* Adds the time of a trace event "X". Other events are ignored. */
static void add_event(const json *event, const graph *graph, node_times *out) {
  const char *kind = text_or_null(event, "ph"), *what = text_or_null(event, "cat");
  const json *took = json_member(event, "dur"), *args = json_member(event, "args"),
             *index = args ? field_or_null(args, "index") : NULL;
  double us;
  uint64_t node;
  if (!kind || strcmp(kind, "X") != 0) return;
  if (!took || !json_f64(took, &us) || !(us >= 0)) return;
  out->total += us;
  if (!what || strcmp(what, "op") != 0) {
    out->moves += us;
  } else if (index && json_u64(index, &node) && node < graph->n_nodes) {
    out->us[node] += us;
  }
}

static int read_events(const page *file, const char *path, const graph *graph, node_times *out) {
  json *events = NULL;
  clave_status st = json_parse(file->data ? file->data : "", file->size, &events);
  if (st) {
    int result = fail("%s: %s", path, clave_status_message(st));
    clave_status_free(st);
    return result;
  }
  const bool good = json_kind_of(events) == JSON_ARRAY;
  for (const json *e = good ? json_first(events) : NULL; e; e = json_next(e))
    if (json_kind_of(e) == JSON_OBJECT) add_event(e, graph, out);
  json_free(events);
  return good && out->total > 0 ? EXIT_GOOD
                                : fail(
                                      "%s has no times of this program's nodes: write a profile by "
                                      "clave run PROG --profile",
                                      path);
}

int read_times(const char *path, const graph *graph, node_times *out) {
  page file = {0};
  *out = (node_times){.us = calloc((size_t)graph->n_nodes + 1, sizeof *out->us)};
  int result = out->us ? read_file(path, &file) : fail_memory();
  if (!result) result = read_events(&file, path, graph, out);
  text_free(&file);
  return result;
}

void free_times(node_times *times) {
  free(times->us);
  *times = (node_times){0};
}

/* Returns the colour for a share of the total time. Colours change at 2 %, 5 %, 10 % and 20 %. */
static const char *picture_colour_of(double share) {
  static const char *const colours[] = {"#f7f7f2", "#fdecc8", "#fbd08b", "#f7a35c", "#ee6c4d"};
  return colours[(share >= 0.02) + (share >= 0.05) + (share >= 0.1) + (share >= 0.2)];
}

static void write_share(double us, const node_times *times, page *out) {
  page_time(out, us);
  text_printf(out, ", %.1f %%", 100 * us / times->total);
}

int show_times(const node_times *times, graph *graph) {
  for (uint32_t i = 0; i < graph->n_nodes; i++) {
    graph_node *node = &graph->nodes[i];
    page note = {0};
    if (times->us[i] > 0) write_share(times->us[i], times, &note);
    free(node->note);
    node->note = note.data;
    node->fill = node->is_view ? NULL : picture_colour_of(times->us[node->into] / times->total);
    if (note.failed) return fail_memory();
  }
  return EXIT_GOOD;
}

/* ---------------------------------------------------------------- the page */

static void picture_write_row(const graph *graph, uint32_t i, const node_times *times, page *out) {
  const graph_node *node = &graph->nodes[i];
  text_printf(out, "<tr data-node=\"%" PRIu32 "\"><td>%" PRIu32 "<td>", i, i);
  page_markup(out, node->op);
  text_puts(out, "<td>");
  page_markup(out, node->name);
  text_puts(out, "<td>");
  page_markup(out, node->where ? node->where : "");
  if (node->into != i) text_printf(out, " with %" PRIu32, node->into);
  text_puts(out, "<td>");
  for (uint32_t k = 0; k < node->n_writes; k++) {
    page shape = {0};
    page_info(&shape, &graph->slots[node_writes(node)[k]]);
    text_puts(out, k ? ", " : "");
    page_markup(out, shape.data ? shape.data : "");
    out->failed |= shape.failed;
    text_free(&shape);
  }
  if (times && times->us[i] > 0) {
    text_printf(out, "<td style=\"background:%s\">",
                picture_colour_of(times->us[i] / times->total));
    page_time(out, times->us[i]);
    text_printf(out, "<td>%.1f %%", 100 * times->us[i] / times->total);
  }
  text_puts(out, "<td>");
  page_markup(out, node->reason ? node->reason : "");
  text_puts(out, "\n");
}

static void picture_write_head(const model *model, const graph *graph, const node_times *times,
                               page *out) {
  page device = {0};
  page_device(&device, model);
  text_puts(out, "<p>method ");
  page_markup(out, graph->method);
  text_printf(out, ", %" PRIu32 " nodes, on ", graph->n_nodes);
  page_markup(out, device.data ? device.data : "");
  if (times) {
    text_puts(out, "; the profiled run took ");
    page_time(out, times->total);
    text_puts(out, " on its devices, of which ");
    page_time(out, times->moves);
    text_puts(out, " moved data");
  }
  text_puts(out,
            ".</p>\n<p>A dashed box runs in the kernel of the box whose colour it has; a thick "
            "line joins them.</p>\n");
  write_colours(graph, out);
  out->failed |= device.failed;
  text_free(&device);
}

/* Runs once on generated inputs (as in clave bench), so that memory is planned for their sizes.
 * *why: the program's error, or NULL. */
static int picture_run_once(model *model, const text_list *dims, clave_status *why) {
  input_set inputs = {0};
  TRY_EXIT(open_session(model, SESSION_PLAIN));
  int result = prepare_inputs(model, NULL, &(text_list){0}, dims, &inputs);
  if (!result) result = set_inputs(&inputs, model);
  show_progress("running");
  if (!result) *why = clave_session_run(model->session, model->method.name);
  clear_progress();
  free_inputs(&inputs);
  return result;
}

static int picture_write_memory(model *model, const graph *graph, const text_list *dims,
                                page *out) {
  clave_status why = NULL;
  TRY_EXIT(picture_run_once(model, dims, &why));
  text_puts(out, "<h2>memory</h2>\n<p>A run on the smallest inputs that the program accepts");
  for (uint32_t i = 0; i < dims->count; i++) {
    text_puts(out, i ? ", " : ", with ");
    page_markup(out, dims->items[i]);
  }
  if (why) text_puts(out, ", which failed: ");
  page_markup(out, why ? clave_status_message(why) : ".");
  text_puts(out, "</p>\n");
  const bool has_run = !why;
  clave_status_free(why);
  return has_run ? write_arena(model, graph, out) : EXIT_GOOD;
}

/* Adds to each fold's note the time of the nodes that it hides. */
static int show_fold_times(const node_times *times, graph_folds *folds) {
  for (uint32_t i = 0; times && i < folds->n; i++) {
    graph_fold *fold = &folds->items[i];
    const uint32_t begin = fold->first + fold->period,
                   end = fold->first + fold->period * fold->count;
    double us = 0;
    page note = {0};
    for (uint32_t k = begin; k < end; k++) us += times->us[k];
    write_share(us, times, &note);
    fold->note = note.data;
    if (note.failed) return fail_memory();
  }
  return EXIT_GOOD;
}

/* Draws the graph. If blocks repeat, also draws it folded and hides the full drawing. */
static int write_graphs(graph *graph, const node_times *times, page *out) {
  graph_folds folds = {0};
  int result = find_folds(graph, &folds);
  if (!result) result = show_fold_times(times, &folds);
  begin_graph(out, folds.n > 0);
  if (!result && folds.n) result = write_svg(graph, &folds, out);
  if (!result) result = write_svg(graph, NULL, out);
  end_graph(out);
  free_folds(&folds);
  return result;
}

int write_picture(model *model, graph *graph, const char *title, const node_times *times,
                  const text_list *dims, page *out) {
  begin_html(out, title);
  picture_write_head(model, graph, times, out);
  TRY_EXIT(write_graphs(graph, times, out));
  TRY_EXIT(picture_write_memory(model, graph, dims, out));
  text_puts(out, "<h2>nodes</h2>\n<table><tr><th>node<th>op<th>name<th>where<th>result<th>\n");
  for (uint32_t i = 0; i < graph->n_nodes; i++) picture_write_row(graph, i, times, out);
  text_puts(out, "</table>\n");
  end_html(out);
  return out->failed ? fail_memory() : EXIT_GOOD;
}
