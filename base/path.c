/* Paths as text: nothing is allocated, so that programs without an allocator have it, too. */
#include <string.h>

#include "base/file.h"

bool path_has_ending(const char *path, const char *ending) {
  size_t n = strlen(path), m = strlen(ending);
  return n > m && strcmp(path + n - m, ending) == 0;
}
