/* Writes files to a temporary file, which is then renamed. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_guard.h"
#include "base/small_alloc.h"

#if MEMORY_STATIC
enum { WRITE_BUFFER = 4 * 1024 };
#else
enum { WRITE_BUFFER = 64 * 1024 };
#endif
enum { LONGEST = PATH_MAX };

struct file_writer {
  int fd;      /* -1 if closed */
  size_t size; /* bytes appended */
  size_t buffered;
  bool is_cut;                  /* zeros may have been appended from a file that was cut short */
  char path[LONGEST];           /* final path, with links resolved */
  size_t name;                  /* offset of the path's last component */
  int folder;                   /* descriptor of its folder; -1 if written directly */
  char temporary[NAME_MAX + 1]; /* name in that folder; empty if written directly */
  uint8_t buffer[WRITE_BUFFER];
};

/* Resolves `path` to the file it names, following links. */
static clave_status resolve_target(const char *path, char target[LONGEST]) {
  struct stat s;
  const size_t n = strlen(path);
  if (lstat(path, &s) == 0 && S_ISLNK(s.st_mode) && realpath(path, target)) return NULL;
  if (n >= LONGEST) return file_error(path, ENAMETOOLONG);
  memcpy(target, path, n + 1);
  return NULL;
}

/* Returns the offset of the path's last component. */
static size_t name_at(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? (size_t)(slash - path) + 1 : 0;
}

/* Opens the folder of the path. The file and its temporary file are named relative to it, because
 * the path may already have the maximum length. */
static int open_folder(const char *path, size_t name) {
  char folder[LONGEST];
  if (!name) return open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  memcpy(folder, path, name);
  folder[name] = '\0';
  return open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* Sets the name of the temporary file: the file's own name, cut at a character boundary if it is
 * too long, with an ending for this attempt. */
static void name_temporary(file_writer *writer, int attempt) {
  const char *name = writer->path + writer->name;
  char ending[40];
  const int size = snprintf(ending, sizeof ending, ".%ld.%d.tmp", (long)getpid(), attempt);
  size_t n = strlen(name), most = NAME_MAX - (size_t)size;
  if (n > most) {
    n = most;
    while (n > 0 && ((unsigned char)name[n] & 0xC0) == 0x80) n--;
  }
  memcpy(writer->temporary, name, n);
  memcpy(writer->temporary + n, ending, (size_t)size + 1);
}

static clave_status open_temporary(file_writer *writer) {
  int error = EEXIST;
  writer->name = name_at(writer->path);
  if (strlen(writer->path + writer->name) > NAME_MAX) return file_error(writer->path, ENAMETOOLONG);
  writer->folder = open_folder(writer->path, writer->name);
  if (writer->folder < 0) return file_error(writer->path, errno);
  for (int i = 0; i < 1000 && error == EEXIST; i++) {
    name_temporary(writer, i);
    writer->fd =
        openat(writer->folder, writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (writer->fd >= 0) return NULL;
    error = errno;
  }
  writer->temporary[0] = '\0';
  return file_error(writer->path, error);
}

static clave_status open_writer(file_writer *writer, const char *path) {
  TRY(resolve_target(path, writer->path));
  struct stat s;
  if (stat(writer->path, &s) != 0 || S_ISREG(s.st_mode)) return open_temporary(writer);
  if (S_ISDIR(s.st_mode)) return status_new(STATUS_IO, "%s: expected a file, got a folder", path);
  writer->fd = open(writer->path, O_WRONLY | O_CLOEXEC);
  return writer->fd < 0 ? file_error(path, errno) : NULL;
}

clave_status file_writer_create(const char *path, file_writer **out) {
  *out = NULL;
  file_writer *writer = small_alloc(sizeof *writer);
  if (!writer) return status_no_memory();
  writer->fd = writer->folder = -1;
  clave_status st = open_writer(writer, path);
  if (st) {
    file_writer_destroy(writer);
    return st;
  }
  *out = writer;
  return NULL;
}

/* Reads a byte of each page, so that the guard maps zeros where a mapped file was truncated.
 * Returns false if the bytes are not in a guarded mapping. */
static bool file_writer_look_at(const uint8_t *bytes, size_t n) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  if (!file_guard_of(bytes) || !file_guard_of(bytes + n - 1)) return false;
  for (size_t at = 0; at < n; at += page) (void)*(const volatile uint8_t *)(bytes + at);
  (void)*(const volatile uint8_t *)(bytes + n - 1);
  return true;
}

static clave_status file_writer_write_all(file_writer *writer, const uint8_t *bytes, size_t n) {
  while (n > 0) {
    size_t piece = n < ((size_t)1 << 30) ? n : (size_t)1 << 30;
    ssize_t done = write(writer->fd, bytes, piece);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0 && errno == EFAULT && file_writer_look_at(bytes, piece)) continue;
    if (done < 0 && errno == EFAULT)
      return status_new(
          STATUS_IO, "%s: the source of the data cannot be read: its file may have been cut short",
          writer->path);
    if (done < 0) return file_error(writer->path, errno);
    bytes += done;
    n -= (size_t)done;
  }
  return NULL;
}

clave_status file_writer_flush(file_writer *writer) {
  size_t n = writer->buffered;
  writer->buffered = 0;
  return file_writer_write_all(writer, writer->buffer, n);
}

clave_status file_writer_append(file_writer *writer, const void *bytes, size_t n) {
  if (n == 0) return NULL;
  writer->size += n;
  if (n > WRITE_BUFFER - writer->buffered) TRY(file_writer_flush(writer));
  if (n > WRITE_BUFFER) {
    TRY(file_writer_write_all(writer, bytes, n));
  } else {
    memcpy(writer->buffer + writer->buffered, bytes, n);
    writer->buffered += n;
  }
  const file_guard *guard = file_guard_of(bytes);
  writer->is_cut = writer->is_cut || (guard && file_guard_is_cut(guard));
  return NULL;
}

clave_status file_writer_pad(file_writer *writer, size_t alignment) {
  size_t n = (alignment - writer->size % alignment) % alignment;
  writer->size += n;
  for (size_t piece; n > 0; n -= piece) {
    if (writer->buffered == WRITE_BUFFER) TRY(file_writer_flush(writer));
    piece = n < WRITE_BUFFER - writer->buffered ? n : WRITE_BUFFER - writer->buffered;
    memset(writer->buffer + writer->buffered, 0, piece);
    writer->buffered += piece;
  }
  return NULL;
}

size_t file_writer_size(const file_writer *writer) { return writer->size; }

bool file_writer_replaces(const file_writer *writer) { return writer->temporary[0] != '\0'; }

clave_status file_writer_commit(file_writer *writer) {
  TRY(file_writer_flush(writer));
  if (writer->is_cut)
    return status_new(STATUS_IO, "%s: a source file was cut short while this file was written",
                      writer->path);
  int fd = writer->fd;
  writer->fd = -1;
  if (close(fd) != 0) return file_error(writer->path, errno);
  if (writer->temporary[0]) {
    if (renameat(writer->folder, writer->temporary, writer->folder, writer->path + writer->name) !=
        0)
      return file_error(writer->path, errno);
    writer->temporary[0] = '\0';
  }
  return NULL;
}

void file_writer_destroy(file_writer *writer) {
  if (!writer) return;
  if (writer->fd >= 0) (void)close(writer->fd);
  if (writer->temporary[0]) (void)unlinkat(writer->folder, writer->temporary, 0);
  if (writer->folder >= 0) (void)close(writer->folder);
  small_free(writer);
}
