/* The tables of commands and variables, and `clave --help`, which is made of them as the manual
 * pages are (tables.c). */
#include "cli/overview.h"

#include <string.h>

const command *const all_commands[] = {
    &devices_command, &run_command,      &bench_command,    &inspect_command, &verify_command,
    &convert_command, &optimize_command, &compile_command,  &cache_command,   &doctor_command,
    &tune_command,    &generate_command, &tokenize_command, &template_command};
const size_t n_commands = LENGTH(all_commands);

const variable all_variables[] = {
    {"CLAVE_DEVICE", "DEVICE", "the device where --device does not name one"},
    {"CLAVE_THREADS", "N", "threads of the CPU backend; default: all CPUs"},
    {"CLAVE_CACHE_DIR", "DIR", "where kernel binaries and tuning tables are kept; off: nowhere"},
    {"CLAVE_KERNEL_DIR", "DIR", "kernels are read from there, not from the library"},
    {"CLAVE_MEMORY_BUDGET", "BYTES", "memory that a session may take on its device"},
    {"CLAVE_PRECISION", "strict|fast", "how exactly kernels compute"},
    {"CLAVE_SELF_CHECK", "off|strict",
     "off: kernels are not compared with the CPU backend when they first run on a device; strict: "
     "wrong results are an error, not replaced by the CPU backend's"},
    {"CLAVE_ASM", "0|NAME",
     "0: kernels use no instructions that only some GPUs have; or the only one that they may use: "
     "cl_khr_integer_dot_product, subgroups, mma_sync; or, for tests, mma_local, which computes "
     "the "
     "same as mma_sync in plain OpenCL C"},
    {"CLAVE_HELPER", "FILE",
     "this tool, which builds kernels for processes that use the library, if it is not beside it; "
     "off: they build by themselves"},
    {"CLAVE_DOT", "FILE",
     "graphviz' program, which places the boxes of drawings, if it is not dot by PATH; off: a "
     "layout of clave's own does, the same on every machine"},
    {"CLAVE_DEVICE_CLASS", "CLASS",
     "for tests; cpu or gpu: an OpenCL device gets the kernels of that class; wide: 64-bit "
     "indices; "
     "or both: gpu,wide; avx512, avx2 or portable: the CPU backend uses no other instructions"},
};
const size_t n_variables = LENGTH(all_variables);

const char devices_help[] =
    "Devices: cpu, opencl (the best one), opencl:N, opencl:TEXT (part of a name), or a comma list, "
    "the first preferred; by --device or CLAVE_DEVICE.";
const char exits_help[] = "Exit status: 0 good, 1 the run failed, 2 malformed command line.";

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
            "usage: clave COMMAND ...\n\nRuns exported neural networks on any OpenCL device, or "
            "on the CPU.\n\n");
  for (size_t i = 0; i < n_commands; i++) {
    columns_cell(&table, "%s", all_commands[i]->name);
    columns_cell(&table, "%s", all_commands[i]->summary);
  }
  columns_write(&table, 2, out);
  text_puts(out, "\nclave COMMAND --help explains a command.\n\n");
  write_wrapped(devices_help, 0, out);
  text_puts(out, "\nEnvironment variables:\n");
  for (size_t i = 0; i < n_variables; i++) {
    text_printf(out, "  %-*s", NAME_WIDTH - 2, all_variables[i].name);
    write_wrapped(all_variables[i].help, NAME_WIDTH, out);
  }
  text_puts(out, "\n");
  write_wrapped(exits_help, 0, out);
}
