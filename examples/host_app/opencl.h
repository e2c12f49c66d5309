#ifndef HOST_APP_OPENCL_H
#define HOST_APP_OPENCL_H
/* The application's own OpenCL: a context, a queue, a kernel that makes planes of images, and the
 * buffers through which it and clave hand each other tensors. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "graph.h"

typedef struct own_opencl {
  cl_device_id device;
  cl_context context;
  cl_command_queue queue;
  cl_kernel to_planes;
  cl_mem images;                   /* one of the buffers */
  cl_mem buffers[1 + MAX_TENSORS]; /* all that were made (n_buffers) */
  int n_buffers;
} own_opencl;

bool own_opencl_open(own_opencl *opencl);  /* false: there is none, as stderr says */
void own_opencl_close(own_opencl *opencl); /* with its buffers */
cl_mem own_opencl_buffer(own_opencl *opencl, size_t bytes); /* NULL: it cannot be had */
/* Enqueues the images and the kernel; waits for nothing. */
bool own_opencl_to_planes(const own_opencl *opencl, const uint8_t *images, int n, cl_mem planes);
bool own_opencl_read(const own_opencl *opencl, cl_mem from, void *to, size_t bytes);

#endif
