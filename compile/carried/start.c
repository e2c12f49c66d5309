/* Where an executable that carries its program begins, and the processes that it builds kernels in:
 * itself, started by the library. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/command.h"
#include "compile/carried/carried.h"
#include "compile/runtime/model.h"

/* Started by the library, as the tool would be: with a socket for its standard input. */
static bool is_builder(int argc, char **argv) {
  struct stat s;
  return argc == 2 && strcmp(argv[1], builder_command.name) == 0 && fstat(STDIN_FILENO, &s) == 0 &&
         S_ISSOCK(s.st_mode);
}

int carried_tensors(int argc, char **argv) {
  return is_builder(argc, argv) ? builder_command.run(NULL, NULL) : model_main(argc, argv);
}

int carried_text(int argc, char **argv) {
  return is_builder(argc, argv) ? builder_command.run(NULL, NULL) : carried_generate(argc, argv);
}
