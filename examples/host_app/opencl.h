#ifndef HOST_APP_OPENCL_H
#define HOST_APP_OPENCL_H
/* The application's own OpenCL: a context, a queue, a kernel that makes planes of images, and the
 * buffers in which it and clave pass tensors. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "graph.h"

typedef struct own_opencl {
  cl_device_id device;
  cl_context context;
  cl_command_queue queue;
  cl_kernel to_planes;
  cl_mem images;                   /* one of the buffers */
  cl_mem buffers[1 + MAX_TENSORS]; /* (n_buffers) all buffers */
  int n_buffers;
} own_opencl;

bool own_opencl_open(own_opencl *opencl);  /* false: no OpenCL; writes the reason to stderr */
void own_opencl_close(own_opencl *opencl); /* also releases its buffers */
cl_mem own_opencl_buffer(own_opencl *opencl, size_t bytes); /* NULL on failure */
/* Enqueues the copy of the images and the kernel; does not wait. */
bool own_opencl_to_planes(const own_opencl *opencl, const uint8_t *images, int n, cl_mem planes);
bool own_opencl_read(const own_opencl *opencl, cl_mem from, void *to, size_t bytes);

#endif
