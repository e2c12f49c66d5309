#ifndef HOST_APP_FRAME_H
#define HOST_APP_FRAME_H
/* A tensor in memory that devices share by a descriptor, as a camera's frames are (dma-bufs). Here
 * it is memory of memfd_create, which clave takes where its device is the host's CPU. */
#include <stdbool.h>

#include "graph.h"

typedef struct frame {
  int fd; /* 0: none */
  tensor *t;
  float *before; /* the tensor's memory, until frame_close */
  size_t bytes;
} frame;

/* The tensor lies in shared memory from here on, for BATCH images. */
bool frame_open(frame *frame, tensor *tensor);
void frame_close(frame *frame); /* takes a zeroed one */

#endif
