/* Refuses dma-bufs, which only Linux has. */
#include "base/dma_buf.h"

clave_status dma_buf_open(int fd, dma_buf *out) {
  *out = (dma_buf){0};
  return UNSUPPORTED("dma-buf %d: Windows has no dma-bufs", fd);
}

void dma_buf_close(dma_buf *dma_buf) { (void)dma_buf; }

clave_status dma_buf_map(dma_buf *dma_buf, bool writable) {
  (void)writable;
  return UNSUPPORTED("dma-buf %d: Windows has no dma-bufs", dma_buf->fd);
}

clave_status dma_buf_begin(const dma_buf *dma_buf) {
  (void)dma_buf;
  return NULL;
}
clave_status dma_buf_end(const dma_buf *dma_buf) { return dma_buf_begin(dma_buf); }

int dma_buf_duplicate(int fd) {
  (void)fd;
  return -1;
}
void dma_buf_close_duplicate(int fd) { (void)fd; }
