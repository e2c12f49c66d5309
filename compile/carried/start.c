/* The main function of an executable that embeds its program. The library also starts the
 * executable as a child process that builds kernels. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/process.h"
#include "cli/command_line.h"
#include "compile/carried/carried.h"
#include "compile/runtime/model.h"

/* True if the library started this process to build kernels: standard input is a socket. */
static bool is_builder(int argc, char **argv) {
  struct stat s;
  return argc == 2 && strcmp(argv[1], builder_command.name) == 0 && fstat(STDIN_FILENO, &s) == 0 &&
         S_ISSOCK(s.st_mode);
}

static int carried_start_begin(int argc, char **argv, int (*run)(int argc, char **argv)) {
  if (is_builder(argc, argv)) return leave_process(builder_command.run(NULL, NULL));
  const bool is_opencl = strcmp(carried.device, "opencl") == 0;
  if (is_opencl && !getenv("CLAVE_HELPER")) environment_set("CLAVE_HELPER", "/proc/self/exe");
  return leave_process(run(argc, argv));
}

int carried_tensors(int argc, char **argv) { return carried_start_begin(argc, argv, model_main); }

/* With --verify, the methods of a language model are compared as tensors. */
int carried_text(int argc, char **argv) {
  const bool verifies = argc == 2 && strcmp(argv[1], "--verify") == 0;
  return carried_start_begin(argc, argv, verifies ? model_main : carried_generate);
}
