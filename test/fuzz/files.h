#ifndef TEST_FUZZ_FILES_H
#define TEST_FUZZ_FILES_H
/* Passes inputs as files, for readers that accept a path. */
#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#include "test/fuzz/target.h"

static inline void put_file(const char *path, const void *bytes, size_t size) {
  FILE *file = fopen(path, "wb");
  require(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
}

static inline void empty_folder(const char *folder) {
  char path[512];
  DIR *listing = opendir(folder);
  for (struct dirent *e; listing && (e = readdir(listing));) {
    (void)snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    if (e->d_name[0] != '.') (void)unlink(path);
  }
  if (listing) (void)closedir(listing);
}

static char fuzz_folder[] =
    "/dev/shm/clave_fuzz_XXXXXX"; /* in memory: files are synced when written */

static inline void remove_fuzz_folder(void) {
  empty_folder(fuzz_folder);
  (void)rmdir(fuzz_folder);
}

/* Returns a folder for this process, which is removed when it exits. */
static inline const char *open_fuzz_folder(void) {
  static int is_made;
  if (!is_made) require(mkdtemp(fuzz_folder) && atexit(remove_fuzz_folder) == 0);
  is_made = 1;
  return fuzz_folder;
}

/* Writes the input to a file there; its path stays the same. */
static inline const char *input_file(const void *bytes, size_t size) {
  static char path[64];
  (void)snprintf(path, sizeof path, "%s/input", open_fuzz_folder());
  put_file(path, bytes, size);
  return path;
}

#endif
