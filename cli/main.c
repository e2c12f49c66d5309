/* The command `clave`: finds a command and gives it its arguments; help, versions, printing at the
 * end. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/files.h"
#include "cli/overview.h"
#include "cli/progress.h"

/* Not in the overview: what starts them is the library, the build and clave itself. */
static const command *const hidden[] = {&builder_command, &tables_command, &probe_command};
/* Names that later versions give a meaning. */
static const char *const later[] = {"tune"};

/* A closed standard stream would hand its number to the next file that is opened; fill the gap so
 * that it still reads and writes as an error. */
static void occupy_closed_streams(void) {
  for (int fd = 0; fd <= 2; fd++) {
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)open("/dev/null", fd ? O_RDONLY : O_WRONLY);
  }
}

static const command *find_command(const char *name) {
  for (size_t i = 0; i < n_commands; i++) {
    if (strcmp(all_commands[i]->name, name) == 0) return all_commands[i];
  }
  for (size_t i = 0; i < LENGTH(hidden); i++) {
    if (strcmp(hidden[i]->name, name) == 0) return hidden[i];
  }
  return NULL;
}

static void print_usage(const char *usage, const char *command_name) {
  (void)fprintf(stderr, "usage: clave %s\n       clave %s%s--help explains it\n", usage,
                command_name, *command_name ? " " : "");
}

static int refuse_command(const char *name) {
  const char *names[32] = {"--help", "--version"};
  for (size_t i = 0; i < LENGTH(later); i++) {
    if (strcmp(name, later[i]) == 0) {
      return fail_usage("%s is not in this version (%s)", name, clave_version());
    }
  }
  size_t n = 2;
  for (size_t i = 0; i < n_commands && n < LENGTH(names); i++) names[n++] = all_commands[i]->name;
  const char *nearest = find_nearest(name, names, n, sizeof *names);
  const char *kind = *name == '-' ? "flag" : "command";
  if (nearest) {
    (void)fail_usage("there is no %s \"%s\"; did you mean \"%s\"?", kind, name, nearest);
  } else {
    (void)fail_usage("there is no %s \"%s\"", kind, name);
  }
  print_usage("COMMAND ...", "");
  return EXIT_MALFORMED;
}

static int run_command_line(const command *c, int argc, char *const *argv, page *out) {
  void *arguments = calloc(1, c->arguments_size);
  if (!arguments) return fail_memory();
  int result = EXIT_GOOD;
  switch (parse_arguments(c, argc, argv, arguments)) {
    case PARSED:
      result = check_written(c, arguments);
      if (!result) result = c->run(arguments, out);
      break;
    case PARSED_HELP:
      write_help(c, out);
      break;
    case PARSED_VERSION:
      text_printf(out, "clave %s\n", clave_version());
      break;
    case PARSED_BADLY:
      print_usage(c->usage, c->name);
      result = EXIT_MALFORMED;
      break;
  }
  free_arguments(c, arguments);
  free(arguments);
  clear_progress();
  return result;
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
  return c ? run_command_line(c, argc - 2, argv + 2, out) : refuse_command(argv[1]);
}

int main(int argc, char **argv) {
  page out = {0};
  occupy_closed_streams();
  (void)signal(SIGPIPE, SIG_IGN);
  int result = answer(argc, argv, &out);
  if (result == EXIT_GOOD) result = print_page(&out);
  text_free(&out);
  return result;
}
