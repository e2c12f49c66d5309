/* A breakdown in tables, and as JSON. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/breakdown.h"
#include "cli/command.h"

/* ---------------------------------------------------------------- tables */

static double share_of(const breakdown *b, double ns) { return b->total > 0 ? ns / b->total : 0; }

static bool has_devices(const breakdown *b) {
  for (uint32_t i = 1; i < b->n_rows; i++)
    if (strcmp(b->rows[i].device, b->rows[0].device) != 0) return true;
  return false;
}

/* A dash for what is not known. */
static void number_cell(columns *t, bool known, double value, const char *format) {
  page cell = {0};
  if (known) {
    text_printf(&cell, format, value);
  } else {
    text_puts(&cell, "\xe2\x80\x93");
  }
  columns_cell(t, "%s", cell.data ? cell.data : "");
  t->cells.failed |= cell.failed;
  text_free(&cell);
}

static void text_cell(columns *t, const char *words) {
  page cell = {0};
  page_visible(&cell, words);
  columns_cell(t, "%s", cell.size ? cell.data : "");
  t->cells.failed |= cell.failed;
  text_free(&cell);
}

static const char *const measures[] = {"ms", "%",    "GFLOP",      "GFLOP/s",
                                       "MB", "GB/s", "% of limit", "limit"};
enum { RIGHT_MEASURES = LENGTH(measures) - 1 };

static void time_cells(columns *t, const breakdown *b, double ns) {
  columns_cell(t, ns < 1e6 ? "%.4f" : "%.3f", ns * 1e-6);
  columns_cell(t, "%.1f", 100 * share_of(b, ns));
}

static void measure_cells(columns *t, const breakdown *b, const work_row *r) {
  const bool takes_time = r->ns > 0;
  time_cells(t, b, r->ns);
  number_cell(t, r->flops > 0, r->flops * 1e-9, "%.3g");
  number_cell(t, r->flops > 0 && takes_time, rate_of(r->flops, r->ns), "%.1f");
  number_cell(t, r->bytes > 0, r->bytes * 1e-6, "%.3g");
  number_cell(t, r->bytes > 0 && takes_time, rate_of(r->bytes, r->ns), "%.1f");
  number_cell(t, r->limit > 0 && takes_time, percent_of_limit(r), "%.0f");
  columns_cell(t, "%s",
               r->limit <= 0         ? "\xe2\x80\x93"
               : is_compute_bound(r) ? "compute"
                                     : "memory");
}

/* The time that no row has, and all of it. */
static void last_cells(columns *t, const breakdown *b, const char *title, int before, double ns) {
  text_cell(t, title);
  for (int i = 1; i < before; i++) columns_cell(t, "%s", "");
  time_cells(t, b, ns);
  for (size_t i = 2; i < LENGTH(measures); i++) columns_cell(t, "%s", "");
}

static void write_ops(const breakdown *b, const work_row *groups, uint32_t n, page *out) {
  const int first = has_devices(b) ? 3 : 2;
  columns t = {.n_columns = (uint32_t)first + LENGTH(measures)};
  for (int i = first - 1; i < first + RIGHT_MEASURES; i++) t.right[i] = true;
  text_cell(&t, "op");
  if (first == 3) text_cell(&t, "device");
  text_cell(&t, "times");
  for (size_t i = 0; i < LENGTH(measures); i++) text_cell(&t, measures[i]);
  for (uint32_t i = 0; i < n; i++) {
    text_cell(&t, groups[i].op);
    if (first == 3) text_cell(&t, groups[i].device);
    columns_cell(&t, "%" PRIu32, groups[i].count);
    measure_cells(&t, b, &groups[i]);
  }
  last_cells(&t, b, "between kernels", first, b->between);
  last_cells(&t, b, "the run", first, b->total);
  columns_write(&t, 2, out);
}

static void write_nodes(const breakdown *b, uint32_t n, page *out) {
  columns t = {.n_columns = 3 + LENGTH(measures) + 1, .right = {[0] = true}};
  for (int i = 3; i < 3 + RIGHT_MEASURES; i++) t.right[i] = true;
  text_cell(&t, "node");
  text_cell(&t, "op");
  text_cell(&t, "name");
  for (size_t i = 0; i < LENGTH(measures); i++) text_cell(&t, measures[i]);
  text_cell(&t, "shapes");
  for (uint32_t i = 0; i < n; i++) {
    const work_row *r = &b->rows[i];
    page shapes = {0};
    columns_cell(&t, "%" PRIu32, r->node);
    text_cell(&t, r->op);
    text_cell(&t, r->name);
    measure_cells(&t, b, r);
    text_printf(&shapes, "%s%s", r->shapes, r->shapes_vary ? ", and others" : "");
    if (r->count != 1) text_printf(&shapes, " (%" PRIu32 " times)", r->count);
    text_cell(&t, shapes.data ? shapes.data : "");
    t.cells.failed |= shapes.failed;
    text_free(&shapes);
  }
  columns_write(&t, 2, out);
}

/* A device's come behind that of F32, which it has first. */
static void write_peaks(const breakdown *b, page *out) {
  for (size_t i = 0; i < b->n_peaks; i++) {
    const clave_peak *first = &b->peaks[i];
    if (first->dtype != CLAVE_F32) continue;
    text_puts(out, "peaks of ");
    page_visible(out, first->device);
    text_printf(out, ": %.1f GB/s", first->bytes_a_second * 1e-9);
    for (size_t k = i; k < b->n_peaks; k++) {
      const clave_peak *p = &b->peaks[k];
      if (strcmp(p->device, first->device) != 0) continue;
      text_printf(out, ", %.1f GFLOP/s in %s", p->flops_a_second * 1e-9,
                  clave_dtype_name(p->dtype));
    }
    text_puts(out, "\n");
  }
}

int write_breakdown(const breakdown *b, int64_t nodes, page *out) {
  uint32_t n;
  work_row *groups = group_by_op(b, &n);
  if (!groups) return fail_memory();
  text_printf(out,
              "\nwhere the time goes: medians of %" PRIu32 " profiled run%s, of %.3f ms each\n",
              b->n_runs, b->n_runs == 1 ? "" : "s", b->clock * 1e-6);
  write_peaks(b, out);
  write_ops(b, groups, n, out);
  free(groups);
  const uint32_t listed = nodes < b->n_rows ? (uint32_t)nodes : b->n_rows;
  if (!listed) return EXIT_GOOD;
  text_printf(out, "\nthe %" PRIu32 " slowest of %" PRIu32 " nodes and copies\n", listed,
              b->n_rows);
  write_nodes(b, listed, out);
  return EXIT_GOOD;
}

/* ---------------------------------------------------------------- JSON */

static void emit_known(json_writer *j, const char *key, bool known, double value) {
  if (known) {
    emit_number(j, key, value);
  } else {
    emit_string(j, key, NULL);
  }
}

static void emit_measures(const breakdown *b, const work_row *r, json_writer *j) {
  const bool has_flops = r->flops >= 0, has_limit = r->limit > 0;
  emit_integer(j, "times", r->count);
  emit_number(j, "ms", r->ns * 1e-6);
  emit_number(j, "share", share_of(b, r->ns));
  emit_known(j, "flop", has_flops, r->flops);
  emit_number(j, "bytes", r->bytes);
  emit_known(j, "gflop_s", has_flops && r->ns > 0, rate_of(r->flops, r->ns));
  emit_known(j, "gb_s", r->ns > 0, rate_of(r->bytes, r->ns));
  emit_known(j, "compute_ms", has_limit, r->compute * 1e-6);
  emit_known(j, "memory_ms", has_limit, r->memory * 1e-6);
  emit_known(j, "percent_of_limit", has_limit && r->ns > 0, percent_of_limit(r));
  emit_string(j, "limit", !has_limit ? NULL : is_compute_bound(r) ? "compute" : "memory");
}

static void emit_node(const breakdown *b, const work_row *r, json_writer *j) {
  static const char *const kinds[] = {"node", "copy", "transfer"};
  emit_record(j, NULL);
  emit_integer(j, "node", r->node);
  emit_string(j, "kind", kinds[r->kind]);
  emit_string(j, "op", r->op);
  emit_string(j, "name", r->name);
  emit_string(j, "device", r->device);
  emit_string(j, "dtype", r->kind == CLAVE_TIMING_NODE ? clave_dtype_name(r->dtype) : NULL);
  emit_string(j, "shapes", r->shapes);
  emit_bool(j, "shapes_vary", r->shapes_vary);
  emit_measures(b, r, j);
  emit_end_object(j);
}

static void emit_peaks(const breakdown *b, json_writer *j) {
  emit_array(j, "peaks");
  for (size_t i = 0; i < b->n_peaks; i++) {
    const clave_peak *p = &b->peaks[i];
    emit_record(j, NULL);
    emit_string(j, "device", p->device);
    emit_string(j, "dtype", clave_dtype_name(p->dtype));
    emit_number(j, "gflop_s", p->flops_a_second * 1e-9);
    emit_number(j, "gb_s", p->bytes_a_second * 1e-9);
    emit_end_object(j);
  }
  emit_end_array(j);
}

int write_breakdown_json(const breakdown *b, json_writer *j) {
  uint32_t n;
  work_row *groups = group_by_op(b, &n);
  if (!groups) return fail_memory();
  emit_object(j, "breakdown");
  emit_integer(j, "runs", b->n_runs);
  emit_number(j, "run_ms", b->total * 1e-6);
  emit_number(j, "clock_ms", b->clock * 1e-6);
  emit_number(j, "between_ms", b->between * 1e-6);
  emit_peaks(b, j);
  emit_array(j, "ops");
  for (uint32_t i = 0; i < n; i++) {
    emit_record(j, NULL);
    emit_string(j, "op", groups[i].op);
    emit_string(j, "device", groups[i].device);
    emit_measures(b, &groups[i], j);
    emit_end_object(j);
  }
  emit_end_array(j);
  emit_array(j, "nodes");
  for (uint32_t i = 0; i < b->n_rows; i++) emit_node(b, &b->rows[i], j);
  emit_end_array(j);
  emit_end_object(j);
  free(groups);
  return EXIT_GOOD;
}
