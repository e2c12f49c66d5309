/* The command `clave`: finds a command and passes it the arguments; help and version. */
#include <stdio.h>
#include <string.h>

#include "cli/command_line.h"
#include "cli/files.h"
#include "cli/overview.h"

/* Commands that only the library, the build and clave itself start, so the overview omits them. */
static const command *const hidden[] = {&builder_command, &tables_command, &probe_command};

static const command *cli_main_find(const char *name) {
  for (size_t i = 0; i < n_commands; i++) {
    if (strcmp(all_commands[i]->name, name) == 0) return all_commands[i];
  }
  for (size_t i = 0; i < LENGTH(hidden); i++) {
    if (strcmp(hidden[i]->name, name) == 0) return hidden[i];
  }
  return NULL;
}

static int cli_main_refuse(const char *name) {
  const char *names[32] = {"--help", "--version"};
  size_t n = 2;
  for (size_t i = 0; i < n_commands && n < LENGTH(names); i++) names[n++] = all_commands[i]->name;
  const char *nearest = find_nearest(name, names, n, sizeof *names);
  const char *kind = *name == '-' ? "flag" : "command";
  if (nearest) {
    (void)fail_usage("unknown %s \"%s\"; did you mean \"%s\"?", kind, name, nearest);
  } else {
    (void)fail_usage("unknown %s \"%s\"", kind, name);
  }
  print_usage("COMMAND ...", "");
  return EXIT_MALFORMED;
}

static int cli_main_answer(int argc, char *const *argv, page *out) {
  if (argc < 2) {
    (void)fail_usage("a command is missing");
    print_usage("COMMAND ...", "");
    return EXIT_MALFORMED;
  }
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
      strcmp(argv[1], "help") == 0) {
    const command *command = argc > 2 ? cli_main_find(argv[2]) : NULL;
    if (argc > 2 && !command) return cli_main_refuse(argv[2]);
    if (command) {
      write_help(command, out);
    } else {
      write_overview(out);
    }
    return EXIT_GOOD;
  }
  if (strcmp(argv[1], "--version") == 0) {
    text_printf(out, "clave %s\n", clave_version());
    return EXIT_GOOD;
  }
  const command *command = cli_main_find(argv[1]);
  if (!command) return cli_main_refuse(argv[1]);
  char prefix[64];
  (void)snprintf(prefix, sizeof prefix, "%s ", command->name);
  return run_command_line(command, prefix, argc - 2, argv + 2, out);
}

int main(int argc, char **argv) { return answer_process(cli_main_answer, argc, argv); }
