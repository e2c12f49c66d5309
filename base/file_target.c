/* The file that a file_writer writes to: a temporary file, which is then renamed. */
#include "base/file_target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_guard.h"
#include "base/memory.h"

/* Resolves `path` to the file it names, following links. */
static clave_status resolve_target(const char *path, char target[LONGEST_PATH]) {
  struct stat s;
  const size_t n = strlen(path);
  if (lstat(path, &s) == 0 && S_ISLNK(s.st_mode) && realpath(path, target)) return NULL;
  if (n >= LONGEST_PATH) return file_error(path, ENAMETOOLONG);
  memcpy(target, path, n + 1);
  return NULL;
}

/* Opens the folder of the path. The file and its temporary file are named relative to it, because
 * the path may already have the maximum length. */
static int open_folder(const char *path, size_t name) {
  char folder[LONGEST_PATH];
  if (!name) return open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  memcpy(folder, path, name);
  folder[name] = '\0';
  return open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static clave_status open_temporary(file_target *target) {
  int error = EEXIST;
  target->name = path_last(target->path);
  if (strlen(target->path + target->name) > LONGEST_NAME)
    return file_error(target->path, ENAMETOOLONG);
  target->folder = open_folder(target->path, target->name);
  if (target->folder < 0) return file_error(target->path, errno);
  for (int i = 0; i < 1000 && error == EEXIST; i++) {
    file_target_name(target, i);
    target->fd =
        openat(target->folder, target->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (target->fd >= 0) return NULL;
    error = errno;
  }
  target->temporary[0] = '\0';
  return file_error(target->path, error);
}

clave_status file_target_open(file_target *target, const char *path) {
  target->fd = target->folder = -1;
  TRY(resolve_target(path, target->path));
  struct stat s;
  if (stat(target->path, &s) != 0 || S_ISREG(s.st_mode)) return open_temporary(target);
  if (S_ISDIR(s.st_mode)) return status_new(STATUS_IO, "%s: expected a file, got a folder", path);
  target->fd = open(target->path, O_WRONLY | O_CLOEXEC);
  return target->fd < 0 ? file_error(path, errno) : NULL;
}

/* Reads a byte of each page, so that the guard maps zeros where a mapped file was truncated.
 * Returns false if the bytes are not in a guarded mapping. */
static bool file_target_look_at(const uint8_t *bytes, size_t n) {
  const size_t page = memory_page();
  if (!file_guard_of(bytes) || !file_guard_of(bytes + n - 1)) return false;
  for (size_t at = 0; at < n; at += page) (void)*(const volatile uint8_t *)(bytes + at);
  (void)*(const volatile uint8_t *)(bytes + n - 1);
  return true;
}

clave_status file_target_write(const file_target *target, const void *from, size_t n) {
  const uint8_t *bytes = from;
  while (n > 0) {
    size_t piece = n < ((size_t)1 << 30) ? n : (size_t)1 << 30;
    ssize_t done = write(target->fd, bytes, piece);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0 && errno == EFAULT && file_target_look_at(bytes, piece)) continue;
    if (done < 0 && errno == EFAULT)
      return status_new(
          STATUS_IO, "%s: the source of the data cannot be read: its file may have been cut short",
          target->path);
    if (done < 0) return file_error(target->path, errno);
    bytes += done;
    n -= (size_t)done;
  }
  return NULL;
}

clave_status file_target_commit(file_target *target) {
  const int fd = target->fd;
  target->fd = -1;
  if (close(fd) != 0) return file_error(target->path, errno);
  if (target->temporary[0]) {
    if (renameat(target->folder, target->temporary, target->folder, target->path + target->name) !=
        0)
      return file_error(target->path, errno);
    target->temporary[0] = '\0';
  }
  return NULL;
}

void file_target_destroy(file_target *target) {
  if (target->fd >= 0) (void)close(target->fd);
  if (target->temporary[0]) (void)unlinkat(target->folder, target->temporary, 0);
  if (target->folder >= 0) (void)close(target->folder);
}

bool file_is_below(const char *path, const char *folder) {
  char file[LONGEST_PATH], root[LONGEST_PATH];
  if (!realpath(path, file)) return true; /* opening it reports the reason */
  if (!realpath(folder[0] ? folder : ".", root)) return false;
  const size_t n = strlen(root);
  return strncmp(file, root, n) == 0 && (file[n] == '/' || root[n - 1] == '/');
}
