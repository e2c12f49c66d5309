/* Paths, without allocation, for programs that have no allocator. */
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"

#ifdef _WIN32
static const char separators[] = "/\\:";
#else
static const char separators[] = "/";
#endif

size_t path_last(const char *path) {
  size_t n = strlen(path);
  while (n > 0 && !strchr(separators, path[n - 1])) n--;
  return n;
}

bool path_has_ending(const char *path, const char *ending) {
  size_t n = strlen(path), m = strlen(ending);
  return n > m && strcmp(path + n - m, ending) == 0;
}

bool file_is_same(const char *left, const char *right) {
  struct stat one, two;
  return stat(left, &one) == 0 && stat(right, &two) == 0 && S_ISREG(one.st_mode) &&
         one.st_dev == two.st_dev && one.st_ino == two.st_ino;
}
