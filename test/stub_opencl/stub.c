/* A libOpenCL.so.1 for tests: forwards to the real one and, on request, fails calls, shrinks
 * limits, takes fp64 away, keeps memory apart from the host's, loses the device, or has no
 * platforms. It counts live objects, so that leaks show.
 *
 * Environment (numbers count calls from 0, releases too):
 *
 *   CLAVE_STUB_REAL         path of the real library; without it there are no platforms
 *   CLAVE_STUB_PLATFORMS=0  there are no platforms
 *   CLAVE_STUB_FAIL_AT=N    call N fails with CLAVE_STUB_ERROR (-5, out of resources, by default);
 *                           releases never fail
 *   CLAVE_STUB_LOST_AT=N    call N and all later ones fail
 *   CLAVE_STUB_HANGS=F      after a call of function F has failed, every later call hangs, and an
 *                           exit handler aborts the process
 *   CLAVE_STUB_FAIL_NAME=F  only calls of function F, or of several, are counted for FAIL_AT and
 *                           LOST_AT
 *   CLAVE_STUB_FAIL_TEXT=T  only calls about a program whose source or options contain T, or about
 *                           a kernel whose name does, are counted
 *   CLAVE_STUB_MAX_ALLOC=B  a buffer has at most B bytes: reported, and larger ones are refused
 *   CLAVE_STUB_MAX_GROUP=N  a work-group has at most N work-items: reported, for each kernel too,
 *                           and larger ones are refused
 *   CLAVE_STUB_KERNEL_GROUP=N  a kernel takes at most N work-items in a work-group: reported, and
 *                           larger ones are refused
 *   CLAVE_STUB_LOCAL_MEM=B  B bytes of local memory: reported, and kernels that take more are
 *                           refused. The standard promises 32 KB
 *   CLAVE_STUB_VECTOR=N     registers hold N floats
 *   CLAVE_STUB_MAX_GRID=N   a launch has at most N work-groups in its second and third dimension:
 *                           larger ones are refused
 *   CLAVE_STUB_BLOCKING_MAPS=1  a map that does not wait is refused
 *   CLAVE_STUB_PLATFORM=TEXT, CLAVE_STUB_NAME=TEXT  begin the names of the platform, whose other
 *                           oddities stay, and of the device
 *   CLAVE_STUB_DRIVER=TEXT  begins the driver's version
 *   CLAVE_STUB_WHOLE_NAME=TEXT, CLAVE_STUB_VERSION=TEXT, CLAVE_STUB_PROFILE=TEXT  the device's
 *                           name, version and profile
 *   CLAVE_STUB_EXTENSIONS=TEXT  begins the device's extensions
 *   CLAVE_STUB_LOCAL_TYPE=N the device's kind of local memory: 2 is global. A GPU has 1
 *   CLAVE_STUB_SEPARATE=1   the device says that it shares no memory with the host, and copies
 *                           where it is given a host pointer
 *   CLAVE_STUB_NO_FP64=1    the device lacks doubles
 *   CLAVE_STUB_EXTENSION=" X" the device also lists the extension X
 *   CLAVE_STUB_NO_FMA=1     the device has no instruction for fma()
 *   CLAVE_STUB_NO_FP16=1    the device lacks halves
 *   CLAVE_STUB_GPU=1        the device says that it is a GPU
 *   CLAVE_STUB_DMA_BUF=khr  the device imports dma-bufs, by one extension or (=arm) another, see
 *                           dma_buf.h
 *   CLAVE_STUB_HARM="HOW CALL TEXT"  calls that crash or hang, see harm.h
 *   CLAVE_STUB_CLOCK=N      times of events are N seconds later
 *   CLAVE_STUB_HOSTILE=SEED some answers are untrue, see hostile.h
 *   CLAVE_STUB_LOG=FILE     at exit: the number of calls, and the objects that are still alive
 *
 * In the same process stub_arm(n, error) and stub_disarm() do what FAIL_AT does; stub_calls() and
 * stub_live() count calls and live objects, stub_waited() microseconds in clFinish; dma_buf.h's
 * count what is imported. */
#define _GNU_SOURCE
#include "test/stub_opencl/opencl.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
  CommandQueue_OBJECTS,
  Context_OBJECTS,
  MemObject_OBJECTS,
  Program_OBJECTS,
  Kernel_OBJECTS,
  Event_OBJECTS,
  N_OBJECTS
};
static const char *const object_names[N_OBJECTS] = {"queues",   "contexts", "memory",
                                                    "programs", "kernels",  "events"};

static int64_t waited_us;
static long n_calls, fail_at = LONG_MAX, lost_at = LONG_MAX, live[N_OBJECTS], fired;
static cl_int fail_code = CL_OUT_OF_RESOURCES;
static void *real_library;

static long number_of(const char *name, long absent) {
  const char *text = getenv(name);
  return text && *text ? atol(text) : absent;
}

static void stub_count(int kind, long change) {
  __atomic_fetch_add(&live[kind], change, __ATOMIC_RELAXED);
}

static void load_real(const char *name, void *function, size_t size) {
  void *from = real_library ? dlsym(real_library, name) : NULL;
  if (!from && real_library) fprintf(stderr, "stub OpenCL: the real library has no %s\n", name);
  memcpy(function, &from, size);
}

static void stub_wait_idle(cl_command_queue queue) {
  static cl_int(CL_API_CALL * finish)(cl_command_queue);
  if (!finish) load_real("clFinish", (void *)&finish, sizeof finish);
  finish(queue);
}

/* ---- calls that fail */

/* The program or the kernel that a call concerns, and its options or name; NULL if none. */
typedef struct subject {
  cl_program program;
  cl_kernel kernel;
  const char *text;
} subject;

/* True if the program's source contains the text. */
static bool has_source(cl_program program, const char *text) {
  cl_int (*query)(cl_program, cl_program_info, size_t, void *, size_t *);
  load_real("clGetProgramInfo", (void *)&query, sizeof query);
  size_t size = 0;
  if (query(program, CL_PROGRAM_SOURCE, 0, NULL, &size)) return false;
  char *source = calloc(1, size + 1);
  const bool found =
      source && !query(program, CL_PROGRAM_SOURCE, size, source, NULL) && strstr(source, text);
  free(source);
  return found;
}

/* True if the kernel's name contains the text. */
static bool has_name(cl_kernel kernel, const char *text) {
  cl_int (*query)(cl_kernel, cl_kernel_info, size_t, void *, size_t *);
  char name[256] = "";
  load_real("clGetKernelInfo", (void *)&query, sizeof query);
  return !query(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name - 1, name, NULL) && strstr(name, text);
}

static bool is_about(const subject *about, const char *text) {
  if (!text || !*text) return true;
  if (!about) return false;
  return (about->text && strstr(about->text, text)) ||
         (about->kernel && has_name(about->kernel, text)) ||
         (about->program && has_source(about->program, text));
}

static int is_hung;

static cl_int fail_call(const char *name) {
  __atomic_store_n(&fired, 1, __ATOMIC_RELAXED);
  const char *hangs = getenv("CLAVE_STUB_HANGS");
  if (hangs && !strcmp(hangs, name) && !__atomic_exchange_n(&is_hung, 1, __ATOMIC_RELAXED))
    (void)atexit(abort);
  return fail_code;
}

/* Counts a call. Returns CL_SUCCESS, or the error that it must return. */
static cl_int stub_call(const char *name, const subject *about) {
  while (__atomic_load_n(&is_hung, __ATOMIC_RELAXED)) pause();
  const char *only = getenv("CLAVE_STUB_FAIL_NAME");
  if (only && *only && !strstr(only, name)) return CL_SUCCESS;
  if (!is_about(about, getenv("CLAVE_STUB_FAIL_TEXT"))) return CL_SUCCESS;
  long n = __atomic_fetch_add(&n_calls, 1, __ATOMIC_RELAXED);
  return n == fail_at || n >= lost_at ? fail_call(name) : CL_SUCCESS;
}

#include "test/stub_opencl/dma_buf.h"
#include "test/stub_opencl/harm.h"
#include "test/stub_opencl/hostile.h"

/* ---- answers that are changed */

static int64_t stub_now_us(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static cl_int hook_clFinish(cl_int (*real)(cl_command_queue), cl_command_queue queue) {
  const int64_t begin = stub_now_us();
  const cl_int code = real(queue);
  __atomic_fetch_add(&waited_us, stub_now_us() - begin, __ATOMIC_RELAXED);
  return code;
}

static cl_int hook_clGetPlatformIDs(cl_int (*real)(cl_uint, cl_platform_id *, cl_uint *), cl_uint n,
                                    cl_platform_id *platforms, cl_uint *count) {
  if (real && number_of("CLAVE_STUB_PLATFORMS", 1)) return real(n, platforms, count);
  if (count) *count = 0;
  return CL_PLATFORM_NOT_FOUND_KHR;
}

/* Puts the variable's text, if there is one, ahead of an answer; size: of its memory, longer: how
 * much longer the answer is then, or NULL. */
static void begin_text(const char *variable, size_t size, char *value, size_t *longer) {
  const char *text = getenv(variable);
  size_t n = text ? strlen(text) : 0;
  if (longer) *longer += n;
  if (!value || strlen(value) + n >= size) return;
  memmove(value + n, value, strlen(value) + 1);
  memcpy(value, text, n);
}

static cl_int answer_text(const char *text, size_t size, void *value, size_t *size_ret) {
  const size_t n = strlen(text) + 1;
  if (size_ret) *size_ret = n;
  if (value && size < n) return CL_INVALID_VALUE;
  if (value) memcpy(value, text, n);
  return CL_SUCCESS;
}

typedef cl_int (*platform_query)(cl_platform_id, cl_platform_info, size_t, void *, size_t *);

static cl_int hook_clGetPlatformInfo(platform_query real, cl_platform_id platform,
                                     cl_platform_info what, size_t size, void *value,
                                     size_t *size_ret) {
  cl_int code = real(platform, what, size, value, size_ret);
  if (code == CL_SUCCESS && what == CL_PLATFORM_NAME)
    begin_text("CLAVE_STUB_PLATFORM", size, value, size_ret);
  return code;
}

/* Removes one word from a list of extensions. */
static void drop_extension(char *list, const char *word) {
  char *at = list ? strstr(list, word) : NULL;
  if (at) memset(at, ' ', strlen(word));
}

/* Appends words to a list of extensions that has `size` bytes. */
static void add_extensions(char *list, size_t size, const char *words) {
  if (strlen(list) + strlen(words) < size) strcat(list, words);
}

/* Text to append to the device's list of extensions. */
static const char *added_extensions(void) {
  if (imports_by("khr")) return " cl_khr_external_memory cl_khr_external_memory_dma_buf ";
  const char *more = getenv("CLAVE_STUB_EXTENSION");
  if (more) return more;
  return imports_by("arm") ? " cl_arm_import_memory cl_arm_import_memory_dma_buf " : "";
}

/* Limits the sizes of work-groups to the variable's value. */
static void bound_sizes(const char *variable, size_t *sizes, size_t count) {
  size_t most = (size_t)number_of(variable, LONG_MAX);
  for (size_t i = 0; i < count; i++)
    if (sizes[i] > most) sizes[i] = most;
}

static void change_info(cl_device_info what, size_t size, void *value) {
  const cl_device_type gpu = CL_DEVICE_TYPE_GPU;
  if (what == CL_DEVICE_TYPE && number_of("CLAVE_STUB_GPU", 0)) memcpy(value, &gpu, sizeof gpu);
  const long kind =
      number_of("CLAVE_STUB_LOCAL_TYPE", number_of("CLAVE_STUB_GPU", 0) ? CL_LOCAL : 0);
  const cl_device_local_mem_type local_type = (cl_device_local_mem_type)kind;
  if (what == CL_DEVICE_LOCAL_MEM_TYPE && kind) memcpy(value, &local_type, sizeof local_type);
  if (what == CL_DEVICE_EXTENSIONS) add_extensions(value, size, added_extensions());
  cl_bool no = CL_FALSE;
  cl_ulong limit = (cl_ulong)number_of("CLAVE_STUB_MAX_ALLOC", 0);
  cl_device_fp_config none = 0;
  if (what == CL_DEVICE_HOST_UNIFIED_MEMORY && number_of("CLAVE_STUB_SEPARATE", 0))
    memcpy(value, &no, sizeof no);
  if (what == CL_DEVICE_MAX_MEM_ALLOC_SIZE && limit && size >= sizeof limit)
    memcpy(value, &limit, sizeof limit);
  const char *driver = getenv("CLAVE_STUB_DRIVER");
  if (what == CL_DRIVER_VERSION && driver)
    memcpy(value, driver, strlen(driver) < size ? strlen(driver) : size - 1);
  if (what == CL_DEVICE_DOUBLE_FP_CONFIG && number_of("CLAVE_STUB_NO_FP64", 0))
    memcpy(value, &none, sizeof none);
  if (what == CL_DEVICE_SINGLE_FP_CONFIG && number_of("CLAVE_STUB_NO_FMA", 0))
    *(cl_device_fp_config *)value &= ~(cl_device_fp_config)CL_FP_FMA;
  if (what == CL_DEVICE_EXTENSIONS && number_of("CLAVE_STUB_NO_FP64", 0))
    drop_extension(value, "cl_khr_fp64");
  if (what == CL_DEVICE_EXTENSIONS && number_of("CLAVE_STUB_NO_FP16", 0))
    drop_extension(value, "cl_khr_fp16");
  cl_ulong local = (cl_ulong)number_of("CLAVE_STUB_LOCAL_MEM", 0);
  if (what == CL_DEVICE_LOCAL_MEM_SIZE && local) memcpy(value, &local, sizeof local);
  cl_uint width = (cl_uint)number_of("CLAVE_STUB_VECTOR", 0);
  if (what == CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT && width) memcpy(value, &width, sizeof width);
  if (what == CL_DEVICE_MAX_WORK_GROUP_SIZE || what == CL_DEVICE_MAX_WORK_ITEM_SIZES)
    bound_sizes("CLAVE_STUB_MAX_GROUP", value, size / sizeof(size_t));
}

static cl_int hook_clGetDeviceInfo(cl_int (*real)(cl_device_id, cl_device_info, size_t, void *,
                                                  size_t *),
                                   cl_device_id device, cl_device_info what, size_t size,
                                   void *value, size_t *size_ret) {
  const char *whole = what == CL_DEVICE_NAME      ? getenv("CLAVE_STUB_WHOLE_NAME")
                      : what == CL_DEVICE_VERSION ? getenv("CLAVE_STUB_VERSION")
                      : what == CL_DEVICE_PROFILE ? getenv("CLAVE_STUB_PROFILE")
                                                  : NULL;
  if (whole) return answer_text(whole, size, value, size_ret);
  cl_int code = real(device, what, size, value, size_ret);
  if (code == CL_SUCCESS && what == CL_DEVICE_EXTENSIONS)
    begin_text("CLAVE_STUB_EXTENSIONS", size, value, size_ret);
  if (code == CL_SUCCESS && what == CL_DEVICE_NAME)
    begin_text("CLAVE_STUB_NAME", size, value, size_ret);
  if (code == CL_SUCCESS && size_ret && what == CL_DEVICE_EXTENSIONS)
    *size_ret += strlen(added_extensions());
  if (code == CL_SUCCESS && value) change_info(what, size, value);
  return code;
}

static cl_mem hook_clCreateBuffer(cl_mem (*real)(cl_context, cl_mem_flags, size_t, void *,
                                                 cl_int *),
                                  cl_context context, cl_mem_flags flags, size_t size, void *host,
                                  cl_int *code) {
  long limit = number_of("CLAVE_STUB_MAX_ALLOC", 0);
  if (limit && size > (size_t)limit) {
    if (code) *code = CL_INVALID_BUFFER_SIZE;
    return NULL;
  }
  if (number_of("CLAVE_STUB_SEPARATE", 0) && flags & CL_MEM_USE_HOST_PTR)
    flags = (flags & ~(cl_mem_flags)CL_MEM_USE_HOST_PTR) | CL_MEM_COPY_HOST_PTR;
  return real(context, flags, size, host, code);
}

typedef cl_int (*work_group_query)(cl_kernel, cl_device_id, cl_kernel_work_group_info, size_t,
                                   void *, size_t *);

static cl_int hook_clGetKernelWorkGroupInfo(work_group_query real, cl_kernel kernel,
                                            cl_device_id device, cl_kernel_work_group_info what,
                                            size_t size, void *value, size_t *size_ret) {
  cl_int code = real(kernel, device, what, size, value, size_ret);
  if (code != CL_SUCCESS || !value || what != CL_KERNEL_WORK_GROUP_SIZE) return code;
  bound_sizes("CLAVE_STUB_MAX_GROUP", value, 1);
  bound_sizes("CLAVE_STUB_KERNEL_GROUP", value, 1);
  return code;
}

/* Returns the local memory that the kernel needs with its current arguments. */
static cl_ulong local_memory_of(cl_kernel kernel, cl_command_queue queue) {
  cl_int (*queue_info)(cl_command_queue, cl_command_queue_info, size_t, void *, size_t *);
  work_group_query group_info;
  load_real("clGetCommandQueueInfo", (void *)&queue_info, sizeof queue_info);
  load_real("clGetKernelWorkGroupInfo", (void *)&group_info, sizeof group_info);
  cl_device_id device = NULL;
  cl_ulong bytes = 0;
  queue_info(queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL);
  group_info(kernel, device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof bytes, &bytes, NULL);
  return bytes;
}

static cl_int hook_clEnqueueNDRangeKernel(
    cl_int (*real)(cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *,
                   const size_t *, cl_uint, const cl_event *, cl_event *),
    cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t *offset,
    const size_t *global, const size_t *local, cl_uint n_waits, const cl_event *waits,
    cl_event *event) {
  size_t most = LONG_MAX, items = 1;
  bound_sizes("CLAVE_STUB_MAX_GROUP", &most, 1);
  bound_sizes("CLAVE_STUB_KERNEL_GROUP", &most, 1);
  for (cl_uint i = 0; local && i < dims; i++) items *= local[i];
  if (items > most) return CL_INVALID_WORK_GROUP_SIZE;
  size_t grid = (size_t)number_of("CLAVE_STUB_MAX_GRID", LONG_MAX);
  for (cl_uint i = 1; local && i < dims; i++)
    if (global[i] / local[i] > grid) return CL_INVALID_GLOBAL_WORK_SIZE;
  cl_int refused = refuse_kernel(kernel);
  if (refused) return refused;
  cl_ulong limit = (cl_ulong)number_of("CLAVE_STUB_LOCAL_MEM", 0);
  if (limit && local_memory_of(kernel, queue) > limit) return CL_OUT_OF_RESOURCES;
  return real(queue, kernel, dims, offset, global, local, n_waits, waits, event);
}

static void *hook_clEnqueueMapBuffer(void *(*real)(cl_command_queue, cl_mem, cl_bool, cl_map_flags,
                                                   size_t, size_t, cl_uint, const cl_event *,
                                                   cl_event *, cl_int *),
                                     cl_command_queue queue, cl_mem memory, cl_bool blocks,
                                     cl_map_flags flags, size_t offset, size_t size,
                                     cl_uint n_waits, const cl_event *waits, cl_event *event,
                                     cl_int *code) {
  if (blocks || !number_of("CLAVE_STUB_BLOCKING_MAPS", 0))
    return real(queue, memory, blocks, flags, offset, size, n_waits, waits, event, code);
  if (code) *code = CL_INVALID_VALUE;
  return NULL;
}

static cl_int hook_clGetEventProfilingInfo(cl_int (*real)(cl_event, cl_profiling_info, size_t,
                                                          void *, size_t *),
                                           cl_event event, cl_profiling_info what, size_t size,
                                           void *value, size_t *size_ret) {
  cl_int code = real(event, what, size, value, size_ret);
  cl_ulong time;
  if (code != CL_SUCCESS || !value || size < sizeof time) return code;
  memcpy(&time, value, sizeof time);
  time += (cl_ulong)number_of("CLAVE_STUB_CLOCK", 0) * 1000000000u;
  memcpy(value, &time, sizeof time);
  return code;
}

#include "calls.inc" /* generated: one wrapper per function of cl.h */

/* ---- control */

__attribute__((constructor)) static void open_real(void) {
  const char *path = getenv("CLAVE_STUB_REAL");
  if (path && *path) real_library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  fail_at = number_of("CLAVE_STUB_FAIL_AT", LONG_MAX);
  lost_at = number_of("CLAVE_STUB_LOST_AT", LONG_MAX);
  fail_code = (cl_int)number_of("CLAVE_STUB_ERROR", CL_OUT_OF_RESOURCES);
  const char *seed = getenv("CLAVE_STUB_HOSTILE");
  if (seed && *seed) stub_seed(strtoull(seed, NULL, 10));
}

__attribute__((destructor)) static void write_log(void) {
  const char *path = getenv("CLAVE_STUB_LOG");
  FILE *file = path && *path ? fopen(path, "w") : NULL;
  if (!file) return;
  fprintf(file, "calls %ld\n", n_calls);
  for (int i = 0; i < N_OBJECTS; i++) fprintf(file, "%s %ld\n", object_names[i], live[i]);
  if (violations) fprintf(file, "violations %ld\n", violations);
  fclose(file);
}

int64_t stub_waited(void);
int64_t stub_waited(void) { return __atomic_load_n(&waited_us, __ATOMIC_RELAXED); }

void stub_arm(long n, int error);
void stub_arm(long n, int error) {
  n_calls = fired = 0;
  fail_at = n;
  fail_code = error;
}

long stub_calls(void);
/* Number of calls since stub_arm. */
long stub_calls(void) { return n_calls; }

int stub_disarm(void);
/* Returns true if the armed call occurred. */
int stub_disarm(void) {
  fail_at = LONG_MAX;
  return fired != 0;
}

long stub_live(void);
long stub_live(void) {
  long sum = 0;
  for (int i = 0; i < N_OBJECTS; i++) sum += live[i];
  return sum;
}
