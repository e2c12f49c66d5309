/* Counts the work that a steady run does beside its computation and prints one JSON object. A
 * session is run some times, then again and again with the same sizes, its inputs set and its
 * output read each time. Each count is the minimum over the later runs, because the system
 * occasionally adds calls.
 *
 *   run_steady PROGRAM DATA DEVICE RUNS
 *
 * allocations: heap allocations by our code. faults, waits: page faults, and how often the thread
 * went to sleep (with one thread on the CPU backend it has nobody to wait for). With the stub as
 * the loader, also the calls of each OpenCL function below; "first clEnqueueNDRangeKernel": those
 * of the first run. */
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "test/fault/alloc.h"
#include "test/fault/net.h"

enum { WARM_UP = 3 };

static const char *const functions[] = {
    "clCreateBuffer",        "clCreateSubBuffer",         "clCreateKernel",
    "clBuildProgram",        "clCreateProgramWithSource", "clCreateProgramWithBinary",
    "clCreateCommandQueue",  "clCreateUserEvent",         "clSetKernelArg",
    "clEnqueueCopyBuffer",   "clEnqueueMapBuffer",        "clEnqueueReadBuffer",
    "clEnqueueWriteBuffer",  "clWaitForEvents",           "clFinish",
    "clEnqueueNDRangeKernel"};
enum { N_FUNCTIONS = sizeof functions / sizeof *functions };

typedef struct steady {
  clave_tensors *data;
  clave_program *program;
  clave_device *device;
  clave_session *session;
  void (*stub_arm)(long n, int error);
  long (*stub_calls)(void);
} steady;

static clave_status run(const steady *steady) {
  clave_tensor out;
  TRY(set_inputs(steady->session, steady->data));
  TRY(clave_session_run(steady->session, "forward"));
  return clave_session_output(steady->session, "forward", 0, &out);
}

/* Counts the calls of one function in one run, or of all functions if `function` is "". */
static clave_status count_calls(const steady *steady, const char *function, long *out) {
  setenv("CLAVE_STUB_FAIL_NAME", function, 1);
  steady->stub_arm(LONG_MAX, 0);
  clave_status st = run(steady);
  *out = steady->stub_calls();
  return st;
}

static void find_stub(steady *steady) {
  void *library = dlopen("libOpenCL.so.1", RTLD_NOW);
  void *arm = library ? dlsym(library, "stub_arm") : NULL;
  void *calls = library ? dlsym(library, "stub_calls") : NULL;
  memcpy(&steady->stub_arm, &arm, sizeof arm);
  memcpy(&steady->stub_calls, &calls, sizeof calls);
}

static clave_status open_session(steady *steady, char **argv) {
  clave_device_options options = {.size = sizeof options, .n_threads = 1};
  TRY(clave_tensors_load(argv[2], &steady->data));
  TRY(clave_program_load(argv[1], NULL, &steady->program));
  TRY(clave_device_open(argv[3], &options, &steady->device));
  return clave_session_create(steady->program, steady->device, NULL, &steady->session);
}

static void keep_least(long *least, long value) {
  if (value < *least) *least = value;
}

/* Counts the heap allocations, page faults and waits of one run, for this thread alone. */
static clave_status count_resources(const steady *steady, int runs) {
  long allocations = LONG_MAX, faults = LONG_MAX, waits = LONG_MAX;
  for (int i = 0; i < runs; i++) {
    struct rusage before, after;
    getrusage(RUSAGE_THREAD, &before);
    alloc_arm(LONG_MAX);
    TRY(run(steady));
    keep_least(&allocations, alloc_calls());
    getrusage(RUSAGE_THREAD, &after);
    keep_least(&faults, after.ru_minflt - before.ru_minflt);
    keep_least(&waits, after.ru_nvcsw - before.ru_nvcsw);
  }
  printf("\"allocations\": %ld, \"faults\": %ld, \"waits\": %ld", allocations, faults, waits);
  return NULL;
}

static clave_status count_functions(const steady *steady, int runs) {
  for (int f = 0; f < N_FUNCTIONS; f++) {
    long least = LONG_MAX, n;
    for (int i = 0; i < runs; i++) {
      TRY(count_calls(steady, functions[f], &n));
      keep_least(&least, n);
    }
    printf(", \"%s\": %ld", functions[f], least);
  }
  return NULL;
}

static clave_status measure(steady *steady, int runs) {
  long first = 0;
  TRY(steady->stub_calls ? count_calls(steady, "clEnqueueNDRangeKernel", &first) : run(steady));
  for (int i = 0; i < WARM_UP; i++) TRY(run(steady));
  printf("{\"first clEnqueueNDRangeKernel\": %ld, ", first);
  TRY(count_resources(steady, runs));
  if (steady->stub_calls) TRY(count_functions(steady, runs));
  printf("}\n");
  return NULL;
}

int main(int argc, char **argv) {
  if (argc != 5) {
    fprintf(stderr, "usage: run_steady PROGRAM DATA DEVICE RUNS\n");
    return 2;
  }
  steady steady = {0};
  find_stub(&steady);
  clave_status st = open_session(&steady, argv);
  if (!st) st = measure(&steady, atoi(argv[4]));
  if (st) fprintf(stderr, "%s\n", clave_status_message(st));
  const int code = st != NULL;
  clave_status_free(st);
  clave_session_destroy(steady.session);
  clave_program_destroy(steady.program);
  clave_device_destroy(steady.device);
  clave_tensors_destroy(steady.data);
  return code;
}
