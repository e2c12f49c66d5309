#ifndef HOST_APP_FRAME_H
#define HOST_APP_FRAME_H
/* A tensor in memory that devices share by a descriptor, like a camera's frames (dma-bufs). Here it
 * is memory of memfd_create, which clave accepts if its device is the host's CPU. */
#include <stdbool.h>

#include "graph.h"

typedef struct frame {
  int fd; /* 0: none */
  tensor *t;
  float *before; /* the tensor's own memory, restored by frame_close */
  size_t bytes;
} frame;

/* Moves the tensor to shared memory, for BATCH images. False on failure. */
bool frame_open(frame *frame, tensor *tensor);
void frame_close(frame *frame); /* accepts a zeroed frame */

#endif
