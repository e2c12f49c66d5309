/* Names of temporary files. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file_target.h"

void file_target_name(file_target *target, int attempt) {
  const char *name = target->path + target->name;
  char ending[40];
  const int size = snprintf(ending, sizeof ending, ".%ld.%d.tmp", (long)getpid(), attempt);
  size_t n = strlen(name), most = LONGEST_NAME - (size_t)size;
  if (n > most) {
    n = most;
    while (n > 0 && ((unsigned char)name[n] & 0xC0) == 0x80) n--;
  }
  memcpy(target->temporary, name, n);
  memcpy(target->temporary + n, ending, (size_t)size + 1);
}
