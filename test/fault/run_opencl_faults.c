/* Faults in sessions on a host program's own OpenCL (clave_opencl.h).
 *
 *   run_opencl_faults alloc|calls PROGRAM DATA [FIRST STEP]
 *
 * PROGRAM: as for run_api_faults. The host's own OpenCL calls do not go through the stub, so they
 * neither fail nor count. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "clave_host.h"
#include "clave_opencl.h"
#include "test/fault/net.h"

enum { MAX_INPUTS = 8, OFFSET = 128, ROOM = 1 << 16 };

/* clang-format off */
#define HOST_CALLS(X)                                                                             \
  X(clGetPlatformIDs) X(clGetDeviceIDs) X(clCreateContext) X(clReleaseContext)                     \
  X(clCreateCommandQueue) X(clCreateBuffer) X(clEnqueueWriteBuffer) X(clEnqueueReadBuffer)         \
  X(clEnqueueFillBuffer) X(clEnqueueCopyBuffer)
/* clang-format on */

#include "test/opencl_calls.h"

/* The host's OpenCL objects, which live as long as the process. */
static struct {
  cl_device_id device;
  cl_context context;
  cl_command_queue queue;
  cl_mem inputs[MAX_INPUTS];
  cl_mem output, seen; /* the host cannot map the output; it reads a copy */
  int shared;          /* memory of a simulated dma-buf: (MAX_INPUTS + 1, ROOM), output last */
  char *mapped;
} host;

typedef struct scenario {
  const char *program_path, *data_path, *binaries_path;
  clave_device *device;
  clave_program *program;
  clave_tensors *data;
  clave_session *session, *other;
} scenario;

/* ---------------------------------------------------------------- the host */

/* Opens the driver's library, not the stub, which has the same name and is opened first. */
static void *open_driver(void) {
  const char *real = getenv("CLAVE_STUB_REAL");
  void *library = dlopen("libOpenCL.so.1", RTLD_NOW);
  return real && *real ? dlopen(real, RTLD_NOW | RTLD_LOCAL) : library;
}

static void must(cl_int code) {
  if (code != CL_SUCCESS) abort();
}

/* Creates a context on the device. Returns false if clave cannot use the device. */
static bool try_device(cl_platform_id platform, cl_device_id id) {
  cl_int code;
  cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)platform, 0};
  clave_device *device;
  host.context = cl.clCreateContext(properties, 1, &id, NULL, NULL, &code);
  if (code != CL_SUCCESS) return false;
  clave_status st = clave_device_create_from_opencl(host.context, id, NULL, NULL, &device);
  bool good = !st;
  clave_status_free(st);
  clave_device_destroy(device);
  host.device = id;
  if (!good) cl.clReleaseContext(host.context);
  return good;
}

static bool find_device(void) {
  cl_platform_id platforms[16];
  cl_device_id ids[16];
  cl_uint n = 0, n_ids;
  if (cl.clGetPlatformIDs(16, platforms, &n) != CL_SUCCESS) return false;
  for (cl_uint i = 0; i < n && i < 16; i++) {
    if (cl.clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 16, ids, &n_ids) != CL_SUCCESS)
      continue;
    for (cl_uint k = 0; k < n_ids && k < 16; k++)
      if (try_device(platforms[i], ids[k])) return true;
  }
  return false;
}

static cl_mem make_buffer(cl_mem_flags flags) {
  cl_int code;
  cl_mem m = cl.clCreateBuffer(host.context, flags, ROOM, NULL, &code);
  must(code);
  return m;
}

static void make_shared(void) {
  const off_t bytes = (MAX_INPUTS + 1) * ROOM;
  host.shared = memfd_create("dma_buf", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (host.shared < 0 || ftruncate(host.shared, bytes) != 0) abort();
  if (fcntl(host.shared, F_ADD_SEALS, F_SEAL_SHRINK) != 0) abort();
  host.mapped = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, host.shared, 0);
  if (host.mapped == MAP_FAILED) abort();
}

static void open_host(void) {
  cl_int code;
  if (!load_calls(open_driver()) || !find_device()) {
    fprintf(stderr, "there is no OpenCL device\n");
    exit(2);
  }
  host.queue = cl.clCreateCommandQueue(host.context, host.device, 0, &code);
  must(code);
  for (int i = 0; i < MAX_INPUTS; i++) host.inputs[i] = make_buffer(CL_MEM_READ_ONLY);
  host.output = make_buffer(CL_MEM_HOST_NO_ACCESS);
  host.seen = make_buffer(CL_MEM_READ_WRITE);
  make_shared();
}

static size_t bytes_of(const clave_tensor *tensor) {
  size_t bytes = clave_dtype_size(tensor->dtype);
  for (int i = 0; i < tensor->rank; i++) bytes *= (size_t)tensor->dims[i];
  return bytes;
}

/* ---------------------------------------------------------------- a scenario */

/* Enqueues writes of the inputs, without waiting, and overwrites the output. */
static clave_status bind_all(clave_session *session, const clave_tensors *data) {
  clave_tensor tensor;
  char name[32];
  const cl_uchar nothing = 0xff;
  for (uint32_t i = 0;
       snprintf(name, sizeof name, "in.A.%u", i), clave_tensors_find(data, name, &tensor); i++) {
    must(cl.clEnqueueWriteBuffer(host.queue, host.inputs[i], CL_FALSE, OFFSET, bytes_of(&tensor),
                                 tensor.data, 0, NULL, NULL));
    TRY(clave_session_bind_input_mem(session, "forward", i, &tensor, host.inputs[i], OFFSET));
  }
  must(cl.clEnqueueFillBuffer(host.queue, host.output, &nothing, 1, 0, ROOM, 0, NULL, NULL));
  return clave_session_bind_output_mem(session, "forward", 0, host.output, OFFSET, ROOM - OFFSET);
}

static clave_status run_bound(clave_session *session, const clave_tensors *data) {
  TRY(bind_all(session, data));
  return clave_session_run(session, "forward");
}

/* Does the same as run_bound with tensors in the shared dma-buf. */
static clave_status run_shared(clave_session *session, const clave_tensors *data) {
  clave_tensor tensor;
  char name[32];
  size_t at = 0;
  memset(host.mapped + MAX_INPUTS * ROOM, 0xff, ROOM);
  for (uint32_t i = 0;
       snprintf(name, sizeof name, "in.A.%u", i), clave_tensors_find(data, name, &tensor); i++) {
    memcpy(host.mapped + at + OFFSET, tensor.data, bytes_of(&tensor));
    TRY(clave_session_bind_input_dma_buf(session, "forward", i, &tensor, host.shared, at + OFFSET));
    at += ROOM;
  }
  TRY(clave_session_bind_output_dma_buf(session, "forward", 0, host.shared,
                                        MAX_INPUTS * ROOM + OFFSET, ROOM - OFFSET));
  return clave_session_run(session, "forward");
}

static bool right_shared(const clave_tensors *data) {
  clave_tensor want, got;
  if (!clave_tensors_find(data, "out.0.0", &want)) return false;
  got = want;
  got.data = host.mapped + MAX_INPUTS * ROOM + OFFSET;
  return same_values(&got, &want);
}

/* True if the host finds the expected values in its output buffer. */
static bool right_buffer(const clave_tensors *data) {
  static char bytes[ROOM];
  clave_tensor want, got;
  if (!clave_tensors_find(data, "out.0.0", &want)) return false;
  must(cl.clEnqueueCopyBuffer(host.queue, host.output, host.seen, OFFSET, 0, bytes_of(&want), 0,
                              NULL, NULL));
  must(cl.clEnqueueReadBuffer(host.queue, host.seen, CL_TRUE, 0, bytes_of(&want), bytes, 0, NULL,
                              NULL));
  got = want;
  got.data = bytes;
  return same_values(&got, &want);
}

/* Has each result copied to the host, also the one in the closed buffer. */
static bool observe(void *ctx, uint32_t node, uint32_t slot, const clave_tensor *value) {
  (void)ctx;
  (void)node;
  (void)slot;
  return value->rank >= 0;
}

static clave_status run_scenario(void *ctx) {
  scenario *scenario = ctx;
  TRY(clave_tensors_load(scenario->data_path, &scenario->data));
  TRY(clave_device_create_from_opencl(host.context, host.device, host.queue, NULL,
                                      &scenario->device));
  TRY(clave_program_load(scenario->program_path, NULL, &scenario->program));
  TRY(clave_session_create(scenario->program, scenario->device, NULL, &scenario->session));
  TRY(clave_session_observe(scenario->session, observe, NULL));
  TRY(run_bound(scenario->session, scenario->data));
  TRY(clave_session_observe(scenario->session, NULL, NULL));
  TRY(clave_session_create(scenario->program, scenario->device, NULL, &scenario->other));
  TRY(run_shared(scenario->other, scenario->data));
  TRY(clave_session_reset(scenario->other));
  TRY(run_bound(scenario->other, scenario->data));
  TRY(clave_session_bind_output_mem(scenario->session, "forward", 0, NULL, 0, 0));
  TRY(clave_session_run(scenario->session, "forward"));
  TRY(clave_device_save_binaries(scenario->device, scenario->binaries_path));
  return run_bound(scenario->other, scenario->data);
}

static const char *check_scenario(void *ctx) {
  const scenario *scenario = ctx;
  if (!right_output(scenario->session, scenario->data))
    return "the output in the session's memory is wrong";
  if (!right_shared(scenario->data)) return "the output in the dma-buf is wrong";
  return right_buffer(scenario->data) ? NULL : "the output in the host's buffer is wrong";
}

static clave_status resume(void *ctx) {
  const scenario *scenario = ctx;
  clave_session *sessions[2] = {scenario->session, scenario->other};
  for (int i = 0; i < 2; i++) {
    if (!sessions[i]) continue;
    TRY(clave_session_observe(sessions[i], NULL, NULL));
    TRY(clave_session_reset(sessions[i]));
    TRY(run_bound(sessions[i], scenario->data));
    if (!right_buffer(scenario->data)) abort();
  }
  return NULL;
}

static void end_scenario(void *ctx) {
  scenario *alive = ctx;
  clave_device_destroy(alive->device);
  clave_session_destroy(alive->session);
  clave_session_destroy(alive->other);
  clave_program_destroy(alive->program);
  clave_tensors_destroy(alive->data);
  *alive = (scenario){.program_path = alive->program_path,
                      .data_path = alive->data_path,
                      .binaries_path = alive->binaries_path};
}

int main(int argc, char **argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: run_opencl_faults alloc|calls PROGRAM DATA [FIRST STEP]\n");
    return 2;
  }
  open_host();
  char binaries[4096];
  (void)snprintf(binaries, sizeof binaries, "%s.binaries", argv[3]);
  scenario scenario = {.program_path = argv[2], .data_path = argv[3], .binaries_path = binaries};
  const fault_test test = {&scenario, run_scenario, check_scenario, resume, end_scenario};
  return fault_loop(&test, argv[1], argc > 4 ? atol(argv[4]) : 0, argc > 5 ? atol(argv[5]) : 1);
}
