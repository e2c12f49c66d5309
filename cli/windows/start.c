/* Starts the tool on Windows: arguments and the console are UTF-8, standard streams are binary. */
#include <windows.h>

#include "base/windows/wide.h"

int main(int argc, char **argv);
int wmain(int argc, wchar_t **wide_arguments);

int wmain(int argc, wchar_t **wide_arguments) {
  char **arguments = calloc((size_t)argc + 1, sizeof *arguments);
  for (int i = 0; arguments && i < argc; i++)
    if (!(arguments[i] = utf8_of(wide_arguments[i]))) return EXIT_FAILURE;
  if (!arguments) return EXIT_FAILURE;
  for (int fd = 0; fd <= 2; fd++) (void)_setmode(fd, _O_BINARY);
  (void)SetConsoleOutputCP(CP_UTF8);
  (void)SetConsoleCP(CP_UTF8);
  return main(argc, arguments);
}
