/* Adds the findings of a device to the report, and prints the report in lines. */
#include "cli/diagnosis.h"

#include <stdlib.h>
#include <string.h>

#include "cli/carried.h"
#include "json/fields.h"

int diagnosis_add(diagnosis *diagnosis, const char *line, size_t size) {
  json *finding;
  if (!array_reserve(&diagnosis->lines, &diagnosis->capacity, diagnosis->count + 1,
                     sizeof *diagnosis->lines))
    return fail_memory();
  clave_status st = json_parse(line, size, &finding);
  if (st) {
    status_free(st);
    return fail("a line of the check's findings is not a JSON object");
  }
  diagnosis->lines[diagnosis->count++] = finding;
  return EXIT_GOOD;
}

void diagnosis_free(diagnosis *diagnosis) {
  for (size_t i = 0; i < diagnosis->count; i++) json_free(diagnosis->lines[i]);
  free(diagnosis->lines);
}

static bool diagnosis_is_text(const json *finding, const char *key, const char *text_) {
  const char *found = text_or_null(finding, key);
  return found && strcmp(found, text_) == 0;
}

const json *diagnosis_find(const diagnosis *diagnosis, const char *finding) {
  for (size_t i = 0; i < diagnosis->count; i++)
    if (diagnosis_is_text(diagnosis->lines[i], "finding", finding)) return diagnosis->lines[i];
  return NULL;
}

const json *diagnosis_last(const diagnosis *diagnosis) {
  return diagnosis->count ? diagnosis->lines[diagnosis->count - 1] : NULL;
}

static double diagnosis_number_of(const json *record, const char *key) {
  const json *member = field_or_null(record, key);
  return member && json_kind_of(member) == JSON_NUMBER ? json_number(member) : 0;
}

/* ---------------------------------------------------------------- a device's part */

static void emit_finding(json_writer *writer, const char *key, const json *finding) {
  emit_record(writer, key);
  for (const json *m = json_first(finding); m; m = json_next(m))
    if (strcmp(json_key(m), "finding") != 0) emit_json(writer, json_key(m), m);
  emit_end_object(writer);
}

static void note_problem(diagnosis *diagnosis, const char *device, const json *json,
                         text *problems) {
  const char *message = text_or_null(json, "message"), *family = text_or_null(json, "family");
  if (diagnosis_is_text(json, "result", "wrong")) {
    text_printf(problems, "%s: %s: %.0f of %.0f elements are wrong (%s %s)", device, family,
                diagnosis_number_of(json, "wrong"), diagnosis_number_of(json, "elements"),
                text_or_null(json, "op"), text_or_null(json, "operands"));
  } else if (message && !diagnosis_is_text(json, "result", "unsupported")) {
    text_printf(problems, "%s: %s%s%s", device, family ? family : "", family ? ": " : "", message);
  } else {
    return;
  }
  text_append(problems, "", 1);
  diagnosis->n_problems++;
}

void diagnosis_write(diagnosis *diagnosis, const char *device, json_writer *writer,
                     text *problems) {
  static const char *const speeds[] = {"bandwidth", "compute"};
  emit_array(writer, "checks");
  for (size_t i = 0; i < diagnosis->count; i++) {
    if (diagnosis_is_text(diagnosis->lines[i], "finding", "check"))
      emit_finding(writer, NULL, diagnosis->lines[i]);
    note_problem(diagnosis, device, diagnosis->lines[i], problems);
  }
  emit_end_array(writer);
  emit_array(writer, "notes");
  for (size_t i = 0; i < diagnosis->count; i++)
    if (diagnosis_is_text(diagnosis->lines[i], "finding", "note"))
      emit_string(writer, NULL, text_or_null(diagnosis->lines[i], "note"));
  emit_end_array(writer);
  for (size_t i = 0; i < sizeof speeds / sizeof *speeds; i++) {
    const json *speed = diagnosis_find(diagnosis, speeds[i]);
    if (speed) emit_finding(writer, speeds[i], speed);
  }
}

/* ---------------------------------------------------------------- text */

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

/* Prints a line "NAME: VALUE" for each row, with the members that hold the name and the value. */
static void print_pairs(const json *rows, const char *name, const char *value, page *out) {
  for (const json *row = json_first(rows); row; row = json_next(row)) {
    text_puts(out, "  ");
    page_visible(out, text_or_null(row, name));
    text_puts(out, ": ");
    page_visible(out, text_or_null(row, value));
    text_puts(out, "\n");
  }
}

static void print_refused(const json *kernels, page *out) {
  if (json_count(kernels)) text_puts(out, "refused kernels\n");
  print_pairs(kernels, "kernel", "reason", out);
}

static void print_drivers(const json *drivers, page *out) {
  text_puts(out, "drivers\n");
  print_pairs(drivers, "file", "library", out);
}

/* Writes one line per result, such as "  right: conv cat"; each family occurs once. */
static void print_checks(const json *checks, page *out) {
  static const char *const results[] = {"right", "runs", "wrong", "error", "unsupported"};
  for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
    const char *last = "";
    for (const json *c = json_first(checks); c; c = json_next(c)) {
      const char *family = text_or_null(c, "family");
      if (!diagnosis_is_text(c, "result", results[i]) || !family || strcmp(family, last) == 0)
        continue;
      if (!*last) text_printf(out, "  %s:", results[i]);
      text_printf(out, " %s", family);
      last = family;
    }
    if (*last) text_puts(out, "\n");
  }
}

static double speed_of(const json *value, const char *key, const char *unit) {
  const json *speed = field_or_null(value, key);
  return speed ? diagnosis_number_of(speed, unit) : 0;
}

/* Prints the measured speeds. */
static void print_speeds(const json *json, page *out) {
  const double moved = speed_of(json, "bandwidth", "gb_s"),
               computed = speed_of(json, "compute", "gflop_s");
  if (moved > 0) text_printf(out, "  about %.1f GB/s", moved);
  if (computed > 0) text_printf(out, "%s%.1f GFLOP/s", moved > 0 ? ", " : "  about ", computed);
  if (moved > 0 || computed > 0) text_puts(out, "\n");
}

static void print_notes(const json *notes, page *out) {
  for (const json *note = json_first(notes); note; note = json_next(note)) {
    text_puts(out, "  note: ");
    page_visible(out, json_string(note));
    text_puts(out, "\n");
  }
}

/* Prints a named text, unless it is empty or missing. */
static void print_field(const json *json, const char *key, page *out) {
  const char *value = text_or_null(json, key);
  if (!value || !*value) return;
  text_printf(out, ", %s ", key);
  page_visible(out, value);
}

/* Prints how new kernels are tried on the driver, and how many kernels are refused. The report
 * lists the refused ones. */
static void print_contact(const json *json, page *out) {
  const char *how = text_or_null(json, "first_contact");
  if (!how) return;
  const uint32_t n = json_count(field_or_null(json, "refused_kernels"));
  text_printf(out, "  new kernels are built %s", how);
  if (n) text_printf(out, "; refused: %u", n);
  text_puts(out, "\n");
}

static void print_device(const json *json, page *out) {
  page_visible(out, text_or_null(json, "device"));
  text_puts(out, ": ");
  page_visible(out, text_or_null(json, "name"));
  text_puts(out, "\n  ");
  page_visible(out, text_or_null(json, "platform"));
  print_field(json, "driver", out);
  print_field(json, "version", out);
  text_puts(out, "\n");
  print_contact(json, out);
  print_checks(field_or_null(json, "checks"), out);
  print_notes(field_or_null(json, "notes"), out);
  print_speeds(json, out);
}

static void print_report(const json *report, page *out) {
  const json *problems = field_or_null(report, "problems"),
             *devices = field_or_null(report, "devices");
  print_members("system", field_or_null(report, "system"), out);
  print_members("environment", field_or_null(report, "environment"), out);
  print_members("OpenCL loader", field_or_null(report, "loader"), out);
  print_drivers(field_or_null(report, "drivers"), out);
  print_members("cache", field_or_null(report, "cache"), out);
  print_members("isolation", field_or_null(report, "isolation"), out);
  print_refused(field_or_null(report, "refused_kernels"), out);
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
    return fail_memory(); /* the report is valid JSON, so this is out of memory */
  }
  print_report(document, out);
  json_free(document);
  return EXIT_GOOD;
}
