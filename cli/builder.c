/* clave build-kernels: the process in which the library builds kernels. */
#include <fcntl.h>
#include <unistd.h>

#include "clave_files.h"
#include "cli/command.h"

typedef struct builder_arguments {
  bool unused;
} builder_arguments;

/* Moves the socket to a descriptor that child processes of a driver (linkers) do not inherit, and
 * replaces standard input by /dev/null. */
static int move_socket(void) {
  int socket = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  int nothing = open("/dev/null", O_RDONLY);
  if (socket >= 0 && nothing >= 0) (void)dup2(nothing, STDIN_FILENO);
  if (nothing > STDERR_FILENO) (void)close(nothing);
  return socket < 0 ? STDIN_FILENO : socket;
}

static int cli_builder_build_kernels(const void *arguments, page *out) {
  (void)arguments;
  (void)out;
  TRY_STATUS(clave_serve_builds(move_socket()));
  return EXIT_GOOD;
}

const command builder_command = {
    .name = "build-kernels",
    .usage = "build-kernels",
    .summary = "Builds kernels for the process that is connected to its standard input, a socket.",
    .more =
        "The library starts this command if a driver builds one kernel at a time, and to try new\n"
        "kernels, unless CLAVE_HELPER=off.\n",
    .arguments_size = sizeof(builder_arguments),
    .run = cli_builder_build_kernels,
};
