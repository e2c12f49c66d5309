/* clave in a host that uses OpenCL itself: one context, the host's queue and buffers.
 *
 *   embed_opencl mnist.clv */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>

#include "clave_opencl.h"

enum { SIDE = 28, PIXELS = SIDE * SIDE, CLASSES = 10 };

static void must(clave_status status) {
  if (!status) return;
  fprintf(stderr, "embed_opencl: %s\n", clave_status_message(status));
  clave_status_free(status);
  exit(1);
}

static void must_cl(cl_int code, const char *what) {
  if (code == CL_SUCCESS) return;
  fprintf(stderr, "embed_opencl: %s: OpenCL error %d\n", what, code);
  exit(1);
}

typedef struct host {
  cl_context context;
  cl_command_queue queue;
  cl_mem image, scores; /* (1, 1, SIDE, SIDE), (1, CLASSES) floats */
} host;

/* Returns the first device of all platforms. */
static cl_device_id find_device(void) {
  cl_platform_id platforms[16];
  cl_device_id device;
  cl_uint n;
  must_cl(clGetPlatformIDs(16, platforms, &n), "clGetPlatformIDs");
  cl_int code = CL_DEVICE_NOT_FOUND;
  for (cl_uint i = 0; i < n && i < 16 && code != CL_SUCCESS; i++)
    code = clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &device, NULL);
  must_cl(code, "clGetDeviceIDs");
  return device;
}

static host open_host(cl_device_id *device) {
  cl_int code;
  host h;
  *device = find_device();
  h.context = clCreateContext(NULL, 1, device, NULL, NULL, &code);
  must_cl(code, "clCreateContext");
  h.queue = clCreateCommandQueue(h.context, *device, 0, &code);
  must_cl(code, "clCreateCommandQueue");
  h.image = clCreateBuffer(h.context, CL_MEM_READ_WRITE, PIXELS * sizeof(float), NULL, &code);
  must_cl(code, "clCreateBuffer");
  h.scores = clCreateBuffer(h.context, CL_MEM_READ_WRITE, CLASSES * sizeof(float), NULL, &code);
  must_cl(code, "clCreateBuffer");
  return h;
}

static void close_host(const host *host) {
  clReleaseMemObject(host->image);
  clReleaseMemObject(host->scores);
  clReleaseCommandQueue(host->queue);
  clReleaseContext(host->context);
}

/* The host's own work on the device: two kinds of fills, which it does not wait for. */
static void draw_bar(const host *host) {
  const float dark = 0, bright = 1;
  must_cl(clEnqueueFillBuffer(host->queue, host->image, &dark, sizeof dark, 0, PIXELS * sizeof dark,
                              0, NULL, NULL),
          "clEnqueueFillBuffer");
  for (size_t y = 5; y < 23; y++)
    must_cl(clEnqueueFillBuffer(host->queue, host->image, &bright, sizeof bright,
                                (y * SIDE + 13) * sizeof bright, 3 * sizeof bright, 0, NULL, NULL),
            "clEnqueueFillBuffer");
}

static void classify(const host *host, clave_session *session) {
  const int64_t dims[] = {1, 1, SIDE, SIDE};
  clave_tensor shape = clave_tensor_make(CLAVE_F32, 4, dims, NULL);
  must(clave_session_bind_input_mem(session, "forward", 0, &shape, host->image, 0));
  must(clave_session_bind_output_mem(session, "forward", 0, host->scores, 0,
                                     CLASSES * sizeof(float)));
  must(clave_session_run(session, "forward"));
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: embed_opencl PROGRAM\n");
    return 2;
  }
  cl_device_id id;
  host h = open_host(&id);
  clave_device *device;
  clave_program *program;
  clave_session *session;
  must(clave_device_create_from_opencl(h.context, id, h.queue, NULL, &device));
  must(clave_program_load(argv[1], NULL, &program));
  must(clave_session_create(program, device, NULL, &session));
  draw_bar(&h);
  classify(&h, session);
  float scores[CLASSES];
  int best = 0;
  must_cl(clEnqueueReadBuffer(h.queue, h.scores, CL_TRUE, 0, sizeof scores, scores, 0, NULL, NULL),
          "clEnqueueReadBuffer");
  for (int i = 1; i < CLASSES; i++)
    if (scores[i] > scores[best]) best = i;
  printf("the bar is a %d\n", best);
  clave_session_destroy(session);
  clave_program_destroy(program);
  clave_device_destroy(device);
  close_host(&h);
  return 0;
}
