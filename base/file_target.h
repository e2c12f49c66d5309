#ifndef BASE_FILE_TARGET_H
#define BASE_FILE_TARGET_H
/* The file that a file_writer writes to. Each system has its own implementation. */
#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

enum { LONGEST_PATH = 4096, LONGEST_NAME = 255 };

typedef struct file_target {
  int fd;                           /* -1 if closed */
  char path[LONGEST_PATH];          /* final path, with links resolved */
  size_t name;                      /* offset of the path's last component */
  int folder;                       /* descriptor of its folder; -1 if none exists */
  char temporary[LONGEST_NAME + 1]; /* name in that folder; empty if written directly */
} file_target;

/* Sets the name of the temporary file: the file's own name, cut at a character boundary if it is
 * too long, with an ending for this attempt. */
void file_target_name(file_target *target, int attempt);

/* The caller destroys the target, also on failure. */
clave_status file_target_open(file_target *target, const char *path) STATUS_CHECK;
clave_status file_target_write(const file_target *target, const void *bytes, size_t n) STATUS_CHECK;
/* Closes the file and renames it into place. */
clave_status file_target_commit(file_target *target) STATUS_CHECK;
void file_target_destroy(file_target *target); /* closes and removes what is left */

#endif
