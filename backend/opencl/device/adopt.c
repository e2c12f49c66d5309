/* Adopts the caller's OpenCL objects: checks that they suit the device, and retains them. A handle
 * that is not an OpenCL object cannot be detected. */
#include "backend/opencl/device/device.h"

/* ---------------------------------------------------------------- devices, contexts, queues */

clave_status opencl_find_device(const void *device, int *index) {
  const device_list *list;
  TRY(opencl_device_list(&list));
  for (*index = 0; *index < list->count; ++*index)
    if (list->entries[*index].id == device) return NULL;
  const char *file;
  TRY(opencl_library_file(&file));
  return INVALID("the device is not one of the %d usable OpenCL devices of %s%s%s", list->count,
                 file ? file : "any library", list->reason ? "; " : "",
                 list->reason ? list->reason : "");
}

static clave_status check_context(const cl_device *device, cl_context context) {
  cl_device_id ids[MAX_CONTEXT_DEVICES] = {NULL};
  size_t size = 0;
  CL_TRY(device->cl->clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof ids, ids, &size),
         "clGetContextInfo");
  for (size_t i = 0; i < size / sizeof ids[0] && i < MAX_CONTEXT_DEVICES; i++)
    if (ids[i] == device->entry->id) return NULL;
  return INVALID("the context does not belong to this device");
}

static clave_status check_queue(const cl_device *device, cl_context context,
                                cl_command_queue queue) {
  cl_context of = NULL;
  cl_device_id id = NULL;
  CL_TRY(device->cl->clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof of, &of, NULL),
         "clGetCommandQueueInfo");
  CL_TRY(device->cl->clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof id, &id, NULL),
         "clGetCommandQueueInfo");
  if (of != context) return INVALID("the queue belongs to another context");
  return id == device->entry->id ? NULL
                                 : INVALID("the queue belongs to another device of the context");
}

clave_status adopt_context(cl_device *device, const opencl_options *options) {
  cl_context context = options->context;
  cl_command_queue queue = options->queue;
  TRY(check_context(device, context));
  if (queue) TRY(check_queue(device, context, queue));
  CL_TRY(device->cl->clRetainContext(context), "clRetainContext");
  device->context = context;
  if (!queue) return NULL;
  CL_TRY(device->cl->clRetainCommandQueue(queue), "clRetainCommandQueue");
  device->caller_queue = queue;
  return NULL;
}

/* ---------------------------------------------------------------- memory */

/* Describes a buffer, and its parent if it is a sub-buffer. */
typedef struct memory_info {
  cl_mem whole;  /* the parent, or the buffer itself */
  size_t origin; /* byte offset within `whole` */
  size_t bytes;
  cl_mem_flags flags; /* flags of the buffer and its parent */
  void *host;         /* start of the host memory of CL_MEM_USE_HOST_PTR, or NULL */
} memory_info;

static clave_status query_memory(const cl_device *device, cl_mem memory, cl_mem_info what, void *to,
                                 size_t size) {
  CL_TRY(device->cl->clGetMemObjectInfo(memory, what, size, to, NULL), "clGetMemObjectInfo");
  return NULL;
}

static clave_status adopt_check_kind(const cl_device *device, cl_mem memory) {
  cl_mem_object_type type = 0;
  cl_context context = NULL;
  TRY(query_memory(device, memory, CL_MEM_CONTEXT, &context, sizeof context));
  if (context != device->context) return INVALID("the memory belongs to another OpenCL context");
  TRY(query_memory(device, memory, CL_MEM_TYPE, &type, sizeof type));
  return type == CL_MEM_OBJECT_BUFFER ? NULL : INVALID("expected a buffer, got an image or a pipe");
}

static clave_status describe_memory(const cl_device *device, cl_mem memory, memory_info *out) {
  cl_mem parent = NULL;
  cl_mem_flags inherited = 0;
  *out = (memory_info){.whole = memory};
  TRY(query_memory(device, memory, CL_MEM_SIZE, &out->bytes, sizeof out->bytes));
  TRY(query_memory(device, memory, CL_MEM_FLAGS, &out->flags, sizeof out->flags));
  TRY(query_memory(device, memory, CL_MEM_HOST_PTR, &out->host, sizeof out->host));
  TRY(query_memory(device, memory, CL_MEM_ASSOCIATED_MEMOBJECT, &parent, sizeof parent));
  if (parent) {
    out->whole = parent;
    TRY(query_memory(device, memory, CL_MEM_OFFSET, &out->origin, sizeof out->origin));
    TRY(query_memory(device, parent, CL_MEM_FLAGS, &inherited, sizeof inherited));
    out->flags |= inherited;
  }
  if (!(out->flags & CL_MEM_USE_HOST_PTR)) out->host = NULL;
  return NULL;
}

/* Fails for a write-only buffer, even for results, because later commands may read them. */
static clave_status check_access(const memory_info *info, bool writable) {
  if (info->flags & CL_MEM_WRITE_ONLY)
    return INVALID("a buffer with CL_MEM_WRITE_ONLY cannot be bound, because it is also read");
  if (writable && info->flags & CL_MEM_READ_ONLY)
    return INVALID("an output buffer cannot be CL_MEM_READ_ONLY");
  return NULL;
}

static clave_status check_memory(const cl_device *device, cl_mem memory, size_t offset,
                                 size_t bytes, bool writable, memory_info *out) {
  TRY(adopt_check_kind(device, memory));
  TRY(describe_memory(device, memory, out));
  TRY(check_access(out, writable));
  if (offset <= out->bytes && bytes <= out->bytes - offset) return NULL;
  return INVALID("%zu bytes at offset %zu are not inside the buffer of %zu bytes", bytes, offset,
                 out->bytes);
}

clave_status opencl_buffer_adopt(backend *backend, void *handle, size_t offset, size_t bytes,
                                 bool writable, memory_start *place, buffer **out) {
  const cl_mem_flags closed =
      CL_MEM_HOST_NO_ACCESS | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_WRITE_ONLY;
  cl_device *device = (cl_device *)backend;
  memory_info info;
  *out = NULL;
  TRY(check_memory(device, handle, offset, bytes, writable, &info));
  CL_TRY(device->cl->clRetainMemObject(handle), "clRetainMemObject");
  TRY(opencl_buffer_of(device, handle, info.bytes, out));
  ((cl_buffer *)*out)->is_closed = info.flags & closed;
  *place = info.host ? (memory_start){.from = (uintptr_t)info.host + offset}
                     : (memory_start){.object = info.whole, .from = info.origin + offset};
  return NULL;
}
