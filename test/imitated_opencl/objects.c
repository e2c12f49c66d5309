/* Contexts, queues, memory, programs, kernels and events, which count their references. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/imitated_opencl/imitated.h"

/* ---------------------------------------------------------------- all kinds */

void *make_object(object_kind kind, size_t bytes, object *parent) {
  object *made = calloc(1, bytes);
  if (!made) return NULL;
  *made = (object){.kind = kind, .references = 1, .parent = parent};
  if (parent) __atomic_add_fetch(&parent->references, 1, __ATOMIC_RELAXED);
  return made;
}

bool is_object(const void *handle, object_kind kind) {
  return handle && ((const object *)handle)->kind == kind;
}

static cl_int retain(void *handle, object_kind kind, cl_int wrong) {
  if (!is_object(handle, kind)) return wrong;
  __atomic_add_fetch(&((object *)handle)->references, 1, __ATOMIC_RELAXED);
  return CL_SUCCESS;
}

static void free_memory(cl_mem memory) {
  if (memory->at_end) memory->at_end(memory, memory->at_end_data);
  if (memory->is_owned) free(memory->data);
}

static void free_program(cl_program program) {
  free(program->source);
  free(program->options);
}

static cl_int release(void *handle, object_kind kind, cl_int wrong) {
  if (!is_object(handle, kind)) return wrong;
  object *dropped = handle, *parent = dropped->parent;
  if (__atomic_sub_fetch(&dropped->references, 1, __ATOMIC_ACQ_REL)) return CL_SUCCESS;
  if (kind == OBJECT_MEMORY) free_memory(handle);
  if (kind == OBJECT_PROGRAM) free_program(handle);
  dropped->kind = 0;
  free(dropped);
  if (parent) (void)release(parent, parent->kind, CL_SUCCESS);
  return CL_SUCCESS;
}

/* Sets *code for a function that creates an object. Returns the object. */
static void *created(void *made, cl_int *code) {
  if (code) *code = made ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
  return made;
}

static void *refused(cl_int reason, cl_int *code) {
  if (code) *code = reason;
  return NULL;
}

/* ---------------------------------------------------------------- contexts and queues */

cl_context CL_API_CALL clCreateContext(const cl_context_properties *properties, cl_uint n,
                                       const cl_device_id *devices,
                                       void(CL_CALLBACK *notify)(const char *, const void *, size_t,
                                                                 void *),
                                       void *data, cl_int *code) {
  (void)properties, (void)notify, (void)data;
  if (n != 1 || devices[0] != &imitated_device) return refused(CL_INVALID_DEVICE, code);
  return created(make_object(OBJECT_CONTEXT, sizeof(struct _cl_context), NULL), code);
}

cl_int CL_API_CALL clRetainContext(cl_context context) {
  return retain(context, OBJECT_CONTEXT, CL_INVALID_CONTEXT);
}

cl_int CL_API_CALL clReleaseContext(cl_context context) {
  return release(context, OBJECT_CONTEXT, CL_INVALID_CONTEXT);
}

cl_int CL_API_CALL clGetContextInfo(cl_context context, cl_context_info what, size_t size,
                                    void *value, size_t *size_ret) {
  const cl_uint one = 1;
  const cl_device_id device = &imitated_device;
  if (!is_object(context, OBJECT_CONTEXT)) return CL_INVALID_CONTEXT;
  if (what == CL_CONTEXT_DEVICES)
    return answer_bytes(&device, sizeof device, size, value, size_ret);
  if (what == CL_CONTEXT_NUM_DEVICES) return answer_bytes(&one, sizeof one, size, value, size_ret);
  return CL_INVALID_VALUE;
}

cl_command_queue CL_API_CALL clCreateCommandQueue(cl_context context, cl_device_id device,
                                                  cl_command_queue_properties properties,
                                                  cl_int *code) {
  if (!is_object(context, OBJECT_CONTEXT)) return refused(CL_INVALID_CONTEXT, code);
  if (device != &imitated_device) return refused(CL_INVALID_DEVICE, code);
  cl_command_queue queue = make_object(OBJECT_QUEUE, sizeof *queue, &context->base);
  if (queue) queue->properties = properties;
  return created(queue, code);
}

cl_int CL_API_CALL clRetainCommandQueue(cl_command_queue queue) {
  return retain(queue, OBJECT_QUEUE, CL_INVALID_COMMAND_QUEUE);
}

cl_int CL_API_CALL clReleaseCommandQueue(cl_command_queue queue) {
  return release(queue, OBJECT_QUEUE, CL_INVALID_COMMAND_QUEUE);
}

cl_int CL_API_CALL clGetCommandQueueInfo(cl_command_queue queue, cl_command_queue_info what,
                                         size_t size, void *value, size_t *size_ret) {
  const cl_device_id device = &imitated_device;
  if (!is_object(queue, OBJECT_QUEUE)) return CL_INVALID_COMMAND_QUEUE;
  if (what == CL_QUEUE_DEVICE) return answer_bytes(&device, sizeof device, size, value, size_ret);
  if (what == CL_QUEUE_CONTEXT)
    return answer_bytes(&queue->base.parent, sizeof queue->base.parent, size, value, size_ret);
  if (what != CL_QUEUE_PROPERTIES) return CL_INVALID_VALUE;
  return answer_bytes(&queue->properties, sizeof queue->properties, size, value, size_ret);
}

/* ---------------------------------------------------------------- memory */

/* Returns memory that uses `data`, or new memory of `bytes` bytes if `data` is NULL. */
static cl_mem make_memory(object *parent, cl_mem_flags flags, size_t bytes, char *data) {
  enum { SLACK = 64 };
  cl_mem memory = make_object(OBJECT_MEMORY, sizeof *memory, parent);
  if (!memory) return NULL;
  memory->size = bytes;
  memory->flags = flags;
  memory->is_owned = !data;
  memory->data = data ? data : calloc(1, bytes + SLACK);
  if (memory->data) return memory;
  (void)release(memory, OBJECT_MEMORY, CL_SUCCESS);
  return NULL;
}

cl_mem CL_API_CALL clCreateBuffer(cl_context context, cl_mem_flags flags, size_t bytes, void *host,
                                  cl_int *code) {
  const uint64_t most = profile_number("max_alloc", UINT64_C(1) << 31);
  if (!is_object(context, OBJECT_CONTEXT)) return refused(CL_INVALID_CONTEXT, code);
  if (bytes == 0 || bytes > most)
    return refused(break_limit("buffer", "bytes", bytes, most, CL_INVALID_BUFFER_SIZE), code);
  cl_mem memory =
      make_memory(&context->base, flags, bytes, flags & CL_MEM_USE_HOST_PTR ? host : NULL);
  if (memory && flags & CL_MEM_COPY_HOST_PTR) memcpy(memory->data, host, bytes);
  return created(memory, code);
}

cl_mem CL_API_CALL clCreateBufferWithProperties(cl_context context,
                                                const cl_mem_properties *properties,
                                                cl_mem_flags flags, size_t bytes, void *host,
                                                cl_int *code) {
  if (properties && *properties) return refused(CL_INVALID_PROPERTY, code);
  return clCreateBuffer(context, flags, bytes, host, code);
}

cl_mem CL_API_CALL clCreateSubBuffer(cl_mem buffer, cl_mem_flags flags, cl_buffer_create_type type,
                                     const void *info, cl_int *code) {
  const cl_buffer_region *region = info;
  (void)type;
  if (!is_object(buffer, OBJECT_MEMORY)) return refused(CL_INVALID_MEM_OBJECT, code);
  if (region->origin > buffer->size || region->size > buffer->size - region->origin)
    return refused(CL_INVALID_VALUE, code);
  return created(make_memory(&buffer->base, flags, region->size, buffer->data + region->origin),
                 code);
}

cl_mem CL_API_CALL clCreateImage(cl_context context, cl_mem_flags flags,
                                 const cl_image_format *format, const cl_image_desc *desc,
                                 void *host, cl_int *code) {
  const uint64_t most = profile_number("image_buffer", 65536);
  (void)format, (void)host;
  if (!is_object(context, OBJECT_CONTEXT)) return refused(CL_INVALID_CONTEXT, code);
  if (desc->image_type != CL_MEM_OBJECT_IMAGE1D_BUFFER || !is_object(desc->buffer, OBJECT_MEMORY))
    return refused(CL_INVALID_IMAGE_DESCRIPTOR, code);
  if (desc->image_width == 0 || desc->image_width > most)
    return refused(break_limit("image", "width", desc->image_width, most, CL_INVALID_IMAGE_SIZE),
                   code);
  cl_mem buffer = desc->buffer;
  return created(make_memory(&buffer->base, flags, buffer->size, buffer->data), code);
}

cl_int CL_API_CALL clRetainMemObject(cl_mem memory) {
  return retain(memory, OBJECT_MEMORY, CL_INVALID_MEM_OBJECT);
}

cl_int CL_API_CALL clReleaseMemObject(cl_mem memory) {
  return release(memory, OBJECT_MEMORY, CL_INVALID_MEM_OBJECT);
}

cl_int CL_API_CALL clSetMemObjectDestructorCallback(cl_mem memory,
                                                    void(CL_CALLBACK *notify)(cl_mem, void *),
                                                    void *data) {
  if (!is_object(memory, OBJECT_MEMORY)) return CL_INVALID_MEM_OBJECT;
  memory->at_end = notify;
  memory->at_end_data = data;
  return CL_SUCCESS;
}

cl_int CL_API_CALL clGetMemObjectInfo(cl_mem memory, cl_mem_info what, size_t size, void *value,
                                      size_t *size_ret) {
  if (!is_object(memory, OBJECT_MEMORY)) return CL_INVALID_MEM_OBJECT;
  if (what == CL_MEM_SIZE) return answer_size(memory->size, size, value, size_ret);
  if (what == CL_MEM_OFFSET) return answer_size(0, size, value, size_ret);
  if (what != CL_MEM_FLAGS) return CL_INVALID_VALUE;
  return answer_bytes(&memory->flags, sizeof memory->flags, size, value, size_ret);
}

/* ---------------------------------------------------------------- programs */

static cl_program make_program(cl_context context, const char **parts, const size_t *sizes,
                               cl_uint n) {
  cl_program program = make_object(OBJECT_PROGRAM, sizeof *program, &context->base);
  size_t bytes = 0;
  FILE *text = program ? open_memstream(&program->source, &bytes) : NULL;
  for (cl_uint i = 0; text && i < n; i++)
    fwrite(parts[i], 1, sizes && sizes[i] ? sizes[i] : strlen(parts[i]), text);
  if (text && fclose(text) == 0) return program;
  (void)release(program, OBJECT_PROGRAM, CL_SUCCESS);
  return NULL;
}

cl_program CL_API_CALL clCreateProgramWithSource(cl_context context, cl_uint n, const char **parts,
                                                 const size_t *sizes, cl_int *code) {
  if (!is_object(context, OBJECT_CONTEXT)) return refused(CL_INVALID_CONTEXT, code);
  return created(make_program(context, parts, sizes, n), code);
}

/* A program's binary is its source. */
cl_program CL_API_CALL clCreateProgramWithBinary(cl_context context, cl_uint n,
                                                 const cl_device_id *devices, const size_t *sizes,
                                                 const unsigned char **binaries, cl_int *statuses,
                                                 cl_int *code) {
  if (!is_object(context, OBJECT_CONTEXT)) return refused(CL_INVALID_CONTEXT, code);
  if (n != 1 || devices[0] != &imitated_device) return refused(CL_INVALID_DEVICE, code);
  if (statuses) *statuses = CL_SUCCESS;
  return created(make_program(context, (const char **)binaries, sizes, 1), code);
}

cl_int CL_API_CALL clRetainProgram(cl_program program) {
  return retain(program, OBJECT_PROGRAM, CL_INVALID_PROGRAM);
}

cl_int CL_API_CALL clReleaseProgram(cl_program program) {
  return release(program, OBJECT_PROGRAM, CL_INVALID_PROGRAM);
}

/* FNV-1a. */
static uint64_t hash_text(uint64_t hash, const char *text) {
  for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 1099511628211u;
  return hash;
}

static void write_program(const struct _cl_program *program) {
  const char *folder = getenv("CLAVE_IMITATED_PROGRAMS");
  char path[4096];
  log_line("build\t%016llx", (unsigned long long)program->hash);
  if (!folder || !*folder) return;
  (void)snprintf(path, sizeof path, "%s/%016llx.cl", folder, (unsigned long long)program->hash);
  FILE *file = fopen(path, "w");
  if (!file) return;
  fprintf(file, "// OPTIONS: %s\n%s", program->options, program->source);
  fclose(file);
}

cl_int CL_API_CALL clBuildProgram(cl_program program, cl_uint n, const cl_device_id *devices,
                                  const char *options,
                                  void(CL_CALLBACK *notify)(cl_program, void *), void *data) {
  (void)n, (void)devices, (void)notify, (void)data;
  if (!is_object(program, OBJECT_PROGRAM)) return CL_INVALID_PROGRAM;
  free(program->options);
  program->options = strdup(options ? options : "");
  if (!program->options) return CL_OUT_OF_HOST_MEMORY;
  program->hash = hash_text(hash_text(14695981039346656037u, program->source), program->options);
  write_program(program);
  return CL_SUCCESS;
}

cl_int CL_API_CALL clGetProgramBuildInfo(cl_program program, cl_device_id device,
                                         cl_program_build_info what, size_t size, void *value,
                                         size_t *size_ret) {
  const cl_build_status good = CL_BUILD_SUCCESS;
  (void)device;
  if (!is_object(program, OBJECT_PROGRAM)) return CL_INVALID_PROGRAM;
  if (what == CL_PROGRAM_BUILD_STATUS)
    return answer_bytes(&good, sizeof good, size, value, size_ret);
  return answer_text("", size, value, size_ret);
}

cl_int CL_API_CALL clGetProgramInfo(cl_program program, cl_program_info what, size_t size,
                                    void *value, size_t *size_ret) {
  const cl_uint one = 1;
  const cl_device_id device = &imitated_device;
  if (!is_object(program, OBJECT_PROGRAM)) return CL_INVALID_PROGRAM;
  if (what == CL_PROGRAM_NUM_DEVICES) return answer_bytes(&one, sizeof one, size, value, size_ret);
  if (what == CL_PROGRAM_DEVICES)
    return answer_bytes(&device, sizeof device, size, value, size_ret);
  if (what == CL_PROGRAM_SOURCE) return answer_text(program->source, size, value, size_ret);
  if (what == CL_PROGRAM_BINARY_SIZES)
    return answer_size(strlen(program->source), size, value, size_ret);
  if (what != CL_PROGRAM_BINARIES) return CL_INVALID_VALUE;
  char **binaries = value;
  if (size_ret) *size_ret = sizeof *binaries;
  if (binaries && binaries[0]) memcpy(binaries[0], program->source, strlen(program->source));
  return CL_SUCCESS;
}

/* ---------------------------------------------------------------- kernels and events */

cl_kernel CL_API_CALL clCreateKernel(cl_program program, const char *name, cl_int *code) {
  if (!is_object(program, OBJECT_PROGRAM)) return refused(CL_INVALID_PROGRAM, code);
  if (!program->options) return refused(CL_INVALID_PROGRAM_EXECUTABLE, code);
  cl_kernel kernel = make_object(OBJECT_KERNEL, sizeof *kernel, &program->base);
  if (kernel) (void)snprintf(kernel->name, sizeof kernel->name, "%s", name);
  return created(kernel, code);
}

cl_int CL_API_CALL clRetainKernel(cl_kernel kernel) {
  return retain(kernel, OBJECT_KERNEL, CL_INVALID_KERNEL);
}

cl_int CL_API_CALL clReleaseKernel(cl_kernel kernel) {
  return release(kernel, OBJECT_KERNEL, CL_INVALID_KERNEL);
}

cl_int CL_API_CALL clGetKernelInfo(cl_kernel kernel, cl_kernel_info what, size_t size, void *value,
                                   size_t *size_ret) {
  if (!is_object(kernel, OBJECT_KERNEL)) return CL_INVALID_KERNEL;
  if (what == CL_KERNEL_FUNCTION_NAME) return answer_text(kernel->name, size, value, size_ret);
  return CL_INVALID_VALUE;
}

cl_int CL_API_CALL clSetKernelArg(cl_kernel kernel, cl_uint i, size_t bytes, const void *value) {
  if (!is_object(kernel, OBJECT_KERNEL)) return CL_INVALID_KERNEL;
  if (i >= MAX_ARGS) return CL_INVALID_ARG_INDEX;
  kernel->args[i].bytes = bytes;
  kernel->args[i].is_local = !value;
  if (i == 0 && value && bytes == sizeof kernel->first) memcpy(&kernel->first, value, bytes);
  return CL_SUCCESS;
}

cl_int CL_API_CALL clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id device,
                                            cl_kernel_work_group_info what, size_t size,
                                            void *value, size_t *size_ret) {
  const size_t none[3] = {0, 0, 0};
  (void)device;
  if (!is_object(kernel, OBJECT_KERNEL)) return CL_INVALID_KERNEL;
  switch (what) {
    case CL_KERNEL_WORK_GROUP_SIZE:
      return answer_size(profile_number("kernel_group", profile_max_group()), size, value,
                         size_ret);
    case CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE:
      return answer_size(profile_number("wave", 32), size, value, size_ret);
    case CL_KERNEL_LOCAL_MEM_SIZE:
    case CL_KERNEL_PRIVATE_MEM_SIZE:
      return answer_bytes(none, sizeof(cl_ulong), size, value, size_ret);
    case CL_KERNEL_COMPILE_WORK_GROUP_SIZE:
      return answer_bytes(none, sizeof none, size, value, size_ret);
    default:
      return CL_INVALID_VALUE;
  }
}

cl_int CL_API_CALL clRetainEvent(cl_event event) {
  return retain(event, OBJECT_EVENT, CL_INVALID_EVENT);
}

cl_int CL_API_CALL clReleaseEvent(cl_event event) {
  return release(event, OBJECT_EVENT, CL_INVALID_EVENT);
}
