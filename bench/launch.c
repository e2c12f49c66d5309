/* launch PROGRAM DEVICE ROUNDS: compares the cost of an op with that of a plain OpenCL launch
 * enqueued in the same context without clave, alternating in one process. PROGRAM has many small
 * ops, each of which is one launch here. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/common.h"
#include "clave_opencl.h"
#include "clave_tune.h"

static const char source[] =
    "__kernel void add(__global const float *x, __global float *out, int n, float value) {\n"
    "  const int i = (int)get_global_id(0);\n"
    "  if (i < n) out[i] = x[i] + value;\n"
    "}\n";

enum { MAX_PLATFORMS = 16, MAX_DEVICES = 64, ITEMS = 16 };

typedef struct driver {
  cl_device_id device;
  cl_context context;
  cl_command_queue queue;
  cl_mem x, out;
  cl_kernel *kernels; /* one for each launch, as in clave */
  int n;
} driver;

static void check_cl(cl_int code, const char *what) {
  if (code == CL_SUCCESS) return;
  fprintf(stderr, "bench: %s: OpenCL error %d\n", what, code);
  exit(1);
}

static bool find_in(cl_platform_id platform, const char *name, cl_device_id *out) {
  cl_device_id devices[MAX_DEVICES];
  cl_uint n = 0;
  if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MAX_DEVICES, devices, &n) != CL_SUCCESS)
    return false;
  for (cl_uint i = 0; i < n && i < MAX_DEVICES; i++) {
    char text[256] = "";
    check_cl(clGetDeviceInfo(devices[i], CL_DEVICE_NAME, sizeof text, text, NULL), "its name");
    if (strcmp(text, name) != 0) continue;
    *out = devices[i];
    return true;
  }
  return false;
}

/* Returns the device that clave opens for the spec. */
static cl_device_id find_device(const char *spec) {
  clave_device *opened;
  clave_device_info info = {.size = sizeof info};
  check(clave_device_open(spec, NULL, &opened));
  check(clave_device_get_info(opened, &info));
  cl_platform_id platforms[MAX_PLATFORMS];
  cl_device_id found = NULL;
  cl_uint n = 0;
  check_cl(clGetPlatformIDs(MAX_PLATFORMS, platforms, &n), "clGetPlatformIDs");
  for (cl_uint i = 0; i < n && i < MAX_PLATFORMS && !found; i++)
    find_in(platforms[i], info.name, &found);
  if (!found) check_cl(CL_DEVICE_NOT_FOUND, info.name);
  clave_device_destroy(opened);
  return found;
}

static void make_kernels(driver *driver, cl_program program) {
  const cl_int items = ITEMS;
  const cl_float value = 1;
  cl_int code;
  for (int i = 0; i < driver->n; i++) {
    cl_kernel k = driver->kernels[i] = clCreateKernel(program, "add", &code);
    check_cl(code, "clCreateKernel");
    check_cl(clSetKernelArg(k, 0, sizeof driver->x, i % 2 ? &driver->out : &driver->x),
             "clSetKernelArg");
    check_cl(clSetKernelArg(k, 1, sizeof driver->x, i % 2 ? &driver->x : &driver->out),
             "clSetKernelArg");
    check_cl(clSetKernelArg(k, 2, sizeof items, &items), "clSetKernelArg");
    check_cl(clSetKernelArg(k, 3, sizeof value, &value), "clSetKernelArg");
  }
}

static void open_driver(driver *driver, const char *spec) {
  cl_int code;
  driver->device = find_device(spec);
  driver->context = clCreateContext(NULL, 1, &driver->device, NULL, NULL, &code);
  check_cl(code, "clCreateContext");
  driver->queue = clCreateCommandQueue(driver->context, driver->device, 0, &code);
  check_cl(code, "clCreateCommandQueue");
  driver->x =
      clCreateBuffer(driver->context, CL_MEM_READ_WRITE, ITEMS * sizeof(float), NULL, &code);
  check_cl(code, "clCreateBuffer");
  driver->out =
      clCreateBuffer(driver->context, CL_MEM_READ_WRITE, ITEMS * sizeof(float), NULL, &code);
  check_cl(code, "clCreateBuffer");
}

static void build_kernels(driver *driver, int n) {
  cl_int code;
  const char *texts[] = {source};
  cl_program program = clCreateProgramWithSource(driver->context, 1, texts, NULL, &code);
  check_cl(code, "clCreateProgramWithSource");
  check_cl(clBuildProgram(program, 1, &driver->device, "", NULL, NULL), "clBuildProgram");
  driver->n = n;
  driver->kernels = calloc((size_t)n, sizeof *driver->kernels);
  if (!driver->kernels) check_cl(CL_OUT_OF_HOST_MEMORY, "kernels");
  make_kernels(driver, program);
  clReleaseProgram(program);
}

static double time_driver(const driver *driver) {
  const size_t items = ITEMS;
  double begin = now_s();
  for (int i = 0; i < driver->n; i++)
    check_cl(clEnqueueNDRangeKernel(driver->queue, driver->kernels[i], 1, NULL, &items, &items, 0,
                                    NULL, NULL),
             "clEnqueueNDRangeKernel");
  check_cl(clFinish(driver->queue), "clFinish");
  return now_s() - begin;
}

static void close_driver(driver *driver) {
  for (int i = 0; i < driver->n; i++) clReleaseKernel(driver->kernels[i]);
  free(driver->kernels);
  clReleaseMemObject(driver->x);
  clReleaseMemObject(driver->out);
  clReleaseCommandQueue(driver->queue);
  clReleaseContext(driver->context);
}

static void measure(const driver *driver, bench_session *session, int rounds) {
  double ours[MAX_ROUNDS], own[MAX_ROUNDS], ratio[MAX_ROUNDS];
  time_run(session, "forward");
  time_driver(driver);
  for (int r = 0; r < rounds; r++) {
    ours[r] = 1e6 * time_run(session, "forward") / driver->n;
    own[r] = 1e6 * time_driver(driver) / driver->n;
    ratio[r] = ours[r] / own[r];
  }
  printf("{\"clave_us\": %.3f, \"driver_us\": %.3f, \"ratio\": %.3f}\n", median(ours, rounds),
         median(own, rounds), median(ratio, rounds));
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: launch PROGRAM DEVICE ROUNDS\n");
    return 2;
  }
  int rounds = atoi(argv[3]);
  driver driver = {0};
  bench_session session;
  open_driver(&driver, argv[2]);
  check(clave_device_create_from_opencl(driver.context, driver.device, driver.queue, NULL,
                                        &session.device));
  check(clave_program_load(argv[1], NULL, &session.program));
  check(clave_session_create(session.program, session.device, NULL, &session.session));
  clave_method_info method = {.size = sizeof method};
  check(clave_program_method(session.program, 0, &method));
  build_kernels(&driver, (int)method.n_nodes);
  measure(&driver, &session, rounds > MAX_ROUNDS ? MAX_ROUNDS : rounds);
  close_session(&session);
  close_driver(&driver);
  return 0;
}
