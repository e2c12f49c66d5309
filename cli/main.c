/* The command `clave`: the table of commands, and what all of them share: help, versions, printing
 * at the end. */
#include <stdio.h>
#include <string.h>

#include "cli/command_line.h"
#include "cli/files.h"

static const command *const commands[] = {
    &devices_command,  &run_command,      &bench_command,   &inspect_command, &verify_command,
    &convert_command,  &optimize_command, &compile_command, &cache_command,   &generate_command,
    &tokenize_command, &template_command, &tune_command};
/* Names that later versions give a meaning. */
static const char *const later[] = {"doctor"};

static const char more_help[] =
    "clave COMMAND --help explains a command.\n\n"
    "Devices: cpu, opencl (the best one), opencl:N, opencl:TEXT (part of a name), or a comma list, "
    "the\n"
    "first preferred; by --device or CLAVE_DEVICE. Other variables: CLAVE_THREADS, CLAVE_CACHE_DIR "
    "(off:\n"
    "none), CLAVE_KERNEL_DIR, CLAVE_MEMORY_BUDGET, CLAVE_PRECISION (strict or fast), "
    "CLAVE_SELF_CHECK (off:\n"
    "kernels are not compared with the CPU backend when they first run on a device; strict: wrong "
    "results\n"
    "are an error, not replaced by the CPU backend's), CLAVE_ASM (0: kernels use no instructions "
    "that\n"
    "only some devices have; or the only one that they may: avx512_vnni, avx_vnni, avx512_bf16,\n"
    "cl_khr_integer_dot_product), CLAVE_HELPER (this tool, which builds kernels for\n"
    "processes that use the library, if it is not beside it; off: they build by themselves); for "
    "tests "
    "CLAVE_DEVICE_CLASS\n(cpu or gpu: an OpenCL device gets the kernels of that class; wide: "
    "64-bit "
    "indices; or both: gpu,wide;\navx2 or portable: the CPU backend uses no other instructions).\n"
    "Exit status: 0 good, 1 the run failed, 2 malformed command line.\n";

static void write_overview(page *out) {
  columns table = {.n_columns = 2};
  text_puts(out,
            "usage: clave COMMAND ...\n\nRuns exported neural networks on any OpenCL device, or "
            "on the CPU.\n\n");
  for (size_t i = 0; i < LENGTH(commands); i++) {
    columns_cell(&table, "%s", commands[i]->name);
    columns_cell(&table, "%s", commands[i]->summary);
  }
  columns_write(&table, 2, out);
  text_printf(out, "\n%s", more_help);
}

static const command *find_command(const char *name) {
  for (size_t i = 0; i < LENGTH(commands); i++) {
    if (strcmp(commands[i]->name, name) == 0) return commands[i];
  }
  return strcmp(builder_command.name, name) == 0 ? &builder_command : NULL;
}

static int refuse_command(const char *name) {
  const char *names[LENGTH(commands) + 2] = {"--help", "--version"};
  for (size_t i = 0; i < LENGTH(later); i++) {
    if (strcmp(name, later[i]) == 0) {
      return fail_usage("%s is not in this version (%s)", name, clave_version());
    }
  }
  for (size_t i = 0; i < LENGTH(commands); i++) names[i + 2] = commands[i]->name;
  const char *nearest = find_nearest(name, names, LENGTH(names), sizeof *names);
  const char *kind = *name == '-' ? "flag" : "command";
  if (nearest) {
    (void)fail_usage("there is no %s \"%s\"; did you mean \"%s\"?", kind, name, nearest);
  } else {
    (void)fail_usage("there is no %s \"%s\"", kind, name);
  }
  print_usage("COMMAND ...", "");
  return EXIT_MALFORMED;
}

static int answer(int argc, char *const *argv, page *out) {
  if (argc < 2) {
    (void)fail_usage("which command?");
    print_usage("COMMAND ...", "");
    return EXIT_MALFORMED;
  }
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
      strcmp(argv[1], "help") == 0) {
    const command *c = argc > 2 ? find_command(argv[2]) : NULL;
    if (argc > 2 && !c) return refuse_command(argv[2]);
    if (c) {
      write_help(c, out);
    } else {
      write_overview(out);
    }
    return EXIT_GOOD;
  }
  if (strcmp(argv[1], "--version") == 0) {
    text_printf(out, "clave %s\n", clave_version());
    return EXIT_GOOD;
  }
  const command *c = find_command(argv[1]);
  if (!c) return refuse_command(argv[1]);
  char prefix[64];
  (void)snprintf(prefix, sizeof prefix, "%s ", c->name);
  return run_command_line(c, prefix, argc - 2, argv + 2, out);
}

int main(int argc, char **argv) { return answer_process(answer, argc, argv); }
