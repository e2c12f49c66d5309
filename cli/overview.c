/* The table of commands, and `clave --help`, which is made of them as the manual
 * pages are (tables.c). */
#include "cli/overview.h"

#include <string.h>

#include "cli/variables.h"

const command *const all_commands[] = {
    &devices_command, &run_command,      &bench_command,    &inspect_command, &verify_command,
    &convert_command, &optimize_command, &compile_command,  &cache_command,   &doctor_command,
    &tune_command,    &generate_command, &tokenize_command, &template_command};
const size_t n_commands = LENGTH(all_commands);

const char devices_help[] =
    "Devices: cpu, opencl (the best OpenCL device), opencl:N (by index), opencl:TEXT (by part of "
    "its name), or a comma-separated list in order of preference. Set by --device or CLAVE_DEVICE.";
const char exits_help[] = "Exit status: 0 success, 1 failure, 2 malformed command line.";

enum { HELP_WIDTH = 100 };

/* Words of a text, in lines of HELP_WIDTH; all but the first are indented by `indent`. */
static void write_wrapped(const char *words, size_t indent, page *out) {
  size_t column = indent;
  for (const char *end; *words; words = end + (*end == ' ')) {
    end = words + strcspn(words, " ");
    const size_t n = (size_t)(end - words);
    if (column > indent && column + 1 + n > HELP_WIDTH) {
      text_printf(out, "\n%*s", (int)indent, "");
      column = indent;
    } else if (column > indent) {
      text_puts(out, " ");
      column++;
    }
    text_append(out, words, n);
    column += n;
  }
  text_puts(out, "\n");
}

void write_overview(page *out) {
  enum { NAME_WIDTH = 22 };
  columns table = {.n_columns = 2};
  text_puts(out,
            "usage: clave COMMAND ...\n\nRuns exported neural networks on any OpenCL device or on "
            "the CPU.\n\n");
  for (size_t i = 0; i < n_commands; i++) {
    columns_cell(&table, "%s", all_commands[i]->name);
    columns_cell(&table, "%s", all_commands[i]->summary);
  }
  columns_write(&table, 2, out);
  text_puts(out, "\nclave COMMAND --help explains a command.\n\n");
  write_wrapped(devices_help, 0, out);
  text_puts(out, "\nEnvironment variables:\n");
  for (size_t i = 0; i < n_variables; i++) {
    if (!all_variables[i].help) continue;
    text_printf(out, "  %-*s", NAME_WIDTH - 2, all_variables[i].name);
    write_wrapped(all_variables[i].help, NAME_WIDTH, out);
  }
  text_puts(out, "\n");
  write_wrapped(exits_help, 0, out);
}
