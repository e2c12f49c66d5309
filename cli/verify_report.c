/* Reports errors as a text table, JSON and HTML. */
#include "cli/verify_report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/html.h"
#include "json/writer.h"

static const char *const verdicts[] = {[NODE_UNMATCHED] = "",
                                       [NODE_GOOD] = "good",
                                       [NODE_WRONG] = "wrong",
                                       [NODE_AMPLIFIES] = "amplified",
                                       [NODE_OTHER_SHAPE] = "other shape"};

static bool is_compared(const stage *stage) {
  return stage->name && stage->pair.errors && stage->compared;
}

/* Returns the node's op, or "output_0" for an output. */
static const char *verify_report_op_of(const verification *verification, const record *record) {
  return record->node < verification->graph.n_nodes ? verification->graph.nodes[record->node].op
                                                    : "output";
}

static const char *verify_report_name_of(const verification *verification, const record *record) {
  return record->node < verification->graph.n_nodes
             ? verification->graph.nodes[record->node].name
             : verification->graph.outputs[record->node - verification->graph.n_nodes].name;
}

/* Returns the allowed difference at the element that differed most, in the whole run. */
static double bound_of(const node_error *error) { return error->total.allowed; }

/* ---------------------------------------------------------------- text */

static void write_number_cell(columns *table, const stage *stage, size_t i, double number) {
  if (stage->pointers[i]) {
    columns_cell(table, "%.3g", number);
  } else {
    columns_cell(table, "-");
  }
}

static void verify_report_write_row(const verification *verification, const stage *stage, size_t i,
                                    columns *table, page *cell) {
  const record *record = &verification->base.items[i];
  const node_error *error = &stage->pair.errors[i];
  columns_cell(table, "%" PRIu32, record->node);
  columns_cell(table, "%s", verify_report_op_of(verification, record));
  cell->size = 0;
  page_visible(cell, verify_report_name_of(verification, record));
  columns_cell(table, "%s", cell->size ? cell->data : "");
  write_number_cell(table, stage, i, error->total.largest);
  write_number_cell(table, stage, i, bound_of(error));
  write_number_cell(table, stage, i, error->own.largest);
  write_number_cell(table, stage, i, error->own.allowed);
  write_number_cell(table, stage, i, error->inputs_error);
  columns_cell(table, "%s", verdicts[error->verdict]);
}

static void verify_report_write_table(const verification *verification, const stage *stage,
                                      page *out) {
  columns table = {
      .n_columns = 9,
      .right = {[0] = true, [3] = true, [4] = true, [5] = true, [6] = true, [7] = true}};
  static const char *const titles[] = {"node",      "op",    "name",   "error", "bound",
                                       "own error", "bound", "inputs", ""};
  page cell = {0};
  text_printf(out, "\n%s, compared with %s\n", stage->name, stage->against);
  for (size_t i = 0; i < LENGTH(titles); i++) columns_cell(&table, "%s", titles[i]);
  for (size_t i = 0; i < verification->base.count; i++)
    if (stage->pointers[i] || !stage->pair.has_only_outputs)
      verify_report_write_row(verification, stage, i, &table, &cell);
  columns_write(&table, 0, out);
  out->failed |= cell.failed;
  text_free(&cell);
}

void write_errors_table(const verification *verification, page *out) {
  for (int k = 0; k < N_STAGES; k++)
    if (is_compared(&verification->stages[k]))
      verify_report_write_table(verification, &verification->stages[k], out);
  text_puts(out, "\n");
}

/* ---------------------------------------------------------------- JSON */

static void write_difference(json_writer *writer, const char *key, const difference *difference) {
  emit_record(writer, key);
  emit_number(writer, "largest", difference->largest);
  emit_size(writer, "element", difference->element);
  emit_number(writer, "got", difference->got);
  emit_number(writer, "expected", difference->expected);
  emit_number(writer, "allowed", difference->allowed);
  emit_bool(writer, "beyond", difference->found);
  emit_end_object(writer);
}

static void verify_report_write_node_json(json_writer *writer, const verification *verification,
                                          const stage *stage, size_t i) {
  const record *record = &verification->base.items[i];
  const node_error *error = &stage->pair.errors[i];
  emit_object(writer, NULL);
  emit_integer(writer, "node", record->node);
  emit_string(writer, "op", verify_report_op_of(verification, record));
  emit_string(writer, "name", verify_report_name_of(verification, record));
  emit_integer(writer, "slot", record->slot);
  emit_string(writer, "verdict",
              error->verdict == NODE_UNMATCHED ? NULL : verdicts[error->verdict]);
  emit_number(writer, "terms", error->terms);
  emit_number(writer, "inputs_error", error->inputs_error);
  if (stage->pointers[i]) write_difference(writer, "total", &error->total);
  if (stage->pointers[i]) write_difference(writer, "own", &error->own);
  emit_end_object(writer);
}

static void write_stage_json(json_writer *writer, const verification *verification,
                             const stage *stage) {
  page what = {0};
  describe_stage(verification, stage, &what);
  emit_object(writer, NULL);
  emit_string(writer, "stage", stage->name);
  emit_string(writer, "against", stage->against);
  emit_size(writer, "compared", stage->compared);
  emit_string(writer, "differs", what.size ? what.data : NULL);
  emit_array(writer, "nodes");
  for (size_t i = 0; i < verification->base.count; i++)
    verify_report_write_node_json(writer, verification, stage, i);
  emit_end_array(writer);
  emit_end_object(writer);
  writer->out->failed |= what.failed;
  text_free(&what);
}

void write_errors_json(const verification *verification, page *out) {
  json_writer writer = {.out = out};
  page device = {0};
  page_device(&device, verification->model);
  emit_object(&writer, NULL);
  emit_string(&writer, "method", verification->model->method.name);
  emit_string(&writer, "device", device.data);
  emit_array(&writer, "stages");
  for (int k = 0; k < N_STAGES; k++)
    if (is_compared(&verification->stages[k]))
      write_stage_json(&writer, verification, &verification->stages[k]);
  emit_end_array(&writer);
  emit_end_object(&writer);
  out->failed |= device.failed;
  text_free(&device);
}

/* ---------------------------------------------------------------- a page */

static const struct {
  node_verdict verdict;
  const char *fill, *words;
} colours[] = {{NODE_GOOD, "#dff3df", "within the bound"},
               {NODE_WRONG, "#ff8f8f", "wrong: beyond the bound on the same operands"},
               {NODE_AMPLIFIES, "#ffd08a", "beyond the bound by what it reads"},
               {NODE_OTHER_SHAPE, "#ff8f8f", "another dtype or shape"},
               {NODE_UNMATCHED, "#ececec", "not compared"}};

static const char *verify_report_colour_of(node_verdict verdict) {
  for (size_t i = 0; i < LENGTH(colours); i++)
    if (colours[i].verdict == verdict) return colours[i].fill;
  return NULL;
}

static bool is_worse(node_verdict a, node_verdict b) {
  static const int order[] = {[NODE_UNMATCHED] = 0,
                              [NODE_GOOD] = 1,
                              [NODE_AMPLIFIES] = 2,
                              [NODE_WRONG] = 3,
                              [NODE_OTHER_SHAPE] = 3};
  return order[a] > order[b];
}

/* Colours each node by its worst record: a node may run more than once, or have several results. */
static int colour_nodes(verification *verification, const stage *stage) {
  for (uint32_t i = 0; i < verification->graph.n_nodes; i++) {
    node_verdict worst = NODE_UNMATCHED;
    const node_error *shown = NULL;
    graph_node *node = &verification->graph.nodes[i];
    for (size_t k = 0; k < verification->base.count; k++) {
      const node_error *error = &stage->pair.errors[k];
      if (verification->base.items[k].node != i || !stage->pointers[k] ||
          !(!shown || is_worse(error->verdict, worst)))
        continue;
      worst = error->verdict;
      shown = error;
    }
    page note = {0};
    if (shown) text_printf(&note, "off by %.3g of %.3g", shown->total.largest, bound_of(shown));
    free(node->note);
    node->note = note.data;
    node->fill = node->is_view ? NULL : verify_report_colour_of(worst);
    if (note.failed) return fail_memory();
  }
  return EXIT_GOOD;
}

static void write_html_row(const verification *verification, const stage *stage, size_t i,
                           page *out) {
  const record *record = &verification->base.items[i];
  const node_error *error = &stage->pair.errors[i];
  if (!stage->pointers[i]) return;
  text_printf(out, "<tr style=\"background:%s\"><td>%" PRIu32 "<td>",
              verify_report_colour_of(error->verdict), record->node);
  page_markup(out, verify_report_op_of(verification, record));
  text_puts(out, "<td>");
  page_markup(out, verify_report_name_of(verification, record));
  text_printf(out, "<td>%.3g<td>%.3g<td>%.3g<td>%.3g<td>%.3g<td>%s\n", error->total.largest,
              bound_of(error), error->own.largest, error->own.allowed, error->inputs_error,
              verdicts[error->verdict]);
}

static int verify_report_write_graph(verification *verification, const stage *stage, page *out) {
  text_puts(out, "<p>");
  for (size_t i = 0; i < LENGTH(colours); i++)
    text_printf(out, "<span style=\"background:%s\">%s</span> ", colours[i].fill, colours[i].words);
  text_puts(out, "</p>\n");
  TRY_EXIT(colour_nodes(verification, stage));
  begin_graph(out, false);
  TRY_EXIT(write_svg(&verification->graph, NULL, out));
  end_graph(out);
  return EXIT_GOOD;
}

static int write_section(verification *verification, const stage *stage, page *out) {
  page what = {0};
  describe_stage(verification, stage, &what);
  text_printf(out, "<h2>%s, compared with %s</h2>\n<p>", stage->name, stage->against);
  page_markup(out, what.size ? what.data : "Nothing differs by more than rounding explains.");
  text_puts(out, "</p>\n");
  int result = what.failed ? fail_memory() : EXIT_GOOD;
  text_free(&what);
  if (!result && !stage->pair.has_only_outputs)
    result = verify_report_write_graph(verification, stage, out);
  text_puts(out,
            "<table><tr><th>node<th>op<th>name<th>error<th>bound<th>own error<th>bound"
            "<th>error of what it reads<th>\n");
  for (size_t i = 0; i < verification->base.count; i++) write_html_row(verification, stage, i, out);
  text_puts(out, "</table>\n");
  return result;
}

int write_error_page(verification *verification, const char *title, const char *path) {
  page out = {0};
  int result = EXIT_GOOD;
  bool any = false;
  begin_html(&out, title);
  for (int k = 0; k < N_STAGES && !result; k++) {
    if (!is_compared(&verification->stages[k])) continue;
    result = write_section(verification, &verification->stages[k], &out);
    any = true;
  }
  if (!any) text_puts(&out, "<p>There was nothing to compare the CPU backend with.</p>\n");
  end_html(&out);
  if (!result) result = out.failed ? fail_memory() : write_file(path, &out);
  text_free(&out);
  return result;
}
