/* Device memory: created, or wrapped around host memory where the device shares it. */
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/device/device.h"
#include "base/memory.h"

/* Callers may use buffers of size zero; OpenCL does not allow them. */
static size_t at_least_one_byte(size_t bytes) { return bytes ? bytes : 1; }

clave_status opencl_buffer_of(cl_device *device, cl_mem memory, size_t bytes, buffer **out) {
  static uint64_t serial;
  cl_buffer *buf = calloc(1, sizeof *buf);
  *out = buf ? &buf->base : NULL;
  if (!buf) {
    device->cl->clReleaseMemObject(memory);
    return status_no_memory();
  }
  buf->base.bytes = bytes;
  buf->serial = __atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED);
  buf->memory = memory;
  return NULL;
}

static clave_status make_opencl_buffer(backend *backend, cl_mem_flags flags, void *host,
                                       size_t bytes, buffer **out) {
  cl_device *device = (cl_device *)backend;
  *out = NULL;
  if (bytes > backend->info.max_alloc)
    return status_new(STATUS_NO_MEMORY,
                      "a buffer of %zu bytes exceeds the device's limit of %llu bytes", bytes,
                      (unsigned long long)backend->info.max_alloc);
  cl_int code;
  cl_mem memory =
      device->cl->clCreateBuffer(device->context, flags, at_least_one_byte(bytes), host, &code);
  if (code != CL_SUCCESS)
    return status_while(opencl_status(code, "clCreateBuffer"), "%zu bytes", bytes);
  return opencl_buffer_of(device, memory, bytes, out);
}

static void CL_CALLBACK free_memory(cl_mem memory, void *host) {
  (void)memory;
  free(host);
}

/* Allocates the memory here, in large pages, which CPU drivers do not request: streaming reads
 * through small pages are half as fast. It is freed after the last command that uses it. */
static clave_status create_in_large_pages(backend *backend, size_t bytes, buffer **out) {
  *out = NULL;
  void *host = memory_alloc(bytes);
  if (!host) return status_no_memory();
  clave_status st =
      make_opencl_buffer(backend, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, host, bytes, out);
  if (st) {
    free(host);
    return st;
  }
  const cl_functions *cl = ((cl_device *)backend)->cl;
  cl_int code =
      cl->clSetMemObjectDestructorCallback(((cl_buffer *)*out)->memory, free_memory, host);
  if (code == CL_SUCCESS) return NULL;
  opencl_buffer_destroy(backend, *out);
  *out = NULL;
  free(host);
  return opencl_status(code, "clSetMemObjectDestructorCallback");
}

clave_status opencl_buffer_create(backend *backend, size_t bytes, buffer **out) {
  if (backend->info.runs_on_host && bytes >= MEMORY_LARGE && bytes <= backend->info.max_alloc)
    return create_in_large_pages(backend, bytes, out);
  return make_opencl_buffer(backend, CL_MEM_READ_WRITE, NULL, bytes, out);
}

clave_status opencl_buffer_wrap(backend *backend, const void *host, size_t bytes, bool writable,
                                buffer **out) {
  if (bytes == 0) return opencl_buffer_create(backend, 0, out);
  bool in_place =
      backend->info.shares_host_memory && (uintptr_t)host % backend->info.alignment == 0;
  cl_mem_flags how = in_place ? CL_MEM_USE_HOST_PTR : CL_MEM_COPY_HOST_PTR;
  how |= writable ? CL_MEM_READ_WRITE : CL_MEM_READ_ONLY;
  union { /* clCreateBuffer's pointer is not const; with CL_MEM_READ_ONLY nothing writes there */
    const void *from;
    void *to;
  } pointer = {.from = host};
  TRY(make_opencl_buffer(backend, how, pointer.to, bytes, out));
  if (in_place) ((cl_buffer *)*out)->host = host;
  return NULL;
}

static clave_status create_image(const cl_device *device, cl_buffer *buf) {
  const cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT32};
  cl_image_desc desc = {.image_type = CL_MEM_OBJECT_IMAGE1D_BUFFER,
                        .image_width = buf->base.bytes / IMAGE_WORD};
  desc.buffer = buf->memory;
  cl_int code;
  buf->image =
      device->cl->clCreateImage(device->context, CL_MEM_READ_ONLY, &format, &desc, NULL, &code);
  return code == CL_SUCCESS ? NULL : opencl_status(code, "clCreateImage");
}

clave_status opencl_buffer_image(cl_device *device, cl_buffer *buf, cl_mem *out) {
  mutex_lock(device->lock);
  clave_status st = buf->image ? NULL : create_image(device, buf);
  *out = buf->image;
  mutex_unlock(device->lock);
  return st;
}

void opencl_buffer_destroy(backend *backend, buffer *buf) {
  if (!buf) return;
  cl_mem image = ((cl_buffer *)buf)->image;
  if (image) ((cl_device *)backend)->cl->clReleaseMemObject(image);
  ((cl_device *)backend)->cl->clReleaseMemObject(((cl_buffer *)buf)->memory);
  free(buf);
}
