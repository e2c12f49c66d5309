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

/* Finds the first device of all platforms. */
static bool find_device(cl_device_id *out) {
  cl_platform_id platforms[16];
  cl_uint n = 0;
  if (clGetPlatformIDs(16, platforms, &n) != CL_SUCCESS) n = 0;
  for (cl_uint i = 0; i < n && i < 16; i++)
    if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, out, NULL) == CL_SUCCESS) return true;
  fprintf(stderr, "host_app: note: no OpenCL device\n");
  return false;
}

static bool make_kernel(own_opencl *opencl) {
  const cl_int pixels = SIDE * SIDE, channels = CHANNELS;
  const char *texts[] = {source};
  cl_int code;
  cl_program program = clCreateProgramWithSource(opencl->context, 1, texts, NULL, &code);
  if (!good(code, "clCreateProgramWithSource")) return false;
  bool made = good(clBuildProgram(program, 1, &opencl->device, "", NULL, NULL), "clBuildProgram");
  if (made) opencl->to_planes = clCreateKernel(program, "to_planes", &code);
  (void)clReleaseProgram(program);
  return made && good(code, "clCreateKernel") &&
         good(clSetKernelArg(opencl->to_planes, 0, sizeof opencl->images, &opencl->images),
              "clSetKernelArg") &&
         good(clSetKernelArg(opencl->to_planes, 2, sizeof pixels, &pixels), "clSetKernelArg") &&
         good(clSetKernelArg(opencl->to_planes, 3, sizeof channels, &channels), "clSetKernelArg");
}

bool own_opencl_open(own_opencl *opencl) {
  cl_int code;
  memset(opencl, 0, sizeof *opencl);
  if (!find_device(&opencl->device)) return false;
  opencl->context = clCreateContext(NULL, 1, &opencl->device, NULL, NULL, &code);
  bool made = good(code, "clCreateContext");
  if (made) opencl->queue = clCreateCommandQueue(opencl->context, opencl->device, 0, &code);
  made = made && good(code, "clCreateCommandQueue");
  if (made) opencl->images = own_opencl_buffer(opencl, (size_t)BATCH * IMAGE_BYTES);
  if (made && opencl->images && make_kernel(opencl)) return true;
  own_opencl_close(opencl);
  return false;
}

void own_opencl_close(own_opencl *opencl) {
  if (opencl->to_planes) (void)clReleaseKernel(opencl->to_planes);
  for (int i = 0; i < opencl->n_buffers; i++) (void)clReleaseMemObject(opencl->buffers[i]);
  if (opencl->queue) (void)clReleaseCommandQueue(opencl->queue);
  if (opencl->context) (void)clReleaseContext(opencl->context);
  memset(opencl, 0, sizeof *opencl);
}

cl_mem own_opencl_buffer(own_opencl *opencl, size_t bytes) {
  cl_int code = CL_OUT_OF_RESOURCES;
  cl_mem memory = NULL;
  if (opencl->n_buffers < 1 + MAX_TENSORS)
    memory = clCreateBuffer(opencl->context, CL_MEM_READ_WRITE, bytes, NULL, &code);
  if (!good(code, "clCreateBuffer")) return NULL;
  return opencl->buffers[opencl->n_buffers++] = memory;
}

bool own_opencl_to_planes(const own_opencl *opencl, const uint8_t *images, int n, cl_mem planes) {
  const size_t items[] = {SIDE * SIDE, (size_t)n};
  return good(clEnqueueWriteBuffer(opencl->queue, opencl->images, CL_FALSE, 0,
                                   (size_t)n * IMAGE_BYTES, images, 0, NULL, NULL),
              "clEnqueueWriteBuffer") &&
         good(clSetKernelArg(opencl->to_planes, 1, sizeof(cl_mem), &planes), "clSetKernelArg") &&
         good(clEnqueueNDRangeKernel(opencl->queue, opencl->to_planes, 2, NULL, items, NULL, 0,
                                     NULL, NULL),
              "clEnqueueNDRangeKernel");
}

bool own_opencl_read(const own_opencl *opencl, cl_mem from, void *to, size_t bytes) {
  return good(clEnqueueReadBuffer(opencl->queue, from, CL_TRUE, 0, bytes, to, 0, NULL, NULL),
              "clEnqueueReadBuffer");
}
