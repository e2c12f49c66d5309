/* Writes, reads, fills and copies buffers on a stream. */
#include <string.h>

#include "backend/opencl/launch/stream.h"

/* Returns the status of a call that waited if `waits`. */
static clave_status transfers_outcome(cl_stream *stream, cl_bool waits, cl_int code,
                                      const char *call) {
  if (code == CL_SUCCESS) return NULL;
  return (waits ? stream_lost : stream_failed)(stream, code, call);
}

/* Maps and unmaps a buffer over host memory, so that device and host see each other's changes. */
static clave_status sync_with_host(cl_stream *stream, const cl_buffer *buffer, size_t offset,
                                   size_t bytes, cl_map_flags flags, cl_bool waits) {
  cl_int code;
  void *mapped =
      stream->cl->clEnqueueMapBuffer(stream->queue, buffer->memory, waits || stream->blocking_maps,
                                     flags, offset, bytes, 0, NULL, NULL, &code);
  TRY(transfers_outcome(stream, waits, code, "clEnqueueMapBuffer"));
  code = stream->cl->clEnqueueUnmapMemObject(stream->queue, buffer->memory, mapped, 0, NULL, NULL);
  return transfers_outcome(stream, CL_FALSE, code, "clEnqueueUnmapMemObject");
}

static clave_status transfers_write_buffer(cl_stream *stream, buffer *to, size_t offset,
                                           const void *from, size_t bytes, cl_bool waits);
static clave_status transfers_read_buffer(cl_stream *stream, const buffer *from, size_t offset,
                                          void *to, size_t bytes, cl_bool waits);

static bool buffer_is_in_place(const cl_buffer *buffer, size_t offset, const void *host) {
  return buffer->host && buffer->host + offset == (const char *)host;
}

/* Writes through a temporary buffer, which the commands that use it keep alive. */
static clave_status write_closed(cl_stream *stream, buffer *to, size_t offset, const void *from,
                                 size_t bytes, cl_bool waits) {
  backend *backend = &stream->device->base;
  buffer *between;
  TRY(opencl_buffer_create(backend, bytes, &between));
  clave_status st = transfers_write_buffer(stream, between, 0, from, bytes, waits);
  if (!st) st = opencl_copy_buffer(&stream->base, to, offset, between, 0, bytes);
  opencl_buffer_destroy(backend, between);
  return st;
}

static clave_status read_closed(cl_stream *stream, const buffer *from, size_t offset, void *to,
                                size_t bytes, cl_bool waits) {
  backend *backend = &stream->device->base;
  buffer *between;
  TRY(opencl_buffer_create(backend, bytes, &between));
  clave_status st = opencl_copy_buffer(&stream->base, between, 0, from, offset, bytes);
  if (!st) st = transfers_read_buffer(stream, between, 0, to, bytes, waits);
  opencl_buffer_destroy(backend, between);
  return st;
}

static clave_status transfers_write_buffer(cl_stream *stream, buffer *to, size_t offset,
                                           const void *from, size_t bytes, cl_bool waits) {
  if (bytes == 0) return NULL;
  TRY(device_alive(stream->device));
  const cl_buffer *memory = (const cl_buffer *)to;
  if (memory->is_closed) return write_closed(stream, to, offset, from, bytes, waits);
  if (buffer_is_in_place(memory, offset, from))
    return sync_with_host(stream, memory, offset, bytes, CL_MAP_WRITE_INVALIDATE_REGION, waits);
  return transfers_outcome(stream, waits,
                           stream->cl->clEnqueueWriteBuffer(stream->queue, memory->memory, waits,
                                                            offset, bytes, from, 0, NULL, NULL),
                           "clEnqueueWriteBuffer");
}

static clave_status transfers_read_buffer(cl_stream *stream, const buffer *from, size_t offset,
                                          void *to, size_t bytes, cl_bool waits) {
  if (bytes == 0) return NULL;
  TRY(device_alive(stream->device));
  const cl_buffer *memory = (const cl_buffer *)from;
  if (memory->is_closed) return read_closed(stream, from, offset, to, bytes, waits);
  if (buffer_is_in_place(memory, offset, to))
    return sync_with_host(stream, memory, offset, bytes, CL_MAP_READ, waits);
  return transfers_outcome(stream, waits,
                           stream->cl->clEnqueueReadBuffer(stream->queue, memory->memory, waits,
                                                           offset, bytes, to, 0, NULL, NULL),
                           "clEnqueueReadBuffer");
}

clave_status opencl_write(stream *stream, buffer *to, size_t offset, const void *from,
                          size_t bytes) {
  return transfers_write_buffer((cl_stream *)stream, to, offset, from, bytes, CL_TRUE);
}

clave_status opencl_read(stream *stream, const buffer *from, size_t offset, void *to,
                         size_t bytes) {
  return transfers_read_buffer((cl_stream *)stream, from, offset, to, bytes, CL_TRUE);
}

clave_status opencl_enqueue_write(stream *stream, buffer *to, size_t offset, const void *from,
                                  size_t bytes) {
  return transfers_write_buffer((cl_stream *)stream, to, offset, from, bytes, CL_FALSE);
}

clave_status opencl_enqueue_read(stream *stream, const buffer *from, size_t offset, void *to,
                                 size_t bytes) {
  return transfers_read_buffer((cl_stream *)stream, from, offset, to, bytes, CL_FALSE);
}

/* Fills with zeros by a copy. Commands that use the zeros keep their buffer alive. */
static clave_status fill_by_kernel(cl_stream *stream, buffer *to, size_t offset, size_t bytes) {
  backend *backend = &stream->device->base;
  buffer *zeros;
  TRY(opencl_buffer_create(backend, bytes, &zeros));
  clave_status st = opencl_fill_zero(&stream->base, zeros, 0, bytes);
  if (!st) st = copy_by_kernel(stream, to, offset, zeros, 0, bytes);
  opencl_buffer_destroy(backend, zeros);
  return st;
}

/* Maximum bytes per call: NVIDIA's driver hangs, or fails later, after a fill of 2 GB or more. */
enum { MAX_FILL = 1 << 30 };

clave_status opencl_fill_zero(stream *base, buffer *to, size_t offset, size_t bytes) {
  cl_stream *queue = (cl_stream *)base;
  static const cl_uchar zero;
  if (bytes == 0) return NULL;
  TRY(device_alive(queue->device));
  if (((cl_buffer *)to)->is_for_kernels) return fill_by_kernel(queue, to, offset, bytes);
  cl_mem memory = ((cl_buffer *)to)->memory;
  while (bytes) {
    const size_t part = bytes < MAX_FILL ? bytes : MAX_FILL;
    const cl_int code = queue->cl->clEnqueueFillBuffer(queue->queue, memory, &zero, sizeof zero,
                                                       offset, part, 0, NULL, NULL);
    TRY(transfers_outcome(queue, CL_FALSE, code, "clEnqueueFillBuffer"));
    offset += part;
    bytes -= part;
  }
  return NULL;
}

clave_status opencl_copy_buffer(stream *base, buffer *to, size_t to_offset, const buffer *from,
                                size_t from_offset, size_t bytes) {
  cl_stream *queue = (cl_stream *)base;
  const cl_buffer *memory = (const cl_buffer *)from, *b = (const cl_buffer *)to;
  if (bytes == 0) return NULL;
  TRY(device_alive(queue->device));
  if (memory->is_for_kernels || b->is_for_kernels)
    return copy_by_kernel(queue, to, to_offset, from, from_offset, bytes);
  cl_mem source = memory->memory, target = b->memory;
  const cl_int code = queue->cl->clEnqueueCopyBuffer(queue->queue, source, target, from_offset,
                                                     to_offset, bytes, 0, NULL, NULL);
  return transfers_outcome(queue, CL_FALSE, code, "clEnqueueCopyBuffer");
}
