/* Bytes of buffers: written, read, filled and copied by a stream. */
#include <string.h>

#include "backend/opencl/launch/stream.h"

/* Memory that a buffer lies in: the device and the host see each other's changes through a map. */
static clave_status pass_over(const cl_stream *s, const cl_buffer *b, size_t offset, size_t bytes,
                              cl_map_flags flags, cl_bool waits) {
  cl_int code;
  void *mapped = s->cl->clEnqueueMapBuffer(s->queue, b->memory, waits || s->blocking_maps, flags,
                                           offset, bytes, 0, NULL, NULL, &code);
  if (code != CL_SUCCESS) return opencl_status(code, "clEnqueueMapBuffer");
  CL_TRY(s->cl->clEnqueueUnmapMemObject(s->queue, b->memory, mapped, 0, NULL, NULL),
         "clEnqueueUnmapMemObject");
  return NULL;
}

static clave_status write_buffer(cl_stream *s, buffer *to, size_t offset, const void *from,
                                 size_t bytes, cl_bool waits);
static clave_status read_buffer(cl_stream *s, const buffer *from, size_t offset, void *to,
                                size_t bytes, cl_bool waits);

static bool lies_in(const cl_buffer *b, size_t offset, const void *host) {
  return b->host && b->host + offset == (const char *)host;
}

/* Commands that use the buffer in between keep it. */
static clave_status write_closed(cl_stream *s, buffer *to, size_t offset, const void *from,
                                 size_t bytes, cl_bool waits) {
  backend *b = &s->device->base;
  buffer *between;
  TRY(opencl_buffer_create(b, bytes, &between));
  clave_status st = write_buffer(s, between, 0, from, bytes, waits);
  if (!st) st = opencl_copy_buffer(&s->base, to, offset, between, 0, bytes);
  opencl_buffer_destroy(b, between);
  return st;
}

static clave_status read_closed(cl_stream *s, const buffer *from, size_t offset, void *to,
                                size_t bytes, cl_bool waits) {
  backend *b = &s->device->base;
  buffer *between;
  TRY(opencl_buffer_create(b, bytes, &between));
  clave_status st = opencl_copy_buffer(&s->base, between, 0, from, offset, bytes);
  if (!st) st = read_buffer(s, between, 0, to, bytes, waits);
  opencl_buffer_destroy(b, between);
  return st;
}

static clave_status write_buffer(cl_stream *s, buffer *to, size_t offset, const void *from,
                                 size_t bytes, cl_bool waits) {
  if (bytes == 0) return NULL;
  const cl_buffer *b = (const cl_buffer *)to;
  if (b->is_closed) return write_closed(s, to, offset, from, bytes, waits);
  if (lies_in(b, offset, from))
    return pass_over(s, b, offset, bytes, CL_MAP_WRITE_INVALIDATE_REGION, waits);
  CL_TRY(
      s->cl->clEnqueueWriteBuffer(s->queue, b->memory, waits, offset, bytes, from, 0, NULL, NULL),
      "clEnqueueWriteBuffer");
  return NULL;
}

static clave_status read_buffer(cl_stream *s, const buffer *from, size_t offset, void *to,
                                size_t bytes, cl_bool waits) {
  if (bytes == 0) return NULL;
  const cl_buffer *b = (const cl_buffer *)from;
  if (b->is_closed) return read_closed(s, from, offset, to, bytes, waits);
  if (lies_in(b, offset, to)) return pass_over(s, b, offset, bytes, CL_MAP_READ, waits);
  CL_TRY(s->cl->clEnqueueReadBuffer(s->queue, b->memory, waits, offset, bytes, to, 0, NULL, NULL),
         "clEnqueueReadBuffer");
  return NULL;
}

clave_status opencl_write(stream *s, buffer *to, size_t offset, const void *from, size_t bytes) {
  return write_buffer((cl_stream *)s, to, offset, from, bytes, CL_TRUE);
}

clave_status opencl_read(stream *s, const buffer *from, size_t offset, void *to, size_t bytes) {
  return read_buffer((cl_stream *)s, from, offset, to, bytes, CL_TRUE);
}

clave_status opencl_enqueue_write(stream *s, buffer *to, size_t offset, const void *from,
                                  size_t bytes) {
  return write_buffer((cl_stream *)s, to, offset, from, bytes, CL_FALSE);
}

clave_status opencl_enqueue_read(stream *s, const buffer *from, size_t offset, void *to,
                                 size_t bytes) {
  return read_buffer((cl_stream *)s, from, offset, to, bytes, CL_FALSE);
}

/* Commands that use the zeros keep them. */
static clave_status fill_by_kernel(cl_stream *s, buffer *to, size_t offset, size_t bytes) {
  backend *b = &s->device->base;
  buffer *zeros;
  TRY(opencl_buffer_create(b, bytes, &zeros));
  clave_status st = opencl_fill_zero(&s->base, zeros, 0, bytes);
  if (!st) st = copy_by_kernel(s, to, offset, zeros, 0, bytes);
  opencl_buffer_destroy(b, zeros);
  return st;
}

clave_status opencl_fill_zero(stream *base, buffer *to, size_t offset, size_t bytes) {
  cl_stream *s = (cl_stream *)base;
  static const cl_uchar zero;
  if (bytes == 0) return NULL;
  if (((cl_buffer *)to)->is_for_kernels) return fill_by_kernel(s, to, offset, bytes);
  cl_mem memory = ((cl_buffer *)to)->memory;
  CL_TRY(s->cl->clEnqueueFillBuffer(s->queue, memory, &zero, sizeof zero, offset, bytes, 0, NULL,
                                    NULL),
         "clEnqueueFillBuffer");
  return NULL;
}

clave_status opencl_copy_buffer(stream *base, buffer *to, size_t to_offset, const buffer *from,
                                size_t from_offset, size_t bytes) {
  cl_stream *s = (cl_stream *)base;
  const cl_buffer *a = (const cl_buffer *)from, *b = (const cl_buffer *)to;
  if (bytes == 0) return NULL;
  if (a->is_for_kernels || b->is_for_kernels)
    return copy_by_kernel(s, to, to_offset, from, from_offset, bytes);
  cl_mem source = a->memory, target = b->memory;
  CL_TRY(s->cl->clEnqueueCopyBuffer(s->queue, source, target, from_offset, to_offset, bytes, 0,
                                    NULL, NULL),
         "clEnqueueCopyBuffer");
  return NULL;
}
