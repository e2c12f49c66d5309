/* Files for reading, mapped. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/number.h"

clave_status file_error(const char *path, int error) {
  if (error == ENOMEM) return status_no_memory();
  const char *reason = system_error_text(error);
  char first = reason[0] >= 'A' && reason[0] <= 'Z' ? (char)(reason[0] + 32) : reason[0];
  return status_new(STATUS_IO, "%s: %c%s", path, first, reason[0] ? reason + 1 : "");
}

static clave_status map_descriptor(int fd, const char *path, file_map *out) {
  struct stat s;
  if (fstat(fd, &s) != 0) return file_error(path, errno);
  if (S_ISDIR(s.st_mode)) return status_new(STATUS_IO, "%s: is a folder, not a file", path);
  if (!S_ISREG(s.st_mode)) return status_new(STATUS_IO, "%s: not a regular file", path);
  if (s.st_size == 0) return NULL;
  const size_t size = (size_t)s.st_size;
  if ((off_t)size != s.st_size) return file_error(path, EFBIG); /* than addresses of 32 bits */
  void *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) return file_error(path, errno);
  out->data = data;
  out->size = size;
  return NULL;
}

clave_status file_map_open(const char *path, file_map *out) {
  *out = (file_map){0};
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not make us wait */
  if (fd < 0) return file_error(path, errno);
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
