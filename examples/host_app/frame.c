/* Shared memory in place of a camera's frame. */
#define _GNU_SOURCE
#include "frame.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* Sealed, so that it cannot shrink while somebody reads it. */
static int make_memory(size_t bytes) {
  const int fd = memfd_create("frame", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd <= 0) return 0;
  if (ftruncate(fd, (off_t)bytes) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0) return fd;
  (void)close(fd);
  return 0;
}

bool frame_open(frame *f, tensor *t) {
  const size_t bytes = (size_t)tensor_elements(t, BATCH) * sizeof *t->data;
  *f = (frame){.fd = make_memory(bytes), .t = t, .before = t->data, .bytes = bytes};
  void *data = MAP_FAILED;
  if (f->fd) data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
  if (data == MAP_FAILED) {
    perror("host_app: note: shared memory");
    if (f->fd) (void)close(f->fd);
    *f = (frame){0};
    return false;
  }
  t->data = data;
  return true;
}

void frame_close(frame *f) {
  if (!f->fd) return;
  (void)munmap(f->t->data, f->bytes);
  (void)close(f->fd);
  f->t->data = f->before;
  *f = (frame){0};
}
