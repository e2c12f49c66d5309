/* Runs one command from its arguments to its exit status. Shared by the tool and by executables
 * that embed a language model. */
#include "cli/command_line.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "clave_opencl.h"
#include "cli/files.h"
#include "cli/progress.h"

/* If a standard stream is closed, the next file opened would get its descriptor. Fills the gap with
 * a descriptor that fails on reads and writes. */
static void occupy_closed_streams(void) {
  for (int fd = 0; fd <= 2; fd++) {
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)open("/dev/null", fd ? O_RDONLY : O_WRONLY);
  }
}

void print_usage(const char *usage, const char *prefix) {
  (void)fprintf(stderr, "usage: %s %s\n       %s %s--help explains it\n", tool_name(), usage,
                tool_name(), prefix);
}

int run_command_line(const command *command, const char *prefix, int argc, char *const *argv,
                     page *out) {
  void *arguments = calloc(1, command->arguments_size);
  if (!arguments) return fail_memory();
  int result = EXIT_GOOD;
  switch (parse_arguments(command, argc, argv, arguments)) {
    case PARSED:
      result = check_written(command, arguments);
      if (!result) result = command->run(arguments, out);
      break;
    case PARSED_HELP:
      write_help(command, out);
      break;
    case PARSED_VERSION:
      text_printf(out, "clave %s\n", clave_version());
      break;
    case PARSED_BADLY:
      print_usage(command->usage, prefix);
      result = EXIT_MALFORMED;
      break;
  }
  free_arguments(command, arguments);
  free(arguments);
  clear_progress();
  return result;
}

int leave_process(int result) {
  if (!clave_opencl_was_lost()) return result;
  (void)fflush(stdout);
  _Exit(result);
}

int answer_process(answer_fn answer, int argc, char *const *argv) {
  page out = {0};
  occupy_closed_streams();
  (void)signal(SIGPIPE, SIG_IGN);
  (void)signal(SIGXFSZ, SIG_IGN); /* a file size limit is reported as a write error */
  int result = answer(argc, argv, &out);
  if (result == EXIT_GOOD) result = print_page(&out);
  text_free(&out);
  return leave_process(result);
}
