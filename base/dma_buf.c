/* dma-bufs: recognised among other files, mapped, and synchronised with the host. */
#include "base/dma_buf.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/number.h"

/* Constants of linux/dma-buf.h and linux/magic.h, which some C libraries do not ship. */
#define SYNC_REQUEST _IOW('b', 0, uint64_t)
enum { SYNC_READ = 1, SYNC_WRITE = 2, SYNC_END = 4, DMA_BUF_FILES = 0x444d4142 };

static clave_status dma_buf_failed(int fd, const char *call) {
  const int error = errno;
  if (error == ENOMEM) return status_no_memory();
  return status_new(STATUS_IO, "dma-buf %d: %s: %s", fd, call, system_error_text(error));
}

static int synchronise(int fd, uint64_t flags) {
  for (;;) {
    if (ioctl(fd, SYNC_REQUEST, &flags) == 0) return 0;
    if (errno != EINTR && errno != EAGAIN) return -1;
  }
}

/* ---------------------------------------------------------------- recognising */

/* True for the file types to which SYNC_REQUEST may be sent. A device file could take its number
 * for another request. */
static bool accepts_requests(mode_t mode) {
  return !S_ISCHR(mode) && !S_ISBLK(mode) && !S_ISFIFO(mode) && !S_ISSOCK(mode) && !S_ISDIR(mode);
}

/* Recognises a dma-buf by a harmless synchronisation, if the file system does not identify it. */
static bool answers_as_dma_buf(int fd) {
  return synchronise(fd, SYNC_READ) == 0 && synchronise(fd, SYNC_READ | SYNC_END) == 0;
}

static bool is_among_dma_bufs(int fd) {
  struct statfs files;
  return fstatfs(fd, &files) == 0 && files.f_type == DMA_BUF_FILES;
}

static bool cannot_shrink(int fd) {
  const int seals = fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK);
}

static clave_status dma_buf_find_kind(int fd, const struct stat *info, dma_buf *out) {
  out->is_distinct = is_among_dma_bufs(fd);
  out->is_synchronised =
      out->is_distinct || (accepts_requests(info->st_mode) && answers_as_dma_buf(fd));
  if (out->is_synchronised) return NULL;
  out->is_distinct = true;
  if (S_ISREG(info->st_mode) && cannot_shrink(fd)) return NULL;
  return INVALID(
      "descriptor %d: expected a dma-buf, or shared memory that cannot shrink (a memfd with "
      "F_SEAL_SHRINK)",
      fd);
}

/* Finds the size. Before Linux 5.3, a dma-buf reports its size only by lseek, which moves no file
 * position of a dma-buf. */
static clave_status dma_buf_find_size(int fd, const struct stat *info, dma_buf *out) {
  off_t size = info->st_size;
  if (!size && out->is_synchronised) size = lseek(fd, 0, SEEK_END);
  if (size < 0) return dma_buf_failed(fd, "lseek");
  out->size = (size_t)size;
  return NULL;
}

clave_status dma_buf_open(int fd, dma_buf *out) {
  struct stat s;
  *out = (dma_buf){0};
  if (fd < 0) return INVALID("descriptor %d of a dma-buf is negative", fd);
  if (fstat(fd, &s) != 0) return dma_buf_failed(fd, "fstat");
  TRY(dma_buf_find_kind(fd, &s, out));
  TRY(dma_buf_find_size(fd, &s, out));
  out->id[0] = s.st_dev;
  out->id[1] = s.st_ino;
  out->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (out->fd < 0) return dma_buf_failed(fd, "fcntl");
  out->is_open = true;
  return NULL;
}

void dma_buf_close(dma_buf *buf) {
  if (!buf->is_open) return;
  if (buf->data) (void)munmap(buf->data, buf->size);
  (void)close(buf->fd);
  *buf = (dma_buf){0};
}

/* ---------------------------------------------------------------- host access */

clave_status dma_buf_map(dma_buf *dma_buf, bool writable) {
  const int how = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void *data = mmap(NULL, dma_buf->size, how, MAP_SHARED, dma_buf->fd, 0);
  if (data == MAP_FAILED) return dma_buf_failed(dma_buf->fd, "mmap");
  dma_buf->data = data;
  dma_buf->is_writable = writable;
  return NULL;
}

static clave_status change_access(const dma_buf *dma_buf, uint64_t end) {
  if (!dma_buf->is_synchronised) return NULL;
  const uint64_t how = dma_buf->is_writable ? SYNC_READ | SYNC_WRITE : SYNC_READ;
  return synchronise(dma_buf->fd, how | end) == 0
             ? NULL
             : dma_buf_failed(dma_buf->fd, "DMA_BUF_IOCTL_SYNC");
}

clave_status dma_buf_begin(const dma_buf *dma_buf) { return change_access(dma_buf, 0); }
clave_status dma_buf_end(const dma_buf *dma_buf) { return change_access(dma_buf, SYNC_END); }

int dma_buf_duplicate(int fd) { return fcntl(fd, F_DUPFD_CLOEXEC, 0); }
void dma_buf_close_duplicate(int fd) { (void)close(fd); }
