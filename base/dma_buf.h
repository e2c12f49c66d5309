#ifndef BASE_DMA_BUF_H
#define BASE_DMA_BUF_H
/* dma-bufs: memory that Linux devices share, by a file descriptor. Shared memory that cannot shrink
 * (a memfd with F_SEAL_SHRINK) is taken as well; the host need not be synchronised with it. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct dma_buf {
  bool is_open;
  int fd;      /* owned */
  size_t size; /* bytes */
  /* The same for all descriptors of the same memory; where not is_distinct (before Linux 5.3) for
   * all dma-bufs. */
  uint64_t id[2];
  bool is_distinct;
  bool is_synchronised; /* by dma_buf_begin and dma_buf_end */
  bool is_writable;     /* as it is mapped */
  void *data;           /* owned: mapped, page-aligned; NULL: it is not */
} dma_buf;

/* Holds the memory of `fd`, which stays the caller's. */
clave_status dma_buf_open(int fd, dma_buf *out) STATUS_CHECK;
void dma_buf_close(dma_buf *dma_buf); /* takes a zeroed one; unmaps */
clave_status dma_buf_map(dma_buf *dma_buf, bool writable) STATUS_CHECK;
/* Of the mapped bytes the host sees what devices wrote, from begin to end; they see what it wrote
 * from the end on. It does not wait for devices. */
clave_status dma_buf_begin(const dma_buf *dma_buf) STATUS_CHECK;
clave_status dma_buf_end(const dma_buf *dma_buf) STATUS_CHECK;

#endif
