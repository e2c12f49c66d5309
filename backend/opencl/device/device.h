#ifndef BACKEND_OPENCL_DEVICE_DEVICE_H
#define BACKEND_OPENCL_DEVICE_DEVICE_H
/* Devices and their memory: the loader's table of OpenCL functions, the list of devices and their
 * quirks, an opened device, its buffers. */
#include "backend/opencl/opencl.h"
#include "base/file.h"
#include "base/threads.h"

/* ---------------------------------------------------------------- libraries.c */

/* An opened OpenCL library. */
typedef struct opencl_library {
  library *library;                /* owned */
  char *file;                      /* owned: its name or path, as it was opened */
  void *(*load)(const char *name); /* returns functions that the library does not export, or NULL */
} opencl_library;
/* Looks up the functions of a library. If it returns UNSUPPORTED, the next file is tried. */
typedef clave_status (*opencl_library_check)(void *context, const opencl_library *library);
/* Opens the first of this platform's files that passes `check`. CLAVE_OPENCL_LIBRARY names a file
 * to open instead, or is "off". Fails with UNSUPPORTED and the reason if no file passes. */
clave_status opencl_library_open(opencl_library_check check, void *context,
                                 opencl_library *out) STATUS_CHECK;
void *opencl_library_find(const opencl_library *library, const char *name); /* NULL if absent */
void opencl_library_close(opencl_library *library); /* accepts a zeroed library */
/* True if any code in the process has loaded one of the platform's files. */
bool opencl_is_loaded(void);

/* ---------------------------------------------------------------- loader.c */

/* clang-format off */
#define CL_FUNCTIONS(X)                                                                           \
  X(clGetPlatformIDs) X(clGetPlatformInfo) X(clGetDeviceIDs) X(clGetDeviceInfo)                   \
  X(clCreateContext) X(clReleaseContext) X(clCreateCommandQueue) X(clReleaseCommandQueue)         \
  X(clCreateBuffer) X(clCreateImage) X(clReleaseMemObject) X(clSetMemObjectDestructorCallback)                      \
  X(clCreateProgramWithSource)                                                                    \
  X(clCreateProgramWithBinary) X(clBuildProgram) X(clGetProgramBuildInfo) X(clGetProgramInfo)     \
  X(clReleaseProgram) X(clCreateKernel) X(clReleaseKernel) X(clSetKernelArg)                      \
  X(clEnqueueNDRangeKernel) X(clEnqueueWriteBuffer) X(clEnqueueReadBuffer)                        \
  X(clEnqueueFillBuffer) X(clEnqueueCopyBuffer) X(clFlush) X(clFinish) X(clReleaseEvent)          \
  X(clGetEventProfilingInfo) X(clGetKernelWorkGroupInfo)                                          \
  X(clEnqueueMapBuffer) X(clEnqueueUnmapMemObject)                                                \
  X(clRetainContext) X(clGetContextInfo) X(clRetainCommandQueue) X(clGetCommandQueueInfo)         \
  X(clRetainMemObject) X(clGetMemObjectInfo)                                                      \
  X(clEnqueueMarkerWithWaitList) X(clEnqueueBarrierWithWaitList) X(clGetEventInfo) X(clWaitForEvents) \
  X(clGetExtensionFunctionAddressForPlatform)
/* clang-format on */

typedef cl_mem(CL_API_CALL *create_with_properties_fn)(cl_context, const cl_ulong *properties,
                                                       cl_mem_flags, size_t, void *, cl_int *);
typedef struct cl_functions {
#define X(f) __typeof__(&f) f;
  CL_FUNCTIONS(X)
#undef X
  create_with_properties_fn create_with_properties; /* OpenCL 3.0; NULL if missing */
  const char *file; /* name or path of the library, as it was opened */
} cl_functions;

/* Returns the functions of the OpenCL library, which is opened once per process and never closed,
 * since drivers keep threads. Without a library *out is NULL, and *reason says what was tried and
 * what to install. After an out-of-memory error the next call tries again. */
clave_status opencl_functions(const cl_functions **out, const char **reason) STATUS_CHECK;
/* Returns an error such as "clFinish: CL_OUT_OF_RESOURCES (-5)". CL_OUT_OF_HOST_MEMORY and
 * CL_MEM_OBJECT_ALLOCATION_FAILURE map to STATUS_NO_MEMORY, all others to STATUS_DEVICE. */
clave_status opencl_status(cl_int code, const char *call) STATUS_CHECK;
/* Returns the same text with STATUS_UNSUPPORTED, for calls that build, create or first launch a
 * kernel. Drivers refuse kernels with almost any code: compilers that fail answer "out of host
 * memory", "out of resources" or numbers that no header lists. If the device was lost instead, the
 * next copy or wait fails. */
clave_status opencl_refusal(cl_int code, const char *call) STATUS_CHECK;
/* Returns the code of a call that makes an object; an error also for success without an object. */
cl_int opencl_made(const void *object, cl_int code);

#define CL_TRY(call, name)                                      \
  do {                                                          \
    cl_int code_ = (call);                                      \
    if (code_ != CL_SUCCESS) return opencl_status(code_, name); \
  } while (0)

/* ---------------------------------------------------------------- devices.c */

typedef struct device_entry {
  cl_platform_id platform;
  cl_device_id id;
  backend_info info; /* strings owned */
  device_traits traits;
  bool correct_division; /* the device supports -cl-fp32-correctly-rounded-divide-sqrt */
} device_entry;
typedef struct device_list {
  device_entry *entries; /* owned, as are infos and reason */
  backend_info *infos;
  int count;
  bool explained; /* the reason says why a platform has no device */
  bool has_files; /* a platform keeps files on disk, see quirk_files */
  char *reason;   /* why count is 0; else which devices were left out and why, or NULL */
} device_list;
/* Returns the list, which is made once per process. */
clave_status opencl_device_list(const device_list **out) STATUS_CHECK;

/* ---------------------------------------------------------------- quirks.c */

/* Returns why a device must not be used, or NULL. */
const char *quirk_refusal(const char *platform, const char *device);
/* Returns the program in PATH that the platform's compiler needs, or NULL. */
const char *quirk_linker(const char *platform, const char *device);
/* Returns why a platform has no device, or NULL. */
const char *quirk_empty(const char *platform);
/* True if a CPU device runs the kernels for GPUs. */
bool quirk_lanes(const char *platform, const char *device);
/* True if two threads must not launch a kernel for the first time at once. */
bool quirk_first_alone(const char *platform);
/* True if a process can build only one kernel at a time. */
bool quirk_serial_builds(const char *platform);
/* True if binaries are written when a session ends instead of after each run. */
bool quirk_slow_binaries(const char *platform);
/* Returns the smallest global size for which the driver compiles a kernel again, or 0 for none. */
size_t quirk_large_grid(const char *platform);
/* Returns the names of the libraries of the driver's compiler, for release_code, or NULL. */
const char *quirk_compiler(const char *platform);
/* Returns the largest number of groups in the second and third dimension of a launch. */
size_t quirk_max_groups(const char *platform);
/* Returns the environment variable that names the folder where the platform keeps files, or NULL.
 * quirk_files_variable returns the variable of the platform that has one, or "". */
const char *quirk_files(const char *platform);
const char *quirk_files_variable(void);
/* quirk_images: true if constants are read faster as images. quirk_copies: true if host memory is
 * never used in place. */
bool quirk_images(const char *platform);
bool quirk_copies(const char *platform);
/* Returns the registers per lane, which all waves of a SIMD unit share, or UINT32_MAX if they
 * suffice for every kernel. */
uint32_t quirk_registers(const char *platform, const char *device);
/* Returns the maker's name, which completes device names without a model, or NULL. */
const char *quirk_maker(const char *platform);
/* Returns an estimate of the floats that a compute unit of a GPU processes at once. */
uint32_t quirk_unit_lanes(const char *platform, const char *device);
/* True if the device computes halves at twice the rate of floats, but does not report it. */
bool quirk_doubles_halves(const char *platform, const char *device);
/* True if a map must complete before its memory is unmapped. */
bool quirk_blocking_maps(const char *platform);
bool quirk_spins(const char *platform);
/* True if new programs need no trial in a child process. */
bool quirk_trusted(const char *platform);
/* True if `word` is one of the words of `words`, which are separated by spaces. */
bool has_word(const char *words, const char *word);
/* Build options of a kernel that its driver may refuse, and the consequence of a refusal. */
typedef struct build_options {
  const char *text;   /* each begins with a space; NULL: none */
  const char *header; /* a file of kernels_cl that precedes the kernel's file and has no effect
                         without the options; NULL: none */
  const char *refusal;
} build_options;
build_options quirk_build_options(const device_entry *entry, const char *kernel);

/* ---------------------------------------------------------------- an opened device */

/* Launch classes whose results were right, as sorted hashes. Classes beyond MAX_PROOFS are not
 * stored and are compared again. */
enum { MAX_PROOFS = 1024 };
typedef struct proof_set {
  uint64_t *items; /* owned */
  uint32_t count;
  size_t capacity;
} proof_set;

typedef struct kernel_program kernel_program; /* program.h */
typedef struct builders builders;             /* program.h */
typedef struct life_sign life_sign;           /* marks.h */

/* The state of an instruction of the device (instructions.c). UNUSED: absent, disabled or wrong. */
typedef enum instruction_state {
  INSTRUCTION_UNUSED,
  INSTRUCTION_UNTRIED,
  INSTRUCTION_RIGHT
} instruction_state;

struct cl_device {
  backend base;
  const cl_functions *cl;
  const device_entry *entry;
  cl_context context;            /* retained */
  cl_command_queue caller_queue; /* retained; runs wait for its commands; NULL if none */
  char *cache_dir, *kernel_dir;  /* owned; NULL: no cache on disk, embedded kernels */
  void (*message)(void *ctx, const char *line); /* may be NULL */
  void *message_ctx;
  uint64_t platform_key[2]; /* hash of device, driver and CPU flags; part of every cache key */
  mutex *lock;              /* protects the list of programs */
  mutex *note_lock;         /* serialises calls of message */
  mutex *first_lock;        /* held during a kernel's first launch, see quirk_first_alone */
  bool first_alone;
  size_t large_grid;         /* see quirk_large_grid */
  kernel_program **programs; /* owned, (n_programs). Under `lock` */
  int n_programs;
  size_t cap_programs;
  const void *binaries; /* borrowed: binaries for this device (binaries.h), or NULL */
  size_t binaries_size;
  bool cache_noted;       /* a note has reported an unwritable cache */
  int index;              /* N of opencl:N */
  char weight_layout[32]; /* base.info.weight_layout points here */
  builders *builders;     /* owned; NULL if no child processes build kernels */
  bool isolates;          /* new programs are first tried in a child process: trials.c */
  int build_timeout_s;
  uint64_t driver_stamp; /* changes with the driver's file */
  life_sign *sign;       /* owned; NULL until needed. Under `trial_lock` */
  mutex *trial_lock;     /* held while a program has a mark, so that a crash is attributed to it */
  void *blas;            /* owned by clblast.c */
  proof_set blas_proven; /* CLBlast's launch classes with right results. Under `lock` */
  bool is_lost;          /* a wait failed, so the driver is no longer called. Atomic */
  bool blas_accepted;    /* CLBlast has multiplied matrices. Atomic */
  bool blas_refused;     /* CLBlast failed, so our own kernels run instead. Atomic */
  instruction_state instructions[42]; /* indexed as the table in instructions.c. Under `lock` */
};

/* True once a wait has failed. The driver of a lost device may hang in any call, so the device's
 * objects are leaked instead of released. */
static inline bool device_is_lost(const cl_device *device) {
  return __atomic_load_n(&device->is_lost, __ATOMIC_ACQUIRE);
}

/* ---------------------------------------------------------------- device.c */

void device_set_lost(cl_device *device); /* device_is_lost is true from then on */
/* Hashes everything about the device that binaries depend on: platform, device, driver, size of
 * pointers, and the flags of a CPU. */
clave_status device_platform_key(const backend_info *info, uint64_t key[2]) STATUS_CHECK;
/* Sends a line to the message callback of the opened device, if there is one. */
void device_note(cl_device *device, const char *format, ...) STATUS_PRINTF(2, 3);

/* ---------------------------------------------------------------- adopt.c: the caller's objects */

enum { MAX_CONTEXT_DEVICES = 64 };
/* Checks and retains the caller's context and queue, if any, for the device. */
clave_status adopt_context(cl_device *device, const opencl_options *options) STATUS_CHECK;
/* Implements adopt of backend_sharing. */
clave_status opencl_buffer_adopt(backend *backend, void *handle, size_t offset, size_t bytes,
                                 bool writable, memory_start *place, buffer **out) STATUS_CHECK;

/* ---------------------------------------------------------------- buffer.c */

typedef struct cl_buffer {
  buffer base;
  cl_mem memory;
  uint64_t serial;     /* unique in the process, never 0 */
  const char *host;    /* host memory that the buffer uses in place, or NULL */
  bool is_closed;      /* inaccessible to the host: another buffer is read and written */
  bool is_external;    /* imported: runs acquire and release it */
  cl_mem image;        /* owned: image of texels of 16 bytes, or NULL. Under the device's lock */
  bool is_for_kernels; /* only kernels can use the memory, not commands that copy, fill or map */
} cl_buffer;
/* Makes a buffer of a cl_mem, whose reference it owns from then on, on failure too. */
clave_status opencl_buffer_of(cl_device *device, cl_mem memory, size_t bytes,
                              buffer **out) STATUS_CHECK;
clave_status opencl_buffer_create(backend *backend, size_t bytes, buffer **out) STATUS_CHECK;
clave_status opencl_buffer_wrap(backend *backend, const void *host, size_t bytes, bool writable,
                                buffer **out) STATUS_CHECK;
/* Returns the image of the buffer's texels (16 bytes), made once; the buffer owns it. */
clave_status opencl_buffer_image(cl_device *device, cl_buffer *buf, cl_mem *out) STATUS_CHECK;
void opencl_buffer_destroy(backend *backend, buffer *buf);

#endif
