/* Files mapped for reading. Small ones are copied, so changes to the file do not reach them. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_guard.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/small_alloc.h"

enum { LONG_PATH = 1600 };
enum { COPIED_BYTES = 256 << 10 };

/* The state of a mapped file, by which file_map_check notices that the file was written to. */
struct mapped_file {
  int fd;
  atomic_int_fast64_t changed_ns;
  int64_t written_ns;
  atomic_bool is_bad;
};

clave_status file_error(const char *path, int error) {
  if (error == ENOMEM) return status_no_memory();
  const char *reason = system_error_text(error);
  char first = reason[0] >= 'A' && reason[0] <= 'Z' ? (char)(reason[0] + 32) : reason[0];
  const char *rest = reason[0] ? reason + 1 : "";
  const size_t size = strlen(path);
  if (size <= LONG_PATH) return status_new(STATUS_IO, "%s: %c%s", path, first, rest);
  const int end = LONG_PATH / 2; /* a message cannot hold the whole path and the reason */
  return status_new(STATUS_IO, "%.*s...%s: %c%s", end, path, path + size - (size_t)end, first,
                    rest);
}

/* Returns the time of the last change to bytes or attributes. Unlike st_mtim it cannot be set. */
static int64_t changed_ns(const struct stat *info) {
  return (int64_t)info->st_ctim.tv_sec * 1000000000 + info->st_ctim.tv_nsec;
}

/* Returns the time of the last change to bytes, which programs can set. */
static int64_t written_ns(const struct stat *info) {
  return (int64_t)info->st_mtim.tv_sec * 1000000000 + info->st_mtim.tv_nsec;
}

/* Reads the file into anonymous memory, which is unmapped like a mapped file. */
static clave_status copy_file(int fd, const char *path, size_t size, file_map *out) {
  void *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return file_error(path, errno);
  *out = (file_map){.data = data, .size = size}; /* on failure the caller unmaps all of it */
  for (size_t got = 0; got < size;) {
    ssize_t n = pread(fd, (char *)data + got, size - got, (off_t)got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return file_error(path, errno);
    if (n == 0)
      return status_new(STATUS_IO,
                        "%s: expected %zu bytes, got %zu: the file was cut short while it was read",
                        path, size, got);
    got += (size_t)n;
  }
  return NULL;
}

/* Maps the file; on success *fd is -1 and the map owns the descriptor. A file that cannot be
 * guarded is copied. */
static clave_status map_file(int *fd, const char *path, const struct stat *info, file_map *out) {
  const size_t size = (size_t)info->st_size;
  void *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, *fd, 0);
  if (data == MAP_FAILED) return file_error(path, errno);
  *out = (file_map){.data = data, .size = size, .guard = file_guard_add(data, size)};
  if (!out->guard) {
    file_map_close(out);
    return copy_file(*fd, path, size, out);
  }
  out->state = small_alloc(sizeof *out->state);
  if (!out->state) return status_no_memory();
  out->state->fd = *fd;
  out->state->changed_ns = changed_ns(info);
  out->state->written_ns = written_ns(info);
  *fd = -1;
  return NULL;
}

static clave_status map_descriptor(int *fd, const char *path, file_map *out) {
  struct stat s;
  if (fstat(*fd, &s) != 0) return file_error(path, errno);
  if (S_ISDIR(s.st_mode)) return status_new(STATUS_IO, "%s: expected a file, got a folder", path);
  if (!S_ISREG(s.st_mode)) return status_new(STATUS_IO, "%s: expected a regular file", path);
  if (s.st_size == 0) return NULL;
  const size_t size = (size_t)s.st_size;
  if ((off_t)size != s.st_size) return file_error(path, EFBIG); /* too large for 32-bit addresses */
  return size <= COPIED_BYTES ? copy_file(*fd, path, size, out) : map_file(fd, path, &s, out);
}

clave_status file_map_open(const char *path, file_map *out) {
  *out = (file_map){0};
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* opening a pipe must not block */
  if (fd < 0) return file_error(path, errno);
  clave_status st = map_descriptor(&fd, path, out);
  if (fd >= 0) (void)close(fd);
  if (st) file_map_close(out);
  return st;
}

void file_map_close(file_map *map) {
  file_guard_remove(map->guard);
  if (map->data) (void)munmap((void *)(uintptr_t)map->data, map->size);
  if (map->state) (void)close(map->state->fd);
  small_free(map->state);
  *map = (file_map){0};
}

clave_status file_map_check(const file_map *map, const char *path, bool *changed) {
  if (changed) *changed = false;
  if (!map->state) return NULL;
  struct stat s = {0};
  const bool is_known = fstat(map->state->fd, &s) == 0;
  if (file_guard_is_cut(map->guard) || (is_known && s.st_size < (off_t)map->size))
    map->state->is_bad = true;
  if (map->state->is_bad)
    return status_new(STATUS_IO,
                      "%s: expected %zu bytes, got fewer: the file was cut short or cannot be read "
                      "since it was opened; load it again",
                      path, map->size);
  file_guard_renew();
  if (changed) *changed = is_known && changed_ns(&s) != map->state->changed_ns;
  return NULL;
}

bool file_map_is_written(const file_map *map) {
  struct stat s;
  return map->state && fstat(map->state->fd, &s) == 0 &&
         (written_ns(&s) != map->state->written_ns || s.st_size != (off_t)map->size);
}

void file_map_settle(const file_map *map) {
  struct stat s;
  if (map->state && fstat(map->state->fd, &s) == 0) map->state->changed_ns = changed_ns(&s);
}

void file_map_release(const file_map *map, size_t offset, size_t size) {
  size_t page = memory_page();
  size_t begin = (offset + page - 1) / page * page, end = (offset + size) / page * page;
  if (map->guard && begin < end && end <= map->size) { /* releasing a copy would lose it */
    (void)madvise((void *)(uintptr_t)(map->data + begin), end - begin, MADV_DONTNEED);
  }
}
