/* Runs a fuzz target over files, or all files of folders, as an ordinary test:
 * build/fuzz/replay_fuzz_json test/fuzz/corpus/json */
#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

#include "test/fuzz/target.h"

static long n_files;

/* Runs the input in a block of exactly its size, so that a sanitizer sees reads beyond it. */
static int run_file(const char *path) {
  FILE *file = fopen(path, "rb");
  struct stat s;
  if (!file || fstat(fileno(file), &s) != 0) {
    fprintf(stderr, "cannot read %s\n", path);
    return 1;
  }
  size_t size = (size_t)s.st_size;
  uint8_t *bytes = malloc(size ? size : 1);
  int bad = !bytes || fread(bytes, 1, size, file) != size;
  (void)fclose(file);
  if (!bad) (void)LLVMFuzzerTestOneInput(bytes, size);
  free(bytes);
  n_files++;
  return bad;
}

static int run_path(const char *path) {
  struct stat s;
  if (stat(path, &s) != 0) {
    fprintf(stderr, "there is no %s\n", path);
    return 1;
  }
  if (!S_ISDIR(s.st_mode)) return run_file(path);
  DIR *folder = opendir(path);
  int bad = !folder;
  for (struct dirent *e; folder && (e = readdir(folder));) {
    char entry[4096];
    if (e->d_name[0] == '.') continue;
    (void)snprintf(entry, sizeof entry, "%s/%s", path, e->d_name);
    bad |= run_path(entry);
  }
  if (folder) (void)closedir(folder);
  return bad;
}

int main(int argc, char **argv) {
  int bad = argc < 2;
  for (int i = 1; i < argc; i++) bad |= run_path(argv[i]);
  printf("%ld inputs replayed\n", n_files);
  return bad || n_files == 0;
}
