/* The application's own OpenCL. */
#include "opencl.h"

#include <stdio.h>
#include <string.h>

static const char source[] =
    "__kernel void to_planes(__global const uchar *images, __global float *planes, int pixels,\n"
    "                        int channels) {\n"
    "  const int p = get_global_id(0), i = get_global_id(1);\n"
    "  for (int c = 0; c < channels; c++)\n"
    "    planes[(i * channels + c) * pixels + p] = images[(i * pixels + p) * channels + c];\n"
    "}\n";

static bool good(cl_int code, const char *what) {
  if (code == CL_SUCCESS) return true;
  fprintf(stderr, "host_app: note: %s: OpenCL error %d\n", what, code);
  return false;
}

/* The first device of all platforms. */
static bool find_device(cl_device_id *out) {
  cl_platform_id platforms[16];
  cl_uint n = 0;
  if (clGetPlatformIDs(16, platforms, &n) != CL_SUCCESS) n = 0;
  for (cl_uint i = 0; i < n && i < 16; i++)
    if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, out, NULL) == CL_SUCCESS) return true;
  fprintf(stderr, "host_app: note: no OpenCL device\n");
  return false;
}

static bool make_kernel(own_opencl *o) {
  const cl_int pixels = SIDE * SIDE, channels = CHANNELS;
  const char *texts[] = {source};
  cl_int code;
  cl_program program = clCreateProgramWithSource(o->context, 1, texts, NULL, &code);
  if (!good(code, "clCreateProgramWithSource")) return false;
  bool made = good(clBuildProgram(program, 1, &o->device, "", NULL, NULL), "clBuildProgram");
  if (made) o->to_planes = clCreateKernel(program, "to_planes", &code);
  (void)clReleaseProgram(program);
  return made && good(code, "clCreateKernel") &&
         good(clSetKernelArg(o->to_planes, 0, sizeof o->images, &o->images), "clSetKernelArg") &&
         good(clSetKernelArg(o->to_planes, 2, sizeof pixels, &pixels), "clSetKernelArg") &&
         good(clSetKernelArg(o->to_planes, 3, sizeof channels, &channels), "clSetKernelArg");
}

bool own_opencl_open(own_opencl *o) {
  cl_int code;
  memset(o, 0, sizeof *o);
  if (!find_device(&o->device)) return false;
  o->context = clCreateContext(NULL, 1, &o->device, NULL, NULL, &code);
  bool made = good(code, "clCreateContext");
  if (made) o->queue = clCreateCommandQueue(o->context, o->device, 0, &code);
  made = made && good(code, "clCreateCommandQueue");
  if (made) o->images = own_opencl_buffer(o, (size_t)BATCH * IMAGE_BYTES);
  if (made && o->images && make_kernel(o)) return true;
  own_opencl_close(o);
  return false;
}

void own_opencl_close(own_opencl *o) {
  if (o->to_planes) (void)clReleaseKernel(o->to_planes);
  for (int i = 0; i < o->n_buffers; i++) (void)clReleaseMemObject(o->buffers[i]);
  if (o->queue) (void)clReleaseCommandQueue(o->queue);
  if (o->context) (void)clReleaseContext(o->context);
  memset(o, 0, sizeof *o);
}

cl_mem own_opencl_buffer(own_opencl *o, size_t bytes) {
  cl_int code = CL_OUT_OF_RESOURCES;
  cl_mem memory = NULL;
  if (o->n_buffers < 1 + MAX_TENSORS)
    memory = clCreateBuffer(o->context, CL_MEM_READ_WRITE, bytes, NULL, &code);
  if (!good(code, "clCreateBuffer")) return NULL;
  return o->buffers[o->n_buffers++] = memory;
}

bool own_opencl_to_planes(const own_opencl *o, const uint8_t *images, int n, cl_mem planes) {
  const size_t items[] = {SIDE * SIDE, (size_t)n};
  return good(clEnqueueWriteBuffer(o->queue, o->images, CL_FALSE, 0, (size_t)n * IMAGE_BYTES,
                                   images, 0, NULL, NULL),
              "clEnqueueWriteBuffer") &&
         good(clSetKernelArg(o->to_planes, 1, sizeof(cl_mem), &planes), "clSetKernelArg") &&
         good(clEnqueueNDRangeKernel(o->queue, o->to_planes, 2, NULL, items, NULL, 0, NULL, NULL),
              "clEnqueueNDRangeKernel");
}

bool own_opencl_read(const own_opencl *o, cl_mem from, void *to, size_t bytes) {
  return good(clEnqueueReadBuffer(o->queue, from, CL_TRUE, 0, bytes, to, 0, NULL, NULL),
              "clEnqueueReadBuffer");
}
