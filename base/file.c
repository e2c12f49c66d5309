/* Files for reading (mapped) and writing (beside, then renamed), folders and locks. */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"

/* "PATH: no such file or directory" */
static clave_status io_error(const char *path, int error) {
  if (error == ENOMEM) return status_no_memory();
  char buffer[128];
  const char *reason = strerror_r(error, buffer, sizeof buffer);
  char first = reason[0] >= 'A' && reason[0] <= 'Z' ? (char)(reason[0] + 32) : reason[0];
  return status_new(STATUS_IO, "%s: %c%s", path, first, reason[0] ? reason + 1 : "");
}

/* ---------------------------------------------------------------- mapping */

static clave_status map_descriptor(int fd, const char *path, file_map *out) {
  struct stat s;
  if (fstat(fd, &s) != 0) return io_error(path, errno);
  if (S_ISDIR(s.st_mode)) return status_new(STATUS_IO, "%s: is a folder, not a file", path);
  if (!S_ISREG(s.st_mode)) return status_new(STATUS_IO, "%s: not a regular file", path);
  if (s.st_size == 0) return NULL;
  void *data = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) return io_error(path, errno);
  out->data = data;
  out->size = (size_t)s.st_size;
  return NULL;
}

clave_status file_map_open(const char *path, file_map *out) {
  *out = (file_map){0};
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not make us wait */
  if (fd < 0) return io_error(path, errno);
  clave_status st = map_descriptor(fd, path, out);
  (void)close(fd);
  return st;
}

void file_map_close(file_map *m) {
  if (m->data) (void)munmap((void *)(uintptr_t)m->data, m->size);
  *m = (file_map){0};
}

void file_map_release(const file_map *m, size_t offset, size_t size) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  size_t begin = (offset + page - 1) / page * page, end = (offset + size) / page * page;
  if (m->data && begin < end && end <= m->size) {
    (void)madvise((void *)(uintptr_t)(m->data + begin), end - begin, MADV_DONTNEED);
  }
}

/* ---------------------------------------------------------------- writing */

enum { WRITE_BUFFER = 64 * 1024 };

struct file_writer {
  char *path;      /* owned; where it will be (links resolved) */
  char *temporary; /* owned; NULL when written directly */
  int fd;          /* -1 when closed */
  size_t size;     /* appended */
  size_t buffered;
  uint8_t buffer[WRITE_BUFFER];
};

/* The file that `path` names: through links if it is one. NULL when memory is out. */
static char *resolve_target(const char *path) {
  struct stat s;
  if (lstat(path, &s) == 0 && S_ISLNK(s.st_mode)) {
    char *target = realpath(path, NULL);
    if (target) return target;
  }
  return strdup(path);
}

static clave_status open_temporary(file_writer *w) {
  size_t n = strlen(w->path) + 48;
  w->temporary = malloc(n);
  if (!w->temporary) return status_no_memory();
  int error = EEXIST;
  for (int i = 0; i < 1000 && error == EEXIST; i++) {
    (void)snprintf(w->temporary, n, "%s.%ld.%d.tmp", w->path, (long)getpid(), i);
    w->fd = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (w->fd >= 0) return NULL;
    error = errno;
  }
  free(w->temporary);
  w->temporary = NULL;
  return io_error(w->path, error);
}

static clave_status open_writer(file_writer *w, const char *path) {
  w->path = resolve_target(path);
  if (!w->path) return status_no_memory();
  struct stat s;
  if (stat(w->path, &s) != 0 || S_ISREG(s.st_mode)) return open_temporary(w);
  if (S_ISDIR(s.st_mode)) return status_new(STATUS_IO, "%s: is a folder, not a file", path);
  w->fd = open(w->path, O_WRONLY | O_CLOEXEC);
  return w->fd < 0 ? io_error(path, errno) : NULL;
}

clave_status file_writer_create(const char *path, file_writer **out) {
  *out = NULL;
  file_writer *w = calloc(1, sizeof *w);
  if (!w) return status_no_memory();
  w->fd = -1;
  clave_status st = open_writer(w, path);
  if (st) {
    file_writer_destroy(w);
    return st;
  }
  *out = w;
  return NULL;
}

static clave_status write_all(file_writer *w, const uint8_t *bytes, size_t n) {
  while (n > 0) {
    size_t piece = n < ((size_t)1 << 30) ? n : (size_t)1 << 30;
    ssize_t done = write(w->fd, bytes, piece);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return io_error(w->path, errno);
    bytes += done;
    n -= (size_t)done;
  }
  return NULL;
}

static clave_status flush_writer(file_writer *w) {
  size_t n = w->buffered;
  w->buffered = 0;
  return write_all(w, w->buffer, n);
}

clave_status file_writer_append(file_writer *w, const void *bytes, size_t n) {
  w->size += n;
  if (n > WRITE_BUFFER - w->buffered) TRY(flush_writer(w));
  if (n > WRITE_BUFFER) return write_all(w, bytes, n);
  if (n > 0) memcpy(w->buffer + w->buffered, bytes, n);
  w->buffered += n;
  return NULL;
}

clave_status file_writer_pad(file_writer *w, size_t alignment) {
  static const uint8_t zeros[4096];
  size_t n = (alignment - w->size % alignment) % alignment;
  for (size_t piece; n > 0; n -= piece) {
    piece = n < sizeof zeros ? n : sizeof zeros;
    TRY(file_writer_append(w, zeros, piece));
  }
  return NULL;
}

size_t file_writer_size(const file_writer *w) { return w->size; }

clave_status file_writer_commit(file_writer *w) {
  TRY(flush_writer(w));
  int fd = w->fd;
  w->fd = -1;
  if (close(fd) != 0) return io_error(w->path, errno);
  if (w->temporary) {
    if (rename(w->temporary, w->path) != 0) return io_error(w->path, errno);
    free(w->temporary);
    w->temporary = NULL;
  }
  return NULL;
}

void file_writer_destroy(file_writer *w) {
  if (!w) return;
  if (w->fd >= 0) (void)close(w->fd);
  if (w->temporary) (void)unlink(w->temporary);
  free(w->temporary);
  free(w->path);
  free(w);
}

/* ---------------------------------------------------------------- folders */

enum { MAX_DEPTH = 16, LEAST_FREE_BYTES = 64 << 20 };

static clave_status make_folder(const char *path) {
  if (mkdir(path, 0700) == 0 || errno == EEXIST) return NULL;
  return io_error(path, errno);
}

clave_status make_folders(const char *path) {
  char *copy = strdup(path);
  if (!copy) return status_no_memory();
  clave_status st = NULL;
  for (char *p = copy + 1; copy[0] && *p && !st; p++) {
    if (*p != '/') continue;
    *p = '\0';
    st = make_folder(copy);
    *p = '/';
  }
  if (!st) st = make_folder(copy);
  free(copy);
  if (!st && !folder_exists(path)) st = status_new(STATUS_IO, "%s: is not a folder", path);
  return st;
}

char *path_join(const char *folder, const char *name) {
  size_t a = strlen(folder), b = strlen(name);
  bool slash = a > 0 && folder[a - 1] != '/';
  char *path = malloc(a + slash + b + 1);
  if (!path) return NULL;
  memcpy(path, folder, a);
  if (slash) path[a] = '/';
  memcpy(path + a + slash, name, b + 1);
  return path;
}

typedef struct listing {
  folder_entry *items; /* owned, with their names */
  size_t count, capacity;
} listing;

/* Adds `name` if it is of that type (S_IFREG, S_IFDIR); one that vanished meanwhile is skipped. */
static clave_status add_entry(const char *folder, const char *name, mode_t type, listing *l) {
  char *path = path_join(folder, name);
  if (!path) return status_no_memory();
  struct stat s;
  bool wanted = lstat(path, &s) == 0 && (s.st_mode & S_IFMT) == type;
  free(path);
  if (!wanted) return NULL;
  bool room = array_reserve(&l->items, &l->capacity, l->count + 1, sizeof *l->items);
  char *copy = room ? strdup(name) : NULL;
  if (!copy) return status_no_memory();
  l->items[l->count++] = (folder_entry){copy, (uint64_t)s.st_size, (int64_t)s.st_mtim.tv_sec,
                                        (int64_t)s.st_atim.tv_sec};
  return NULL;
}

static clave_status list_type(const char *path, mode_t type, folder_entry **out, size_t *count) {
  *out = NULL;
  *count = 0;
  DIR *d = opendir(path);
  if (!d) return errno == ENOENT ? NULL : io_error(path, errno);
  clave_status st = NULL;
  listing l = {0};
  for (struct dirent *e; !st && (e = readdir(d));)
    if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
      st = add_entry(path, e->d_name, type, &l);
  (void)closedir(d);
  if (st) {
    folder_list_free(l.items, l.count);
    return st;
  }
  *out = l.items;
  *count = l.count;
  return NULL;
}

clave_status folder_list(const char *path, folder_entry **out, size_t *count) {
  return list_type(path, S_IFREG, out, count);
}

clave_status folder_list_folders(const char *path, folder_entry **out, size_t *count) {
  return list_type(path, S_IFDIR, out, count);
}

void folder_list_free(folder_entry *entries, size_t count) {
  for (size_t i = 0; i < count; i++) free(entries[i].name);
  free(entries);
}

bool file_remove(const char *path) { return unlink(path) == 0; }

clave_status file_move(const char *from, const char *to) {
  return rename(from, to) == 0 ? NULL : io_error(to, errno);
}

bool file_exists(const char *path) {
  struct stat s;
  return lstat(path, &s) == 0;
}

bool folder_exists(const char *path) {
  struct stat s;
  return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

bool path_has_ending(const char *path, const char *ending) {
  size_t n = strlen(path), m = strlen(ending);
  return n > m && strcmp(path + n - m, ending) == 0;
}

/* Visits the files of a folder, and of those in it, before the folder itself. */
static bool visit_tree(const char *path, int depth, bool removes, uint64_t *bytes,
                       uint64_t *files) {
  folder_entry *entries;
  size_t n;
  clave_status st =
      depth < MAX_DEPTH ? folder_list_folders(path, &entries, &n) : status_no_memory();
  bool good = !st;
  for (size_t i = 0; !st && i < n; i++) {
    char *inner = path_join(path, entries[i].name);
    good = inner && visit_tree(inner, depth + 1, removes, bytes, files) && good;
    free(inner);
  }
  if (!st) folder_list_free(entries, n);
  status_free(st);
  st = folder_list(path, &entries, &n);
  for (size_t i = 0; !st && i < n; i++) {
    char *file = removes ? path_join(path, entries[i].name) : NULL;
    bool counts = !removes || (file && file_remove(file));
    free(file);
    if (!counts) continue;
    *bytes += entries[i].size;
    ++*files;
  }
  if (!st) folder_list_free(entries, n);
  status_free(st);
  return removes ? rmdir(path) == 0 && good : good;
}

void folder_measure(const char *path, uint64_t *bytes, uint64_t *files) {
  *bytes = *files = 0;
  (void)visit_tree(path, 0, false, bytes, files);
}

bool folder_remove(const char *path, uint64_t *bytes) {
  uint64_t files = 0;
  *bytes = 0;
  return visit_tree(path, 0, true, bytes, &files);
}

char *folder_create_unique(const char *parent, const char *stem) {
  text name = {0};
  text_printf(&name, "%s/%sXXXXXX", parent, stem);
  if (name.failed || !mkdtemp(name.data)) text_free(&name);
  return name.data;
}

bool folder_takes_code(const char *path) {
  struct statvfs s;
  if (statvfs(path, &s) != 0 || (s.f_flag & (ST_NOEXEC | ST_RDONLY))) return false;
  return (uint64_t)s.f_bavail * s.f_frsize >= LEAST_FREE_BYTES;
}

bool folder_is_private(const char *path) {
  struct stat s;
  return stat(path, &s) == 0 && S_ISDIR(s.st_mode) && s.st_uid == geteuid() &&
         (s.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* ---------------------------------------------------------------- locks */

struct file_lock {
  int fd;
};

static bool wait_for_lock(int fd, int timeout_ms) {
  const struct timespec pause = {0, 2 * 1000 * 1000};
  for (int waited_ms = 0;; waited_ms += 2) {
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
    if ((errno != EWOULDBLOCK && errno != EINTR) || waited_ms >= timeout_ms) return false;
    (void)nanosleep(&pause, NULL);
  }
}

bool file_lock_take(const char *path, int timeout_ms, file_lock **out) {
  *out = NULL;
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return false;
  file_lock *l = wait_for_lock(fd, timeout_ms) ? malloc(sizeof *l) : NULL;
  if (!l) {
    (void)close(fd);
    return false;
  }
  l->fd = fd;
  *out = l;
  return true;
}

void file_lock_release(file_lock *l) {
  if (!l) return;
  (void)close(l->fd); /* the lock goes with the descriptor */
  free(l);
}
