#ifndef TEST_API_OPENCL_HOST_H
#define TEST_API_OPENCL_HOST_H
/* A host program's own OpenCL: a loader that it opened itself, a context, queues and buffers. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "backend/opencl/opencl.h"
#include "test/api/expect.h"

/* clang-format off */
#define HOST_CALLS(X)                                                                             \
  X(clGetPlatformIDs) X(clGetDeviceIDs) X(clGetDeviceInfo) X(clCreateContext) X(clReleaseContext)  \
  X(clGetContextInfo) X(clCreateCommandQueue) X(clReleaseCommandQueue) X(clGetCommandQueueInfo)    \
  X(clCreateBuffer) X(clCreateSubBuffer) X(clCreateImage) X(clReleaseMemObject)                    \
  X(clGetMemObjectInfo) X(clEnqueueWriteBuffer) X(clEnqueueReadBuffer) X(clEnqueueFillBuffer) X(clEnqueueCopyBuffer)      \
  X(clFinish) X(clFlush) X(clGetEventInfo) X(clCreateUserEvent) X(clSetUserEventStatus) X(clReleaseEvent)
/* clang-format on */

#include "test/opencl_calls.h"

static cl_platform_id host_platform;
static cl_device_id host_device, other_device; /* both of one platform; other_device may be NULL */

static inline void right(cl_int code) {
  if (code != CL_SUCCESS) fail_msg("OpenCL error %d", code);
}

/* Finds the OpenCL device that clave uses, and another device of its platform. */
static inline void find_on(cl_platform_id platform, const char *name) {
  cl_device_id ids[16], other = NULL;
  cl_uint n = 0;
  char text[512];
  if (cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 16, ids, &n) != CL_SUCCESS) return;
  for (cl_uint i = 0; i < n && i < 16; i++) {
    text[0] = 0;
    right(cl.clGetDeviceInfo(ids[i], CL_DEVICE_NAME, sizeof text, text, NULL));
    if (!host_device && strcmp(text, name) == 0)
      host_device = ids[i];
    else
      other = ids[i];
  }
  if (host_device) other_device = other;
  host_platform = platform;
}

/* Returns true if there is a device. Else prints the reason, and that no test has run. */
static inline bool find_host_device(void) {
  clave_device_info info = {.size = sizeof info};
  info.index = -1;
  (void)setenv("POCL_DEVICES", "pthread basic", 0); /* PoCL then has two devices */
  cl_platform_id platforms[16];
  cl_uint n = 0;
  clave_device *best;
  if (clave_devices_hint() == NULL) { /* there is one */
    good(clave_device_open("opencl", NULL, &best));
    good(clave_device_get_info(best, &info));
    clave_device_destroy(best);
  }
  if (info.index >= 0 && load_calls(dlopen("libOpenCL.so.1", RTLD_NOW)))
    right(cl.clGetPlatformIDs(16, platforms, &n));
  for (cl_uint i = 0; i < n && i < 16 && !host_device; i++) find_on(platforms[i], info.name);
  const char *hint = clave_devices_hint();
  if (!host_device)
    printf("skipped: %s\n0 passed, 0 failed\n", hint ? hint : "no OpenCL device of the host's");
  return host_device != NULL;
}

static inline cl_context new_context_of(const cl_device_id *devices, cl_uint n) {
  cl_int code;
  cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)host_platform,
                                        0};
  cl_context context = cl.clCreateContext(properties, n, devices, NULL, NULL, &code);
  right(code);
  return context;
}
static inline cl_context new_context(void) { return new_context_of(&host_device, 1); }

static inline cl_command_queue new_queue_on(cl_context context, cl_device_id device,
                                            cl_command_queue_properties how) {
  cl_int code;
  cl_command_queue queue = cl.clCreateCommandQueue(context, device, how, &code);
  right(code);
  return queue;
}
static inline cl_command_queue new_queue(cl_context context, cl_command_queue_properties how) {
  return new_queue_on(context, host_device, how);
}

/* Returns the number of queue orders to test: 2 if the device has out-of-order queues, else 1. */
static inline int count_orders(void) {
  cl_command_queue_properties has = 0;
  right(cl.clGetDeviceInfo(host_device, CL_DEVICE_QUEUE_PROPERTIES, sizeof has, &has, NULL));
  return has & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE ? 2 : 1;
}

static inline cl_mem new_buffer(cl_context context, cl_mem_flags flags, size_t bytes, void *host) {
  cl_int code;
  cl_mem memory = cl.clCreateBuffer(context, flags, bytes, host, &code);
  right(code);
  return memory;
}

static inline cl_mem new_part(cl_mem whole, size_t origin, size_t bytes) {
  cl_int code;
  cl_buffer_region region = {origin, bytes};
  cl_mem memory = cl.clCreateSubBuffer(whole, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
  right(code);
  return memory;
}

/* Returns true if the memory's reference count reaches `times` within two seconds: a driver may
 * release a command's memory a moment after the command is complete. */
static inline bool is_held(cl_mem memory, cl_uint times) {
  const struct timespec moment = {.tv_nsec = 1000000};
  cl_uint n = 0;
  for (int i = 0; i < 2000; i++) {
    right(cl.clGetMemObjectInfo(memory, CL_MEM_REFERENCE_COUNT, sizeof n, &n, NULL));
    if (n == times) return true;
    (void)nanosleep(&moment, NULL);
  }
  return false;
}

/* They copy by way of a buffer that the host may access, as the tested one may be closed to it. */
static inline cl_mem open_buffer(cl_command_queue q, cl_mem_flags flags, size_t bytes, void *host) {
  cl_context context;
  right(cl.clGetCommandQueueInfo(q, CL_QUEUE_CONTEXT, sizeof context, &context, NULL));
  return new_buffer(context, flags, bytes, host);
}
/* Enqueues a write; `from` may be reused on return. */
static inline void write_to(cl_command_queue q, cl_mem to, size_t offset, const void *from,
                            size_t bytes) {
  if (!bytes) return;
  cl_mem open = open_buffer(q, CL_MEM_COPY_HOST_PTR, bytes, (void *)(uintptr_t)from);
  right(cl.clEnqueueCopyBuffer(q, open, to, 0, offset, bytes, 0, NULL, NULL));
  right(cl.clReleaseMemObject(open));
}
static inline void read_from(cl_command_queue q, cl_mem from, size_t offset, void *to,
                             size_t bytes) {
  if (!bytes) return;
  cl_mem open = open_buffer(q, 0, bytes, NULL);
  right(cl.clEnqueueCopyBuffer(q, from, open, offset, 0, bytes, 0, NULL, NULL));
  right(cl.clFinish(q)); /* it may run out of order */
  right(cl.clEnqueueReadBuffer(q, open, CL_TRUE, 0, bytes, to, 0, NULL, NULL));
  right(cl.clReleaseMemObject(open));
}

#endif
