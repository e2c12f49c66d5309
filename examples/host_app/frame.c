/* Shared memory in place of a camera's frame. */
#define _GNU_SOURCE
#include "frame.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* Returns a descriptor of memory that is sealed, so that it cannot shrink while it is read. */
static int make_memory(size_t bytes) {
  const int fd = memfd_create("frame", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd <= 0) return 0;
  if (ftruncate(fd, (off_t)bytes) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0) return fd;
  (void)close(fd);
  return 0;
}

bool frame_open(frame *picture, tensor *tensor) {
  const size_t bytes = (size_t)tensor_elements(tensor, BATCH) * sizeof *tensor->data;
  *picture = (frame){.fd = make_memory(bytes), .t = tensor, .before = tensor->data, .bytes = bytes};
  void *data = MAP_FAILED;
  if (picture->fd) data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, picture->fd, 0);
  if (data == MAP_FAILED) {
    perror("host_app: note: shared memory");
    if (picture->fd) (void)close(picture->fd);
    *picture = (frame){0};
    return false;
  }
  tensor->data = data;
  return true;
}

void frame_close(frame *picture) {
  if (!picture->fd) return;
  (void)munmap(picture->t->data, picture->bytes);
  (void)close(picture->fd);
  picture->t->data = picture->before;
  *picture = (frame){0};
}
