/* clave build-kernels: the process that the library starts to build kernels in. */
#include "clave_files.h"
#include "cli/command.h"

typedef struct builder_arguments {
  bool unused;
} builder_arguments;

static int build_kernels(const void *arguments, page *out) {
  (void)arguments;
  (void)out;
  TRY_STATUS(clave_serve_builds(0));
  return EXIT_GOOD;
}

const command builder_command = {
    .name = "build-kernels",
    .usage = "build-kernels",
    .summary = "Builds kernels for the process at the other end of its standard input, a socket.",
    .more =
        "The library starts it where a driver builds one kernel at a time; CLAVE_HELPER=off: it "
        "does not.\n",
    .arguments_size = sizeof(builder_arguments),
    .run = build_kernels,
};
