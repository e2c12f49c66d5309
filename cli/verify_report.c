/* Tables of errors, in three languages. */
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
                                       [NODE_OTHER_FORM] = "other shape"};

static bool is_compared(const stage *s) { return s->name && s->pair.errors && s->compared; }

/* "output_0" for what is no node. */
static const char *op_of(const verification *v, const record *r) {
  return r->node < v->g.n_nodes ? v->g.nodes[r->node].op : "output";
}

static const char *name_of(const verification *v, const record *r) {
  return r->node < v->g.n_nodes ? v->g.nodes[r->node].name
                                : v->g.outputs[r->node - v->g.n_nodes].name;
}

/* What an element may differ by, where it differed most, of the whole run. */
static double bound_of(const node_error *e) { return e->total.allowed; }

/* ---------------------------------------------------------------- text */

static void write_number_cell(columns *table, const stage *s, size_t i, double number) {
  if (s->pointers[i]) {
    columns_cell(table, "%.3g", number);
  } else {
    columns_cell(table, "-");
  }
}

static void write_row(const verification *v, const stage *s, size_t i, columns *table, page *cell) {
  const record *r = &v->base.items[i];
  const node_error *e = &s->pair.errors[i];
  columns_cell(table, "%" PRIu32, r->node);
  columns_cell(table, "%s", op_of(v, r));
  cell->size = 0;
  page_visible(cell, name_of(v, r));
  columns_cell(table, "%s", cell->size ? cell->data : "");
  write_number_cell(table, s, i, e->total.largest);
  write_number_cell(table, s, i, bound_of(e));
  write_number_cell(table, s, i, e->own.largest);
  write_number_cell(table, s, i, e->own.allowed);
  write_number_cell(table, s, i, e->inputs_error);
  columns_cell(table, "%s", verdicts[e->verdict]);
}

static void write_table(const verification *v, const stage *s, page *out) {
  columns table = {
      .n_columns = 9,
      .right = {[0] = true, [3] = true, [4] = true, [5] = true, [6] = true, [7] = true}};
  static const char *const titles[] = {"node",      "op",    "name",   "error", "bound",
                                       "own error", "bound", "inputs", ""};
  page cell = {0};
  text_printf(out, "\n%s, compared with %s\n", s->name, s->against);
  for (size_t i = 0; i < LENGTH(titles); i++) columns_cell(&table, "%s", titles[i]);
  for (size_t i = 0; i < v->base.count; i++)
    if (s->pointers[i] || !s->pair.has_outputs_alone) write_row(v, s, i, &table, &cell);
  columns_write(&table, 0, out);
  out->failed |= cell.failed;
  text_free(&cell);
}

void write_errors_table(const verification *v, page *out) {
  for (int k = 0; k < N_STAGES; k++)
    if (is_compared(&v->stages[k])) write_table(v, &v->stages[k], out);
  text_puts(out, "\n");
}

/* ---------------------------------------------------------------- JSON */

static void write_difference(json_writer *j, const char *key, const difference *d) {
  emit_record(j, key);
  emit_number(j, "largest", d->largest);
  emit_size(j, "element", d->element);
  emit_number(j, "got", d->got);
  emit_number(j, "expected", d->expected);
  emit_number(j, "allowed", d->allowed);
  emit_bool(j, "beyond", d->found);
  emit_end_object(j);
}

static void write_node_json(json_writer *j, const verification *v, const stage *s, size_t i) {
  const record *r = &v->base.items[i];
  const node_error *e = &s->pair.errors[i];
  emit_object(j, NULL);
  emit_integer(j, "node", r->node);
  emit_string(j, "op", op_of(v, r));
  emit_string(j, "name", name_of(v, r));
  emit_integer(j, "slot", r->slot);
  emit_string(j, "verdict", e->verdict == NODE_UNMATCHED ? NULL : verdicts[e->verdict]);
  emit_number(j, "terms", e->terms);
  emit_number(j, "inputs_error", e->inputs_error);
  if (s->pointers[i]) write_difference(j, "total", &e->total);
  if (s->pointers[i]) write_difference(j, "own", &e->own);
  emit_end_object(j);
}

static void write_stage_json(json_writer *j, const verification *v, const stage *s) {
  page what = {0};
  describe_stage(v, s, &what);
  emit_object(j, NULL);
  emit_string(j, "stage", s->name);
  emit_string(j, "against", s->against);
  emit_size(j, "compared", s->compared);
  emit_string(j, "differs", what.size ? what.data : NULL);
  emit_array(j, "nodes");
  for (size_t i = 0; i < v->base.count; i++) write_node_json(j, v, s, i);
  emit_end_array(j);
  emit_end_object(j);
  j->out->failed |= what.failed;
  text_free(&what);
}

void write_errors_json(const verification *v, page *out) {
  json_writer j = {.out = out};
  page device = {0};
  page_device(&device, v->m);
  emit_object(&j, NULL);
  emit_string(&j, "method", v->m->method.name);
  emit_string(&j, "device", device.data);
  emit_array(&j, "stages");
  for (int k = 0; k < N_STAGES; k++)
    if (is_compared(&v->stages[k])) write_stage_json(&j, v, &v->stages[k]);
  emit_end_array(&j);
  emit_end_object(&j);
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
               {NODE_OTHER_FORM, "#ff8f8f", "another dtype or shape"},
               {NODE_UNMATCHED, "#ececec", "not compared"}};

static const char *colour_of(node_verdict verdict) {
  for (size_t i = 0; i < LENGTH(colours); i++)
    if (colours[i].verdict == verdict) return colours[i].fill;
  return NULL;
}

static bool is_worse(node_verdict a, node_verdict b) {
  static const int order[] = {[NODE_UNMATCHED] = 0,
                              [NODE_GOOD] = 1,
                              [NODE_AMPLIFIES] = 2,
                              [NODE_WRONG] = 3,
                              [NODE_OTHER_FORM] = 3};
  return order[a] > order[b];
}

/* Of a node that ran more than once, or gives more than one tensor, the worst. */
static int colour_nodes(verification *v, const stage *s) {
  for (uint32_t i = 0; i < v->g.n_nodes; i++) {
    node_verdict worst = NODE_UNMATCHED;
    const node_error *shown = NULL;
    graph_node *n = &v->g.nodes[i];
    for (size_t k = 0; k < v->base.count; k++) {
      const node_error *e = &s->pair.errors[k];
      if (v->base.items[k].node != i || !s->pointers[k] || !(!shown || is_worse(e->verdict, worst)))
        continue;
      worst = e->verdict;
      shown = e;
    }
    page note = {0};
    if (shown) text_printf(&note, "off by %.3g of %.3g", shown->total.largest, bound_of(shown));
    free(n->note);
    n->note = note.data;
    n->fill = n->is_view ? NULL : colour_of(worst);
    if (note.failed) return fail_memory();
  }
  return EXIT_GOOD;
}

static void write_html_row(const verification *v, const stage *s, size_t i, page *out) {
  const record *r = &v->base.items[i];
  const node_error *e = &s->pair.errors[i];
  if (!s->pointers[i]) return;
  text_printf(out, "<tr style=\"background:%s\"><td>%" PRIu32 "<td>", colour_of(e->verdict),
              r->node);
  page_markup(out, op_of(v, r));
  text_puts(out, "<td>");
  page_markup(out, name_of(v, r));
  text_printf(out, "<td>%.3g<td>%.3g<td>%.3g<td>%.3g<td>%.3g<td>%s\n", e->total.largest,
              bound_of(e), e->own.largest, e->own.allowed, e->inputs_error, verdicts[e->verdict]);
}

static int write_graph(verification *v, const stage *s, page *out) {
  text_puts(out, "<p>");
  for (size_t i = 0; i < LENGTH(colours); i++)
    text_printf(out, "<span style=\"background:%s\">%s</span> ", colours[i].fill, colours[i].words);
  text_puts(out, "</p>\n");
  begin_graph(out);
  TRY_EXIT(colour_nodes(v, s));
  TRY_EXIT(write_svg(&v->g, out));
  text_puts(out, "</div>\n");
  return EXIT_GOOD;
}

static int write_section(verification *v, const stage *s, page *out) {
  page what = {0};
  describe_stage(v, s, &what);
  text_printf(out, "<h2>%s, compared with %s</h2>\n<p>", s->name, s->against);
  page_markup(out, what.size ? what.data : "Nothing differs by more than rounding explains.");
  text_puts(out, "</p>\n");
  int result = what.failed ? fail_memory() : EXIT_GOOD;
  text_free(&what);
  if (!result && !s->pair.has_outputs_alone) result = write_graph(v, s, out);
  text_puts(out,
            "<table><tr><th>node<th>op<th>name<th>error<th>bound<th>own error<th>bound"
            "<th>error of what it reads<th>\n");
  for (size_t i = 0; i < v->base.count; i++) write_html_row(v, s, i, out);
  text_puts(out, "</table>\n");
  return result;
}

int write_error_page(verification *v, const char *title, const char *path) {
  page out = {0};
  int result = EXIT_GOOD;
  bool any = false;
  begin_html(&out, title);
  for (int k = 0; k < N_STAGES && !result; k++) {
    if (!is_compared(&v->stages[k])) continue;
    result = write_section(v, &v->stages[k], &out);
    any = true;
  }
  if (!any) text_puts(&out, "<p>There was nothing to compare the CPU backend with.</p>\n");
  end_html(&out);
  if (!result) result = out.failed ? fail_memory() : write_file(path, &out);
  text_free(&out);
  return result;
}
