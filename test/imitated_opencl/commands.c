/* Commands, which complete when they are enqueued. Launches are checked against the profile's
 * limits and run nothing. */
#include <string.h>

#include "test/imitated_opencl/imitated.h"

static cl_int finish_command(cl_event *event) {
  if (!event) return CL_SUCCESS;
  *event = make_object(OBJECT_EVENT, sizeof **event, NULL);
  return *event ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
}

static bool is_inside(size_t at, size_t bytes, const struct _cl_mem *memory) {
  return at <= memory->size && bytes <= memory->size - at;
}

/* ---------------------------------------------------------------- launches */

/* Sums of a kernel's arguments. */
typedef struct argument_bytes {
  size_t parameters, local;
} argument_bytes;

static argument_bytes add_arguments(const struct _cl_kernel *kernel) {
  argument_bytes sums = {0};
  for (int i = 0; i < MAX_ARGS; i++)
    *(kernel->args[i].is_local ? &sums.local : &sums.parameters) += kernel->args[i].bytes;
  return sums;
}

/* Checks one dimension of a launch. */
static cl_int check_dimension(const char *kernel, cl_uint dimension, size_t global, size_t local) {
  const uint64_t most = profile_max_item(dimension);
  if (local > most)
    return break_limit(kernel, "work-items", local, most, CL_INVALID_WORK_ITEM_SIZE);
  if (global == 0 || global > UINT32_MAX)
    return break_limit(kernel, "global size", global, UINT32_MAX, CL_INVALID_GLOBAL_WORK_SIZE);
  if (global % local)
    return break_limit(kernel, "global size, a multiple", global, local,
                       CL_INVALID_WORK_GROUP_SIZE);
  return CL_SUCCESS;
}

static cl_int check_launch(const struct _cl_kernel *kernel, cl_uint dims, const size_t *global,
                           const size_t *local) {
  const argument_bytes bytes = add_arguments(kernel);
  const uint64_t max_items = profile_number("kernel_group", profile_max_group()),
                 max_local = profile_number("local", 32768),
                 max_parameters = profile_number("parameters", 1024);
  size_t items = 1;
  if (dims < 1 || dims > 3) return CL_INVALID_WORK_DIMENSION;
  for (cl_uint i = 0; i < dims; i++) {
    const size_t size = local ? local[i] : 1;
    if (size == 0) return CL_INVALID_WORK_GROUP_SIZE;
    const cl_int code = check_dimension(kernel->name, i, global[i], size);
    if (code) return code;
    items *= size;
  }
  if (items > max_items)
    return break_limit(kernel->name, "work-group", items, max_items, CL_INVALID_WORK_GROUP_SIZE);
  if (bytes.local > max_local)
    return break_limit(kernel->name, "local memory", bytes.local, max_local, CL_OUT_OF_RESOURCES);
  if (bytes.parameters > max_parameters)
    return break_limit(kernel->name, "bytes of arguments", bytes.parameters, max_parameters,
                       CL_OUT_OF_RESOURCES);
  return CL_SUCCESS;
}

static void log_launch(const struct _cl_kernel *kernel, cl_uint dims, const size_t *global,
                       const size_t *local) {
  const argument_bytes bytes = add_arguments(kernel);
  const struct _cl_program *program = (const struct _cl_program *)kernel->base.parent;
  log_line(
      "launch\t%016llx\t%s\tglobal %zu %zu %zu\tlocal %zu %zu %zu\t%zu bytes of arguments"
      "\t%zu of local memory",
      (unsigned long long)program->hash, kernel->name, global[0], dims > 1 ? global[1] : 1,
      dims > 2 ? global[2] : 1, local ? local[0] : 0, local && dims > 1 ? local[1] : 1,
      local && dims > 2 ? local[2] : 1, bytes.parameters, bytes.local);
}

cl_int CL_API_CALL clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dims,
                                          const size_t *offset, const size_t *global,
                                          const size_t *local, cl_uint n_waits,
                                          const cl_event *waits, cl_event *event) {
  (void)offset, (void)n_waits, (void)waits;
  if (!is_object(queue, OBJECT_QUEUE)) return CL_INVALID_COMMAND_QUEUE;
  if (!is_object(kernel, OBJECT_KERNEL)) return CL_INVALID_KERNEL;
  log_launch(kernel, dims, global, local);
  const cl_int code = check_launch(kernel, dims, global, local);
  if (code) return code;
  answer_probe(kernel);
  return finish_command(event);
}

/* ---------------------------------------------------------------- copies */

cl_int CL_API_CALL clEnqueueWriteBuffer(cl_command_queue queue, cl_mem memory, cl_bool waits_for_it,
                                        size_t at, size_t bytes, const void *from, cl_uint n_waits,
                                        const cl_event *waits, cl_event *event) {
  (void)waits_for_it, (void)n_waits, (void)waits;
  if (!is_object(queue, OBJECT_QUEUE)) return CL_INVALID_COMMAND_QUEUE;
  if (!is_object(memory, OBJECT_MEMORY)) return CL_INVALID_MEM_OBJECT;
  if (!is_inside(at, bytes, memory)) return CL_INVALID_VALUE;
  memmove(memory->data + at, from, bytes);
  return finish_command(event);
}

cl_int CL_API_CALL clEnqueueReadBuffer(cl_command_queue queue, cl_mem memory, cl_bool waits_for_it,
                                       size_t at, size_t bytes, void *to, cl_uint n_waits,
                                       const cl_event *waits, cl_event *event) {
  (void)waits_for_it, (void)n_waits, (void)waits;
  if (!is_object(queue, OBJECT_QUEUE)) return CL_INVALID_COMMAND_QUEUE;
  if (!is_object(memory, OBJECT_MEMORY)) return CL_INVALID_MEM_OBJECT;
  if (!is_inside(at, bytes, memory)) return CL_INVALID_VALUE;
  memmove(to, memory->data + at, bytes);
  return finish_command(event);
}

cl_int CL_API_CALL clEnqueueFillBuffer(cl_command_queue queue, cl_mem memory, const void *pattern,
                                       size_t pattern_bytes, size_t at, size_t bytes,
                                       cl_uint n_waits, const cl_event *waits, cl_event *event) {
  (void)n_waits, (void)waits;
  if (!is_object(queue, OBJECT_QUEUE)) return CL_INVALID_COMMAND_QUEUE;
  if (!is_object(memory, OBJECT_MEMORY)) return CL_INVALID_MEM_OBJECT;
  if (bytes == 0 || at % pattern_bytes || bytes % pattern_bytes || !is_inside(at, bytes, memory))
    return CL_INVALID_VALUE;
  for (size_t i = 0; i < bytes; i += pattern_bytes)
    memcpy(memory->data + at + i, pattern, pattern_bytes);
  return finish_command(event);
}

cl_int CL_API_CALL clEnqueueCopyBuffer(cl_command_queue queue, cl_mem from, cl_mem to,
                                       size_t from_at, size_t to_at, size_t bytes, cl_uint n_waits,
                                       const cl_event *waits, cl_event *event) {
  (void)n_waits, (void)waits;
  if (!is_object(queue, OBJECT_QUEUE)) return CL_INVALID_COMMAND_QUEUE;
  if (!is_object(from, OBJECT_MEMORY) || !is_object(to, OBJECT_MEMORY))
    return CL_INVALID_MEM_OBJECT;
  if (bytes == 0 || !is_inside(from_at, bytes, from) || !is_inside(to_at, bytes, to))
    return CL_INVALID_VALUE;
  if (from == to && from_at < to_at + bytes && to_at < from_at + bytes)
    return break_limit("copy", "overlap", from_at, to_at, CL_MEM_COPY_OVERLAP);
  memmove(to->data + to_at, from->data + from_at, bytes);
  return finish_command(event);
}

void *CL_API_CALL clEnqueueMapBuffer(cl_command_queue queue, cl_mem memory, cl_bool waits_for_it,
                                     cl_map_flags flags, size_t at, size_t bytes, cl_uint n_waits,
                                     const cl_event *waits, cl_event *event, cl_int *code) {
  (void)waits_for_it, (void)flags, (void)n_waits, (void)waits;
  cl_int result = CL_SUCCESS;
  if (!is_object(queue, OBJECT_QUEUE))
    result = CL_INVALID_COMMAND_QUEUE;
  else if (!is_object(memory, OBJECT_MEMORY))
    result = CL_INVALID_MEM_OBJECT;
  else if (!is_inside(at, bytes, memory))
    result = CL_INVALID_VALUE;
  else
    result = finish_command(event);
  if (code) *code = result;
  return result ? NULL : memory->data + at;
}

cl_int CL_API_CALL clEnqueueUnmapMemObject(cl_command_queue queue, cl_mem memory, void *mapped,
                                           cl_uint n_waits, const cl_event *waits,
                                           cl_event *event) {
  (void)mapped, (void)n_waits, (void)waits;
  if (!is_object(queue, OBJECT_QUEUE)) return CL_INVALID_COMMAND_QUEUE;
  if (!is_object(memory, OBJECT_MEMORY)) return CL_INVALID_MEM_OBJECT;
  return finish_command(event);
}

/* ---------------------------------------------------------------- waiting */

cl_int CL_API_CALL clEnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint n_waits,
                                               const cl_event *waits, cl_event *event) {
  (void)n_waits, (void)waits;
  if (!is_object(queue, OBJECT_QUEUE)) return CL_INVALID_COMMAND_QUEUE;
  return finish_command(event);
}

cl_int CL_API_CALL clEnqueueBarrierWithWaitList(cl_command_queue queue, cl_uint n_waits,
                                                const cl_event *waits, cl_event *event) {
  return clEnqueueMarkerWithWaitList(queue, n_waits, waits, event);
}

cl_int CL_API_CALL clWaitForEvents(cl_uint n, const cl_event *events) {
  for (cl_uint i = 0; i < n; i++)
    if (!is_object(events[i], OBJECT_EVENT)) return CL_INVALID_EVENT;
  return CL_SUCCESS;
}

cl_int CL_API_CALL clFlush(cl_command_queue queue) {
  return is_object(queue, OBJECT_QUEUE) ? CL_SUCCESS : CL_INVALID_COMMAND_QUEUE;
}

cl_int CL_API_CALL clFinish(cl_command_queue queue) { return clFlush(queue); }

cl_int CL_API_CALL clGetEventInfo(cl_event event, cl_event_info what, size_t size, void *value,
                                  size_t *size_ret) {
  const cl_int done = CL_COMPLETE;
  if (!is_object(event, OBJECT_EVENT)) return CL_INVALID_EVENT;
  if (what != CL_EVENT_COMMAND_EXECUTION_STATUS) return CL_INVALID_VALUE;
  return answer_bytes(&done, sizeof done, size, value, size_ret);
}

/* Each time is a microsecond after the previous one. */
cl_int CL_API_CALL clGetEventProfilingInfo(cl_event event, cl_profiling_info what, size_t size,
                                           void *value, size_t *size_ret) {
  static cl_ulong time_ns;
  (void)what;
  if (!is_object(event, OBJECT_EVENT)) return CL_INVALID_EVENT;
  const cl_ulong now = __atomic_add_fetch(&time_ns, 1000, __ATOMIC_RELAXED);
  return answer_bytes(&now, sizeof now, size, value, size_ret);
}
