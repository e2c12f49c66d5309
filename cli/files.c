/* Reads and writes whole small files. */
#include "cli/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static int read_all(const char *name, int fd, page *out) {
  char buffer[65536];
  for (;;) {
    ssize_t n = read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail("%s: %s", name, strerror(errno));
    if (n == 0) return out->failed ? fail_memory() : EXIT_GOOD;
    text_append(out, buffer, (size_t)n);
  }
}

int read_file(const char *path, page *out) {
  if (strcmp(path, "-") == 0) return read_all("standard input", STDIN_FILENO, out);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return fail("%s: %s", path, strerror(errno));
  int result = read_all(path, fd, out);
  (void)close(fd);
  return result;
}

static int cli_files_write_all(const char *name, int fd, const char *bytes, size_t size) {
  while (size > 0) {
    ssize_t n = write(fd, bytes, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail("%s: %s", name, strerror(errno));
    bytes += n;
    size -= (size_t)n;
  }
  return EXIT_GOOD;
}

int write_output(const char *bytes, size_t size) {
  return cli_files_write_all("standard output", STDOUT_FILENO, bytes, size);
}

int print_page(page *page) {
  if (page->failed) return fail_memory();
  TRY_EXIT(write_output(page->data, page->size));
  page->size = 0;
  return EXIT_GOOD;
}

/* Writes to a new file, or directly, depending on `flags`. */
static int cli_files_write_to(const char *path, const char *file, int flags, const page *content) {
  int fd = open(file, flags | O_WRONLY | O_CLOEXEC, 0666);
  if (fd < 0) return fail("%s: %s", path, strerror(errno));
  int result = cli_files_write_all(path, fd, content->data, content->size);
  if (close(fd) && !result) result = fail("%s: %s", path, strerror(errno));
  return result;
}

static int replace_file(const char *path, const page *content) {
  clave_status st = file_write(path, content->data, content->size);
  return st ? fail_status(st) : EXIT_GOOD;
}

static int cli_files_check_folder(const char *path) {
  char *folder = path_folder(path);
  if (!folder) return fail_memory();
  bool good = access(folder, W_OK | X_OK) == 0;
  int why = errno;
  free(folder);
  return good ? EXIT_GOOD : fail("%s: %s", path, strerror(why));
}

int check_writable(const char *path) {
  struct stat info;
  bool exists = stat(path, &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) return fail("%s: %s", path, strerror(EISDIR));
  if (!exists || S_ISREG(info.st_mode)) return cli_files_check_folder(path);
  return access(path, W_OK) ? fail("%s: %s", path, strerror(errno)) : EXIT_GOOD;
}

static const char *cli_files_name_of(const char *path) { return path + path_last(path); }

bool is_same_file(const char *left, const char *right) {
  struct stat info;
  if (stat(left, &info) == 0 || stat(right, &info) == 0) return file_is_same(left, right);
  return is_in_folder_of(left, cli_files_name_of(right), right);
}

bool is_in_folder_of(const char *path, const char *name, const char *other) {
  struct stat info, other_info;
  if (strcmp(cli_files_name_of(path), name) != 0) return false;
  char *folder = path_folder(path), *other_folder = path_folder(other);
  const bool is_same = folder && other_folder && stat(folder, &info) == 0 &&
                       stat(other_folder, &other_info) == 0 && info.st_dev == other_info.st_dev &&
                       info.st_ino == other_info.st_ino;
  free(folder);
  free(other_folder);
  return is_same;
}

int write_file(const char *path, const page *content) {
  struct stat info;
  if (content->failed) return fail_memory();
  char *target = realpath(path, NULL); /* writes through a link instead of replacing it */
  const char *file = target ? target : path;
  bool special = stat(file, &info) == 0 && !S_ISREG(info.st_mode);
  int result = special ? cli_files_write_to(path, file, 0, content) : replace_file(file, content);
  free(target);
  return result;
}
