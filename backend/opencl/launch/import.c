/* Imports dma-bufs as buffers of a device, by cl_khr_external_memory_dma_buf or else
 * cl_arm_import_memory_dma_buf. */
#include <string.h>

#include "backend/opencl/launch/stream.h"
#include "base/dma_buf.h"

/* Constants of CL/cl_ext.h, some of which have other names in older versions. */
enum {
  MEM_DEVICE_HANDLE_LIST = 0x2051, /* a list that ends with 0 */
  HANDLE_DMA_BUF = 0x2067,
  IMPORT_TYPE_ARM = 0x40B2,
  IMPORT_TYPE_DMA_BUF_ARM = 0x40B4
};
typedef cl_int(CL_API_CALL *hand_over_fn)(cl_command_queue, cl_uint, const cl_mem *, cl_uint,
                                          const cl_event *, cl_event *);
typedef cl_mem(CL_API_CALL *import_arm_fn)(cl_context, cl_mem_flags, const intptr_t *, void *,
                                           size_t, cl_int *);

static clave_status import_find_function(const cl_device *device, const char *name, void *function,
                                         size_t size) {
  void *from = device->cl->clGetExtensionFunctionAddressForPlatform(device->entry->platform, name);
  memcpy(function, &from, size);
  return from ? NULL : UNSUPPORTED("the driver of '%s' has no %s", device->base.info.name, name);
}

/* ---------------------------------------------------------------- importing */

static cl_mem_flags access_of(bool writable) {
  return writable ? CL_MEM_READ_WRITE : CL_MEM_READ_ONLY;
}

/* Imports the dma-buf. The driver takes ownership of the duplicated descriptor. */
static clave_status import_external(const cl_device *device, int fd, size_t bytes, bool writable,
                                    cl_mem *out) {
  cl_int code;
  *out = NULL;
  if (!device->cl->create_with_properties)
    return UNSUPPORTED(
        "%s is older than OpenCL 3.0, which importing dma-bufs needs: install a newer "
        "ocl-icd-libopencl1",
        device->cl->file);
  const int own = dma_buf_duplicate(fd);
  if (own < 0) return status_new(STATUS_IO, "dma-buf %d: duplicating the descriptor failed", fd);
  const cl_ulong properties[] = {HANDLE_DMA_BUF,
                                 (cl_ulong)own,
                                 MEM_DEVICE_HANDLE_LIST,
                                 (cl_ulong)(uintptr_t)device->entry->id,
                                 0,
                                 /* ends the list of properties */ 0};
  cl_mem memory = device->cl->create_with_properties(device->context, properties,
                                                     access_of(writable), bytes, NULL, &code);
  code = opencl_made(memory, code);
  if (code == CL_SUCCESS) {
    *out = memory;
    return NULL;
  }
  dma_buf_close_duplicate(own);
  return opencl_status(code, "clCreateBufferWithProperties");
}

static clave_status import_arm(const cl_device *device, int fd, size_t bytes, bool writable,
                               cl_mem *out) {
  static const intptr_t properties[] = {IMPORT_TYPE_ARM, IMPORT_TYPE_DMA_BUF_ARM, 0};
  import_arm_fn import;
  cl_int code;
  *out = NULL;
  TRY(import_find_function(device, "clImportMemoryARM", &import, sizeof import));
  cl_mem memory = import(device->context, access_of(writable), properties, &fd, bytes, &code);
  CL_TRY(opencl_made(memory, code), "clImportMemoryARM");
  *out = memory;
  return NULL;
}

static clave_status import(const cl_device *device, int fd, size_t bytes, bool writable,
                           bool *is_external, cl_mem *out) {
  const char *words = device->base.info.extensions;
  *is_external = has_word(words, "cl_khr_external_memory_dma_buf");
  if (*is_external) return import_external(device, fd, bytes, writable, out);
  if (has_word(words, "cl_arm_import_memory_dma_buf"))
    return import_arm(device, fd, bytes, writable, out);
  return UNSUPPORTED(
      "'%s' cannot import dma-bufs: it has neither cl_khr_external_memory_dma_buf nor "
      "cl_arm_import_memory_dma_buf; map the dma-buf and bind its address, which copies the data",
      device->base.info.name);
}

clave_status opencl_buffer_import(backend *backend, int fd, size_t bytes, bool writable,
                                  buffer **out) {
  cl_device *device = (cl_device *)backend;
  bool is_external;
  cl_mem memory;
  *out = NULL;
  TRY(import(device, fd, bytes, writable, &is_external, &memory));
  TRY(opencl_buffer_of(device, memory, bytes, out));
  cl_buffer *buf = (cl_buffer *)*out;
  buf->is_external = is_external;
  buf->is_closed = buf->is_for_kernels = !is_external;
  return NULL;
}

/* ---------------------------------------------------------------- runs */

/* Acquires or releases an imported buffer, by `call`. Buffers of the Arm extension need neither. */
static clave_status acquire_or_release(cl_stream *stream, const buffer *imported,
                                       const char *call) {
  const cl_buffer *memory = (const cl_buffer *)imported;
  hand_over_fn f;
  if (!memory->is_external) return NULL;
  TRY(import_find_function(stream->device, call, &f, sizeof f));
  CL_TRY(f(stream->queue, 1, &memory->memory, 0, NULL, NULL), call);
  return NULL;
}

clave_status opencl_acquire(stream *stream, buffer *imported) {
  return acquire_or_release((cl_stream *)stream, imported, "clEnqueueAcquireExternalMemObjectsKHR");
}

clave_status opencl_release(stream *stream, buffer *imported) {
  return acquire_or_release((cl_stream *)stream, imported, "clEnqueueReleaseExternalMemObjectsKHR");
}

/* ---------------------------------------------------------------- copies */

/* Describes the bytes as elements of the largest size that divides both offsets and the length. */
static bound_tensor as_elements(buffer *buffer, uint32_t slot, size_t offset, size_t bytes,
                                size_t together) {
  static const dtype units[] = {DTYPE_U8, DTYPE_I16, DTYPE_I32, DTYPE_I64};
  int unit = 3;
  while (together % ((size_t)1 << unit)) unit--;
  bound_tensor operand = {.slot = slot, .buf = buffer, .buffer_offset = offset};
  operand.tensor = (tensor){.type = units[unit], .rank = 1};
  operand.tensor.dims[0] = (int64_t)(bytes >> unit);
  operand.tensor.strides[0] = 1;
  return operand;
}

clave_status copy_by_kernel(cl_stream *stream, buffer *to, size_t to_offset, const buffer *from,
                            size_t from_offset, size_t bytes) {
  static ir_copy op = {.x = 0, .out = 1};
  static const ir_instruction copy = {.op_type = IR_OP_COPY, .op = &op, .name = ""};
  const size_t together = to_offset | from_offset | bytes;
  const bound_tensor both[2] = {
      as_elements((buffer *)(uintptr_t)from, op.x, from_offset, bytes, together),
      as_elements(to, op.out, to_offset, bytes, together)};
  backend *backend = &stream->device->base;
  void *cache = NULL, *state = NULL;
  const node node = {.instruction = &copy, .tensors = both, .cache = &cache};
  const run_operands operands = {.tensors = both};
  recording *recording;
  clave_status st = opencl_record(backend, &node, false, &recording);
  if (!st) st = opencl_run(&stream->base, recording, &state, &operands, UINT32_MAX);
  opencl_state_destroy(&stream->base, state);
  opencl_recording_destroy(backend, recording);
  opencl_cache_destroy(backend, cache);
  return st;
}
