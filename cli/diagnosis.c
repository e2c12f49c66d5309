/* Findings of a device as a part of the report, and the report in lines. */
#include "cli/diagnosis.h"

#include <stdlib.h>
#include <string.h>

#include "cli/carried.h"
#include "json/fields.h"

int diagnosis_add(diagnosis *d, const char *line, size_t size) {
  json *finding;
  if (!array_reserve(&d->lines, &d->capacity, d->count + 1, sizeof *d->lines)) return fail_memory();
  clave_status st = json_parse(line, size, &finding);
  if (st) {
    status_free(st);
    return fail("the findings of a device cannot be read");
  }
  d->lines[d->count++] = finding;
  return EXIT_GOOD;
}

void diagnosis_free(diagnosis *d) {
  for (size_t i = 0; i < d->count; i++) json_free(d->lines[i]);
  free(d->lines);
}

static bool is_text(const json *finding, const char *key, const char *text_) {
  const char *found = text_or_null(finding, key);
  return found && strcmp(found, text_) == 0;
}

const json *diagnosis_find(const diagnosis *d, const char *finding) {
  for (size_t i = 0; i < d->count; i++)
    if (is_text(d->lines[i], "finding", finding)) return d->lines[i];
  return NULL;
}

const json *diagnosis_last(const diagnosis *d) { return d->count ? d->lines[d->count - 1] : NULL; }

static double number_of(const json *v, const char *key) {
  const json *n = field_or_null(v, key);
  return n && json_kind_of(n) == JSON_NUMBER ? json_number(n) : 0;
}

/* ---------------------------------------------------------------- a device's part */

static void emit_finding(json_writer *j, const char *key, const json *finding) {
  emit_record(j, key);
  for (const json *m = json_first(finding); m; m = json_next(m))
    if (strcmp(json_key(m), "finding") != 0) emit_json(j, json_key(m), m);
  emit_end_object(j);
}

static void note_problem(diagnosis *d, const char *device, const json *f, text *problems) {
  const char *message = text_or_null(f, "message"), *family = text_or_null(f, "family");
  if (is_text(f, "result", "wrong")) {
    text_printf(problems, "%s: %s: %.0f of %.0f elements are wrong (%s %s)", device, family,
                number_of(f, "wrong"), number_of(f, "elements"), text_or_null(f, "op"),
                text_or_null(f, "operands"));
  } else if (message && !is_text(f, "result", "unsupported")) {
    text_printf(problems, "%s: %s%s%s", device, family ? family : "", family ? ": " : "", message);
  } else {
    return;
  }
  text_append(problems, "", 1);
  d->n_problems++;
}

void diagnosis_write(diagnosis *d, const char *device, json_writer *j, text *problems) {
  static const char *const speeds[] = {"bandwidth", "compute"};
  emit_array(j, "checks");
  for (size_t i = 0; i < d->count; i++) {
    if (is_text(d->lines[i], "finding", "check")) emit_finding(j, NULL, d->lines[i]);
    note_problem(d, device, d->lines[i], problems);
  }
  emit_end_array(j);
  for (size_t i = 0; i < sizeof speeds / sizeof *speeds; i++) {
    const json *speed = diagnosis_find(d, speeds[i]);
    if (speed) emit_finding(j, speeds[i], speed);
  }
}

/* ---------------------------------------------------------------- in lines */

static void print_members(const char *title, const json *object, page *out) {
  columns table = {.n_columns = 2};
  text_printf(out, "%s\n", title);
  for (const json *m = json_first(object); m; m = json_next(m)) {
    page shown = {0};
    write_value(m, &shown);
    columns_cell(&table, "%s", json_key(m));
    columns_cell(&table, "%s", shown.data ? shown.data : "");
    out->failed |= shown.failed;
    text_free(&shown);
  }
  columns_write(&table, 2, out);
}

static void print_drivers(const json *drivers, page *out) {
  text_puts(out, "drivers\n");
  for (const json *v = json_first(drivers); v; v = json_next(v)) {
    text_puts(out, "  ");
    page_visible(out, text_or_null(v, "file"));
    text_puts(out, ": ");
    page_visible(out, text_or_null(v, "library"));
    text_puts(out, "\n");
  }
}

/* A line for each result that there is: "  right: conv cat", families named once. */
static void print_checks(const json *checks, page *out) {
  static const char *const results[] = {"right", "runs", "wrong", "error", "unsupported"};
  for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
    const char *last = "";
    for (const json *c = json_first(checks); c; c = json_next(c)) {
      const char *family = text_or_null(c, "family");
      if (!is_text(c, "result", results[i]) || !family || strcmp(family, last) == 0) continue;
      if (!*last) text_printf(out, "  %s:", results[i]);
      text_printf(out, " %s", family);
      last = family;
    }
    if (*last) text_puts(out, "\n");
  }
}

static double speed_of(const json *d, const char *key, const char *unit) {
  const json *speed = field_or_null(d, key);
  return speed ? number_of(speed, unit) : 0;
}

/* Those that were measured. */
static void print_speeds(const json *d, page *out) {
  const double moved = speed_of(d, "bandwidth", "gb_s"),
               computed = speed_of(d, "compute", "gflop_s");
  if (moved > 0) text_printf(out, "  about %.1f GB/s", moved);
  if (computed > 0) text_printf(out, "%s%.1f GFLOP/s", moved > 0 ? ", " : "  about ", computed);
  if (moved > 0 || computed > 0) text_puts(out, "\n");
}

static void print_device(const json *d, page *out) {
  page_visible(out, text_or_null(d, "device"));
  text_puts(out, ": ");
  page_visible(out, text_or_null(d, "name"));
  text_puts(out, "\n  ");
  page_visible(out, text_or_null(d, "platform"));
  text_puts(out, ", driver ");
  page_visible(out, text_or_null(d, "driver"));
  text_puts(out, "\n");
  print_checks(field_or_null(d, "checks"), out);
  print_speeds(d, out);
}

static void print_report(const json *report, page *out) {
  const json *problems = field_or_null(report, "problems"),
             *devices = field_or_null(report, "devices");
  print_members("system", field_or_null(report, "system"), out);
  print_members("environment", field_or_null(report, "environment"), out);
  print_members("OpenCL loader", field_or_null(report, "loader"), out);
  print_drivers(field_or_null(report, "drivers"), out);
  print_members("cache", field_or_null(report, "cache"), out);
  for (const json *d = json_first(devices); d; d = json_next(d)) print_device(d, out);
  text_puts(out, json_count(problems) ? "broken\n" : "nothing is broken\n");
  for (const json *p = json_first(problems); p; p = json_next(p)) {
    text_puts(out, "  ");
    page_visible(out, json_string(p));
    text_puts(out, "\n");
  }
}

int diagnosis_print(const char *report, size_t size, page *out) {
  json *document;
  clave_status st = json_parse(report, size, &document);
  if (st) {
    status_free(st);
    return fail_memory(); /* the report is JSON of ours */
  }
  print_report(document, out);
  json_free(document);
  return EXIT_GOOD;
}
