/* Writes a breakdown as tables and as JSON. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/breakdown.h"
#include "cli/command.h"

/* ---------------------------------------------------------------- tables */

static double breakdown_report_share_of(const breakdown *breakdown, double ns) {
  return breakdown->total > 0 ? ns / breakdown->total : 0;
}

static bool has_devices(const breakdown *breakdown) {
  for (uint32_t i = 1; i < breakdown->n_rows; i++)
    if (strcmp(breakdown->rows[i].device, breakdown->rows[0].device) != 0) return true;
  return false;
}

/* Writes a dash if the value is unknown. */
static void number_cell(columns *columns, bool known, double value, const char *format) {
  page cell = {0};
  if (known) {
    text_printf(&cell, format, value);
  } else {
    text_puts(&cell, "\xe2\x80\x93");
  }
  columns_cell(columns, "%s", cell.data ? cell.data : "");
  columns->cells.failed |= cell.failed;
  text_free(&cell);
}

static void text_cell(columns *columns, const char *words) {
  page cell = {0};
  page_visible(&cell, words);
  columns_cell(columns, "%s", cell.size ? cell.data : "");
  columns->cells.failed |= cell.failed;
  text_free(&cell);
}

static const char *const measures[] = {"ms", "%",    "GFLOP",      "GFLOP/s",
                                       "MB", "GB/s", "% of limit", "limit"};
enum { RIGHT_MEASURES = LENGTH(measures) - 1 };

static void time_cells(columns *columns, const breakdown *breakdown, double ns) {
  columns_cell(columns, ns < 1e6 ? "%.4f" : "%.3f", ns * 1e-6);
  columns_cell(columns, "%.1f", 100 * breakdown_report_share_of(breakdown, ns));
}

static void measure_cells(columns *columns, const breakdown *breakdown, const work_row *row) {
  const bool takes_time = row->ns > 0;
  time_cells(columns, breakdown, row->ns);
  number_cell(columns, row->flops > 0, row->flops * 1e-9, "%.3g");
  number_cell(columns, row->flops > 0 && takes_time, rate_of(row->flops, row->ns), "%.1f");
  number_cell(columns, row->bytes > 0, row->bytes * 1e-6, "%.3g");
  number_cell(columns, row->bytes > 0 && takes_time, rate_of(row->bytes, row->ns), "%.1f");
  number_cell(columns, row->limit > 0 && takes_time, percent_of_limit(row), "%.0f");
  columns_cell(columns, "%s",
               row->limit <= 0         ? "\xe2\x80\x93"
               : is_compute_bound(row) ? "compute"
                                       : "memory");
}

/* Writes a row that has only a time: the gaps, or the total. */
static void last_cells(columns *columns, const breakdown *breakdown, const char *title, int before,
                       double ns) {
  text_cell(columns, title);
  for (int i = 1; i < before; i++) columns_cell(columns, "%s", "");
  time_cells(columns, breakdown, ns);
  for (size_t i = 2; i < LENGTH(measures); i++) columns_cell(columns, "%s", "");
}

static void breakdown_report_write_ops(const breakdown *breakdown, const work_row *groups,
                                       uint32_t n, page *out) {
  const int first = has_devices(breakdown) ? 3 : 2;
  columns columns = {.n_columns = (uint32_t)first + LENGTH(measures)};
  for (int i = first - 1; i < first + RIGHT_MEASURES; i++) columns.right[i] = true;
  text_cell(&columns, "op");
  if (first == 3) text_cell(&columns, "device");
  text_cell(&columns, "times");
  for (size_t i = 0; i < LENGTH(measures); i++) text_cell(&columns, measures[i]);
  for (uint32_t i = 0; i < n; i++) {
    text_cell(&columns, groups[i].op);
    if (first == 3) text_cell(&columns, groups[i].device);
    columns_cell(&columns, "%" PRIu32, groups[i].count);
    measure_cells(&columns, breakdown, &groups[i]);
  }
  last_cells(&columns, breakdown, "between kernels", first, breakdown->between);
  last_cells(&columns, breakdown, "the run", first, breakdown->total);
  columns_write(&columns, 2, out);
}

static void breakdown_report_write_nodes(const breakdown *breakdown, uint32_t n, page *out) {
  columns columns = {.n_columns = 3 + LENGTH(measures) + 1, .right = {[0] = true}};
  for (int i = 3; i < 3 + RIGHT_MEASURES; i++) columns.right[i] = true;
  text_cell(&columns, "node");
  text_cell(&columns, "op");
  text_cell(&columns, "name");
  for (size_t i = 0; i < LENGTH(measures); i++) text_cell(&columns, measures[i]);
  text_cell(&columns, "shapes");
  for (uint32_t i = 0; i < n; i++) {
    const work_row *row = &breakdown->rows[i];
    page shapes = {0};
    columns_cell(&columns, "%" PRIu32, row->node);
    text_cell(&columns, row->op);
    text_cell(&columns, row->name);
    measure_cells(&columns, breakdown, row);
    text_printf(&shapes, "%s%s", row->shapes, row->shapes_vary ? ", and others" : "");
    if (row->count != 1) text_printf(&shapes, " (%" PRIu32 " times)", row->count);
    text_cell(&columns, shapes.data ? shapes.data : "");
    columns.cells.failed |= shapes.failed;
    text_free(&shapes);
  }
  columns_write(&columns, 2, out);
}

/* A device's F32 peak is its first; its other dtypes follow it. */
static void write_peaks(const breakdown *breakdown, page *out) {
  for (size_t i = 0; i < breakdown->n_peaks; i++) {
    const clave_peak *first = &breakdown->peaks[i];
    if (first->dtype != CLAVE_F32) continue;
    text_puts(out, "peaks of ");
    page_visible(out, first->device);
    text_printf(out, ": %.1f GB/s", first->bytes_a_second * 1e-9);
    for (size_t k = i; k < breakdown->n_peaks; k++) {
      const clave_peak *peak = &breakdown->peaks[k];
      if (strcmp(peak->device, first->device) != 0) continue;
      text_printf(out, ", %.1f GFLOP/s in %s", peak->flops_a_second * 1e-9,
                  clave_dtype_name(peak->dtype));
    }
    text_puts(out, "\n");
  }
}

int write_breakdown(const breakdown *breakdown, int64_t nodes, page *out) {
  uint32_t n;
  work_row *groups = group_by_op(breakdown, &n);
  if (!groups) return fail_memory();
  text_printf(out,
              "\nwhere the time goes: medians of %" PRIu32 " profiled run%s, of %.3f ms each\n",
              breakdown->n_runs, breakdown->n_runs == 1 ? "" : "s", breakdown->clock * 1e-6);
  write_peaks(breakdown, out);
  breakdown_report_write_ops(breakdown, groups, n, out);
  free(groups);
  const uint32_t listed = nodes < breakdown->n_rows ? (uint32_t)nodes : breakdown->n_rows;
  if (!listed) return EXIT_GOOD;
  text_printf(out, "\nthe %" PRIu32 " slowest of %" PRIu32 " nodes and copies\n", listed,
              breakdown->n_rows);
  breakdown_report_write_nodes(breakdown, listed, out);
  return EXIT_GOOD;
}

/* ---------------------------------------------------------------- JSON */

static void emit_known(json_writer *writer, const char *key, bool known, double value) {
  if (known) {
    emit_number(writer, key, value);
  } else {
    emit_string(writer, key, NULL);
  }
}

static void emit_measures(const breakdown *breakdown, const work_row *row, json_writer *writer) {
  const bool has_flops = row->flops >= 0, has_limit = row->limit > 0;
  emit_integer(writer, "times", row->count);
  emit_number(writer, "ms", row->ns * 1e-6);
  emit_number(writer, "share", breakdown_report_share_of(breakdown, row->ns));
  emit_known(writer, "flop", has_flops, row->flops);
  emit_number(writer, "bytes", row->bytes);
  emit_known(writer, "gflop_s", has_flops && row->ns > 0, rate_of(row->flops, row->ns));
  emit_known(writer, "gb_s", row->ns > 0, rate_of(row->bytes, row->ns));
  emit_known(writer, "compute_ms", has_limit, row->compute * 1e-6);
  emit_known(writer, "memory_ms", has_limit, row->memory * 1e-6);
  emit_known(writer, "percent_of_limit", has_limit && row->ns > 0, percent_of_limit(row));
  emit_string(writer, "limit", !has_limit ? NULL : is_compute_bound(row) ? "compute" : "memory");
}

static void emit_node(const breakdown *breakdown, const work_row *row, json_writer *writer) {
  static const char *const kinds[] = {"node", "copy", "transfer"};
  emit_record(writer, NULL);
  emit_integer(writer, "node", row->node);
  emit_string(writer, "kind", kinds[row->kind]);
  emit_string(writer, "op", row->op);
  emit_string(writer, "name", row->name);
  emit_string(writer, "device", row->device);
  emit_string(writer, "dtype",
              row->kind == CLAVE_TIMING_NODE ? clave_dtype_name(row->dtype) : NULL);
  emit_string(writer, "shapes", row->shapes);
  emit_bool(writer, "shapes_vary", row->shapes_vary);
  emit_measures(breakdown, row, writer);
  emit_end_object(writer);
}

static void emit_peaks(const breakdown *breakdown, json_writer *writer) {
  emit_array(writer, "peaks");
  for (size_t i = 0; i < breakdown->n_peaks; i++) {
    const clave_peak *peak = &breakdown->peaks[i];
    emit_record(writer, NULL);
    emit_string(writer, "device", peak->device);
    emit_string(writer, "dtype", clave_dtype_name(peak->dtype));
    emit_number(writer, "gflop_s", peak->flops_a_second * 1e-9);
    emit_number(writer, "gb_s", peak->bytes_a_second * 1e-9);
    emit_end_object(writer);
  }
  emit_end_array(writer);
}

int write_breakdown_json(const breakdown *breakdown, json_writer *writer) {
  uint32_t n;
  work_row *groups = group_by_op(breakdown, &n);
  if (!groups) return fail_memory();
  emit_object(writer, "breakdown");
  emit_integer(writer, "runs", breakdown->n_runs);
  emit_number(writer, "run_ms", breakdown->total * 1e-6);
  emit_number(writer, "clock_ms", breakdown->clock * 1e-6);
  emit_number(writer, "between_ms", breakdown->between * 1e-6);
  emit_peaks(breakdown, writer);
  emit_array(writer, "ops");
  for (uint32_t i = 0; i < n; i++) {
    emit_record(writer, NULL);
    emit_string(writer, "op", groups[i].op);
    emit_string(writer, "device", groups[i].device);
    emit_measures(breakdown, &groups[i], writer);
    emit_end_object(writer);
  }
  emit_end_array(writer);
  emit_array(writer, "nodes");
  for (uint32_t i = 0; i < breakdown->n_rows; i++)
    emit_node(breakdown, &breakdown->rows[i], writer);
  emit_end_array(writer);
  emit_end_object(writer);
  free(groups);
  return EXIT_GOOD;
}
