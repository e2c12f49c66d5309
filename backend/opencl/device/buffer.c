/* Device memory: created, or made over host memory if the device shares it. */
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/device/device.h"
#include "base/memory.h"

/* OpenCL has no buffers of size zero, which callers may request. */
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
  code = opencl_made(memory, code);
  if (code != CL_SUCCESS)
    return status_while(opencl_status(code, "clCreateBuffer"), "%zu bytes", bytes);
  return opencl_buffer_of(device, memory, bytes, out);
}

static void CL_CALLBACK free_memory(cl_mem memory, void *host) {
  (void)memory;
  memory_free(host);
}

/* Makes a buffer over our own memory in large pages, which CPU drivers do not use: reads through
 * small pages are half as fast. The memory is freed after the last command that uses it. */
static clave_status create_in_large_pages(backend *backend, size_t bytes, buffer **out) {
  *out = NULL;
  void *host = memory_alloc(bytes);
  if (!host) return status_no_memory();
  clave_status st =
      make_opencl_buffer(backend, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, host, bytes, out);
  if (st) {
    memory_free(host);
    return st;
  }
  const cl_functions *cl = ((cl_device *)backend)->cl;
  cl_int code =
      cl->clSetMemObjectDestructorCallback(((cl_buffer *)*out)->memory, free_memory, host);
  if (code == CL_SUCCESS) return NULL;
  opencl_buffer_destroy(backend, *out);
  *out = NULL;
  memory_free(host);
  return opencl_status(code, "clSetMemObjectDestructorCallback");
}

clave_status opencl_buffer_create(backend *backend, size_t bytes, buffer **out) {
  if (backend->info.runs_on_host && bytes >= MEMORY_LARGE && bytes <= backend->info.max_alloc)
    return create_in_large_pages(backend, bytes, out);
  return make_opencl_buffer(backend, CL_MEM_READ_WRITE, NULL, bytes, out);
}

/* Rounds the size up to what the driver uses in place. The memory is page-aligned, so the added
 * bytes are in its last page, and they are only read. */
static size_t in_place_bytes(const backend *backend, size_t bytes) {
  const size_t rest = bytes % backend->info.wrap_multiple;
  const size_t more = rest ? backend->info.wrap_multiple - rest : 0;
  return bytes <= backend->info.max_alloc && more <= backend->info.max_alloc - bytes ? bytes + more
                                                                                     : bytes;
}

clave_status opencl_buffer_wrap(backend *backend, const void *host, size_t bytes, bool writable,
                                buffer **out) {
  if (bytes == 0) return opencl_buffer_create(backend, 0, out);
  const bool in_place = backend_wraps_in_place(&backend->info, host, bytes, writable);
  cl_mem_flags how = in_place ? CL_MEM_USE_HOST_PTR : CL_MEM_COPY_HOST_PTR;
  how |= writable ? CL_MEM_READ_WRITE : CL_MEM_READ_ONLY;
  union { /* clCreateBuffer's pointer is not const; with CL_MEM_READ_ONLY it is only read */
    const void *from;
    void *to;
  } pointer = {.from = host};
  TRY(make_opencl_buffer(backend, how, pointer.to,
                         in_place ? in_place_bytes(backend, bytes) : bytes, out));
  (*out)->bytes = bytes;
  if (in_place) ((cl_buffer *)*out)->host = host;
  return NULL;
}

static clave_status create_image(const cl_device *device, cl_buffer *buf) {
  const cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT32};
  cl_image_desc desc = {.image_type = CL_MEM_OBJECT_IMAGE1D_BUFFER,
                        .image_width = buf->base.bytes / TEXEL_BYTES};
  desc.buffer = buf->memory;
  cl_int code;
  buf->image =
      device->cl->clCreateImage(device->context, CL_MEM_READ_ONLY, &format, &desc, NULL, &code);
  code = opencl_made(buf->image, code);
  if (code == CL_SUCCESS) return NULL;
  buf->image = NULL;
  return opencl_refusal(code, "clCreateImage");
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
  const cl_device *device = (const cl_device *)backend;
  const cl_mem image = ((cl_buffer *)buf)->image;
  if (!device_is_lost(device)) {
    if (image) device->cl->clReleaseMemObject(image);
    device->cl->clReleaseMemObject(((cl_buffer *)buf)->memory);
  }
  free(buf);
}
