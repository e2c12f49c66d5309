/* Files for writing: beside, then renamed. */
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
#include "base/room.h"

#if MEMORY_STATIC
enum { WRITE_BUFFER = 4 * 1024 };
#else
enum { WRITE_BUFFER = 64 * 1024 };
#endif
enum { LONGEST = PATH_MAX };

struct file_writer {
  int fd;      /* -1 when closed */
  size_t size; /* appended */
  size_t buffered;
  bool is_cut;                  /* zeros may have been appended from a file that was cut short */
  char path[LONGEST];           /* where it will be (links resolved) */
  size_t name;                  /* where its last part begins */
  int folder;                   /* descriptor of its folder; -1: written directly */
  char temporary[NAME_MAX + 1]; /* in that folder; empty when written directly */
  uint8_t buffer[WRITE_BUFFER];
};

/* The file that `path` names: through links if it is one. */
static clave_status resolve_target(const char *path, char target[LONGEST]) {
  struct stat s;
  const size_t n = strlen(path);
  if (lstat(path, &s) == 0 && S_ISLNK(s.st_mode) && realpath(path, target)) return NULL;
  if (n >= LONGEST) return file_error(path, ENAMETOOLONG);
  memcpy(target, path, n + 1);
  return NULL;
}

/* Returns where the path's last part begins. */
static size_t name_at(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? (size_t)(slash - path) + 1 : 0;
}

/* Opens the folder of the path. The file and its temporary file are named relative to it, as the
 * path itself may have the greatest length already. */
static int open_folder(const char *path, size_t name) {
  char folder[LONGEST];
  if (!name) return open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  memcpy(folder, path, name);
  folder[name] = '\0';
  return open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* Appends an ending to the file's name, which is cut at a character's edge if it is too long. */
static void name_temporary(file_writer *w, int attempt) {
  const char *name = w->path + w->name;
  char ending[40];
  const int size = snprintf(ending, sizeof ending, ".%ld.%d.tmp", (long)getpid(), attempt);
  size_t n = strlen(name), most = NAME_MAX - (size_t)size;
  if (n > most) {
    n = most;
    while (n > 0 && ((unsigned char)name[n] & 0xC0) == 0x80) n--;
  }
  memcpy(w->temporary, name, n);
  memcpy(w->temporary + n, ending, (size_t)size + 1);
}

static clave_status open_temporary(file_writer *w) {
  int error = EEXIST;
  w->name = name_at(w->path);
  if (strlen(w->path + w->name) > NAME_MAX) return file_error(w->path, ENAMETOOLONG);
  w->folder = open_folder(w->path, w->name);
  if (w->folder < 0) return file_error(w->path, errno);
  for (int i = 0; i < 1000 && error == EEXIST; i++) {
    name_temporary(w, i);
    w->fd = openat(w->folder, w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (w->fd >= 0) return NULL;
    error = errno;
  }
  w->temporary[0] = '\0';
  return file_error(w->path, error);
}

static clave_status open_writer(file_writer *w, const char *path) {
  TRY(resolve_target(path, w->path));
  struct stat s;
  if (stat(w->path, &s) != 0 || S_ISREG(s.st_mode)) return open_temporary(w);
  if (S_ISDIR(s.st_mode)) return status_new(STATUS_IO, "%s: is a folder, not a file", path);
  w->fd = open(w->path, O_WRONLY | O_CLOEXEC);
  return w->fd < 0 ? file_error(path, errno) : NULL;
}

clave_status file_writer_create(const char *path, file_writer **out) {
  *out = NULL;
  file_writer *w = room_take(sizeof *w);
  if (!w) return status_no_memory();
  w->fd = w->folder = -1;
  clave_status st = open_writer(w, path);
  if (st) {
    file_writer_destroy(w);
    return st;
  }
  *out = w;
  return NULL;
}

/* Reads a byte of each page, so that the guard maps zeros where a mapped file was cut short.
 * Returns false if the bytes are not in a guarded mapping. */
static bool look_at(const uint8_t *bytes, size_t n) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  if (!file_guard_of(bytes) || !file_guard_of(bytes + n - 1)) return false;
  for (size_t at = 0; at < n; at += page) (void)*(const volatile uint8_t *)(bytes + at);
  (void)*(const volatile uint8_t *)(bytes + n - 1);
  return true;
}

static clave_status write_all(file_writer *w, const uint8_t *bytes, size_t n) {
  while (n > 0) {
    size_t piece = n < ((size_t)1 << 30) ? n : (size_t)1 << 30;
    ssize_t done = write(w->fd, bytes, piece);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0 && errno == EFAULT && look_at(bytes, piece)) continue;
    if (done < 0 && errno == EFAULT)
      return status_new(STATUS_IO,
                        "%s: what is to be written cannot be read, as of a file that was cut short",
                        w->path);
    if (done < 0) return file_error(w->path, errno);
    bytes += done;
    n -= (size_t)done;
  }
  return NULL;
}

clave_status file_writer_flush(file_writer *w) {
  size_t n = w->buffered;
  w->buffered = 0;
  return write_all(w, w->buffer, n);
}

clave_status file_writer_append(file_writer *w, const void *bytes, size_t n) {
  if (n == 0) return NULL;
  w->size += n;
  if (n > WRITE_BUFFER - w->buffered) TRY(file_writer_flush(w));
  if (n > WRITE_BUFFER) {
    TRY(write_all(w, bytes, n));
  } else {
    memcpy(w->buffer + w->buffered, bytes, n);
    w->buffered += n;
  }
  const file_guard *g = file_guard_of(bytes);
  w->is_cut = w->is_cut || (g && file_guard_is_cut(g));
  return NULL;
}

clave_status file_writer_pad(file_writer *w, size_t alignment) {
  size_t n = (alignment - w->size % alignment) % alignment;
  w->size += n;
  for (size_t piece; n > 0; n -= piece) {
    if (w->buffered == WRITE_BUFFER) TRY(file_writer_flush(w));
    piece = n < WRITE_BUFFER - w->buffered ? n : WRITE_BUFFER - w->buffered;
    memset(w->buffer + w->buffered, 0, piece);
    w->buffered += piece;
  }
  return NULL;
}

size_t file_writer_size(const file_writer *w) { return w->size; }

bool file_writer_replaces(const file_writer *w) { return w->temporary[0] != '\0'; }

clave_status file_writer_commit(file_writer *w) {
  TRY(file_writer_flush(w));
  if (w->is_cut)
    return status_new(STATUS_IO, "%s: a file that is read for it was cut short meanwhile", w->path);
  int fd = w->fd;
  w->fd = -1;
  if (close(fd) != 0) return file_error(w->path, errno);
  if (w->temporary[0]) {
    if (renameat(w->folder, w->temporary, w->folder, w->path + w->name) != 0)
      return file_error(w->path, errno);
    w->temporary[0] = '\0';
  }
  return NULL;
}

void file_writer_destroy(file_writer *w) {
  if (!w) return;
  if (w->fd >= 0) (void)close(w->fd);
  if (w->temporary[0]) (void)unlinkat(w->folder, w->temporary, 0);
  if (w->folder >= 0) (void)close(w->folder);
  room_give(w);
}
