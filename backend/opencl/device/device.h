#ifndef BACKEND_OPENCL_DEVICE_DEVICE_H
#define BACKEND_OPENCL_DEVICE_DEVICE_H
/* Devices and their memory: the loader's table of OpenCL functions, the list of devices and what is
 * known of each, an opened device, its buffers. */
#include "backend/opencl/opencl.h"
#include "base/threads.h"

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
  X(clEnqueueMarkerWithWaitList) X(clEnqueueBarrierWithWaitList) X(clGetEventInfo)                \
  X(clGetExtensionFunctionAddressForPlatform)
/* clang-format on */

typedef cl_mem(CL_API_CALL *create_with_properties_fn)(cl_context, const cl_ulong *properties,
                                                       cl_mem_flags, size_t, void *, cl_int *);
typedef struct cl_functions {
#define X(f) __typeof__(&f) f;
  CL_FUNCTIONS(X)
#undef X
  create_with_properties_fn create_with_properties; /* of OpenCL 3.0; or NULL */
} cl_functions;

/* The functions of libOpenCL.so.1, opened once per process and never closed (drivers keep threads).
 * NULL: there is no loader, *reason says which package has one. An error, when memory is out, is
 * not remembered. */
clave_status opencl_functions(const cl_functions **out, const char **reason) STATUS_CHECK;
/* "clFinish: CL_OUT_OF_RESOURCES (-5)"; CL_OUT_OF_HOST_MEMORY and the like become STATUS_NO_MEMORY,
 * a kernel that the driver does not take STATUS_UNSUPPORTED. */
clave_status opencl_status(cl_int code, const char *call) STATUS_CHECK;

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
  bool correct_division; /* -cl-fp32-correctly-rounded-divide-sqrt */
} device_entry;
typedef struct device_list {
  device_entry *entries; /* owned, as all here */
  backend_info *infos;
  int count;
  bool explained; /* why a platform has no device */
  bool has_files; /* a platform keeps files, see quirk_files */
  char *reason;   /* why count is 0; else the devices that were left out and why, or NULL */
} device_list;
/* Made once per process. */
clave_status opencl_device_list(const device_list **out) STATUS_CHECK;

/* True if `word` is one of `words`, which spaces separate. */
bool has_word(const char *words, const char *word);

/* ---------------------------------------------------------------- quirks.c */

/* Says why a device must not be used, or returns NULL. */
const char *quirk_refusal(const char *platform, const char *device);
/* The program that the compiler of a device's platform needs in a folder of PATH, or NULL. */
const char *quirk_linker(const char *platform, const char *device);
/* Explains why a platform has no device, or NULL. */
const char *quirk_empty(const char *platform);
/* True if a CPU device runs the kernels for GPUs. */
bool quirk_lanes(const char *platform, const char *device);
/* True if two threads must not launch kernels for the first time at the same time. */
bool quirk_first_alone(const char *platform);
/* True if a process builds one kernel at a time. */
bool quirk_serial_builds(const char *platform);
/* True if binaries are written when a session ends instead of after each run. */
bool quirk_slow_binaries(const char *platform);
/* The global size from which on a kernel is compiled anew, as for each local size; 0: never. */
size_t quirk_large_grid(const char *platform);
/* Names the libraries of a compiler in this process, for release_code, or returns NULL. */
const char *quirk_compiler(const char *platform);
/* The most groups of work-items in the second and third dimension of a launch. */
size_t quirk_most_groups(const char *platform);
/* The variable that names the folder where the platform keeps files, or NULL; and of the platform
 * that does. */
const char *quirk_files(const char *platform);
const char *quirk_files_variable(void);
/* quirk_images: constants are read faster as images. quirk_local: local memory is as slow as global
 * memory. */
bool quirk_images(const char *platform);
bool quirk_local(const char *platform, const char *device);
/* True if a map must wait before its memory is unmapped. */
bool quirk_blocking_maps(const char *platform);
/* The guard of the header that kernels_cl/support/builtins.h replaces, or NULL. */
const char *quirk_header(const char *platform);

/* ---------------------------------------------------------------- an opened device */

/* Classes whose results were right: sorted hashes. What does not fit is not in it, and is compared
 * again. */
enum { MAX_PROOFS = 1024 };
typedef struct proof_set {
  uint64_t *items; /* owned */
  uint32_t count;
  size_t capacity;
} proof_set;

typedef struct kernel_program kernel_program; /* program.h */
typedef struct builders builders;             /* program.h */

/* An instruction that kernels may use: absent, held back or wrong; not tried yet; right. */
typedef enum instruction_state {
  INSTRUCTION_UNUSED,
  INSTRUCTION_UNTRIED,
  INSTRUCTION_RIGHT
} instruction_state;

struct cl_device {
  backend base;
  const cl_functions *cl;
  const device_entry *entry;
  cl_context context;           /* held */
  cl_command_queue callers;     /* held: commands of streams follow those in it; or NULL */
  char *cache_dir, *kernel_dir; /* owned; NULL: none, embedded */
  void (*message)(void *ctx, const char *line); /* may be NULL */
  void *message_ctx;
  uint64_t platform_key[2]; /* of device, driver, CPU flags: part of every cache key */
  mutex *lock;              /* of the list of programs */
  mutex *note_lock;         /* of message */
  mutex *first_lock; /* held while a kernel is launched for the first time, see quirk_first_alone */
  bool first_alone;
  size_t large_grid; /* see quirk_large_grid */
  kernel_program **programs;
  int n_programs;
  size_t cap_programs;
  const void *binaries; /* borrowed: binaries.c's; NULL: there are none for this device */
  size_t binaries_size;
  bool cache_noted;       /* an unwritable cache is mentioned once */
  int index;              /* N of opencl:N */
  char weight_layout[32]; /* base.info's */
  builders *builders;     /* owned; NULL: the driver builds well in this process */
  void *blas;             /* clblast.c's */
  proof_set blas_proven;  /* CLBlast's launches, compared in this process. Under `lock` */
  bool blas_refused;      /* CLBlast failed: our own kernels run instead. Atomic */
  instruction_state instructions[4]; /* of the table in instructions.c. Under `lock` */
};

/* ---------------------------------------------------------------- device.c */

/* A line for whoever opened the device. */
void device_note(cl_device *device, const char *format, ...) STATUS_PRINTF(2, 3);

/* ---------------------------------------------------------------- adopt.c: the caller's objects */

enum { MAX_CONTEXT_DEVICES = 64 };
/* Its context, and its queue if there is one, in the device. */
clave_status adopt_context(cl_device *device, const opencl_options *options) STATUS_CHECK;
clave_status opencl_buffer_adopt(backend *backend, void *handle, size_t offset, size_t bytes,
                                 bool writable, memory_start *place, buffer **out) STATUS_CHECK;

/* ---------------------------------------------------------------- buffer.c */

typedef struct cl_buffer {
  buffer base;
  cl_mem memory;
  uint64_t serial;     /* no two of a process have the same, nor 0 */
  const char *host;    /* the memory that it is in place in; or NULL */
  bool is_closed;      /* to the host, which reads and writes a copy on the device */
  bool is_external;    /* runs acquire and release it */
  cl_mem image;        /* held: of its words of 16 bytes; or NULL. Under the device's lock */
  bool is_for_kernels; /* alone: not for commands that copy, fill or map */
} cl_buffer;
/* Takes over a reference to the memory, on failure too. */
clave_status opencl_buffer_of(cl_device *device, cl_mem memory, size_t bytes,
                              buffer **out) STATUS_CHECK;
clave_status opencl_buffer_create(backend *backend, size_t bytes, buffer **out) STATUS_CHECK;
clave_status opencl_buffer_wrap(backend *backend, const void *host, size_t bytes, bool writable,
                                buffer **out) STATUS_CHECK;
/* An image of its words of 16 bytes, made at the first call; the buffer's. */
clave_status opencl_buffer_image(cl_device *device, cl_buffer *buf, cl_mem *out) STATUS_CHECK;
void opencl_buffer_destroy(backend *backend, buffer *buf);

#endif
