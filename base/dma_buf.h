#ifndef BASE_DMA_BUF_H
#define BASE_DMA_BUF_H
/* dma-bufs: memory that Linux devices share by a file descriptor. Shared memory that cannot shrink
 * (a memfd with F_SEAL_SHRINK) is also accepted; it needs no synchronisation with the host. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct dma_buf {
  bool is_open;
  int fd;      /* owned */
  size_t size; /* bytes */
  /* Equal for all descriptors of the same memory. If is_distinct is false (before Linux 5.3), all
   * dma-bufs have the same id. */
  uint64_t id[2];
  bool is_distinct;
  bool is_synchronised; /* needs dma_buf_begin and dma_buf_end */
  bool is_writable;     /* true if mapped writable */
  void *data;           /* owned: the page-aligned mapping, or NULL if it is not mapped */
} dma_buf;

/* Opens the memory of `fd` through a duplicate; the caller keeps `fd`. */
clave_status dma_buf_open(int fd, dma_buf *out) STATUS_CHECK;
void dma_buf_close(dma_buf *dma_buf); /* accepts a zeroed one; unmaps */
clave_status dma_buf_map(dma_buf *dma_buf, bool writable) STATUS_CHECK;
/* The host accesses the mapped bytes between these calls. The first makes writes of devices visible
 * to the host, the second the host's writes to devices. Neither waits for devices. */
clave_status dma_buf_begin(const dma_buf *dma_buf) STATUS_CHECK;
clave_status dma_buf_end(const dma_buf *dma_buf) STATUS_CHECK;
/* Returns a duplicate of the descriptor; -1 on failure. */
int dma_buf_duplicate(int fd);
void dma_buf_close_duplicate(int fd);

#endif
