/* Errors and notes: one printable line each, even if names contain control characters. */
#include "cli/report.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/number.h"
#include "cli/page.h"
#include "cli/progress.h"

/* Enough for two paths; longer lines are cut. */
enum { LINE_LIMIT = 16384 };

static const char *tool = "clave";

void name_tool(const char *name) { tool = name; }
const char *tool_name(void) { return tool; }

static void print_line(const char *kind, const char *line) {
  page t = {0};
  clear_progress();
  page_visible(&t, tool);
  text_printf(&t, ": %s", kind);
  page_visible(&t, line);
  text_puts(&t, "\n");
  (void)fputs(t.failed ? "clave: out of memory\n" : t.data, stderr);
  text_free(&t);
}

static void print_arguments(const char *format, va_list arguments) {
  static char line[LINE_LIMIT];
  (void)number_vprint(line, sizeof line, format, arguments);
  print_line("", line);
}

int fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print_arguments(format, arguments);
  va_end(arguments);
  return EXIT_FAILED;
}

int fail_usage(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print_arguments(format, arguments);
  va_end(arguments);
  return EXIT_MALFORMED;
}

int fail_status(clave_status status) {
  print_line("", clave_status_message(status));
  clave_status_free(status);
  return EXIT_FAILED;
}

int fail_memory(void) { return fail("out of memory"); }

void print_note(void *ctx, const char *line) {
  (void)ctx;
  print_line("note: ", line);
}
