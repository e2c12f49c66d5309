#ifndef BACKEND_OPENCL_DEVICE_H
#define BACKEND_OPENCL_DEVICE_H
/* Inside of the OpenCL backend: the loader's table, the device, buffers, the stream. Op families
 * see opencl.h only. */
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

/* Whether `word` is among words, which spaces separate. */
bool has_word(const char *words, const char *word);

/* ---------------------------------------------------------------- device.c */

/* A line for whoever opened the device. */
void device_note(cl_device *d, const char *format, ...) STATUS_PRINTF(2, 3);

/* ---------------------------------------------------------------- instructions.c */

/* Which instructions kernels may use, by CLAVE_ASM. */
clave_status instructions_choose(cl_device *device) STATUS_CHECK;

/* ---------------------------------------------------------------- quirks.c */

/* Why a device must not be used, or NULL. */
const char *quirk_refusal(const char *platform, const char *device);
/* The program that the compiler of a device's platform needs in a folder of PATH, or NULL. */
const char *quirk_linker(const char *platform, const char *device);
/* What it means that a platform has no device, or NULL. */
const char *quirk_empty(const char *platform);
/* Whether a CPU device wants the kernels of GPUs. */
bool quirk_lanes(const char *platform, const char *device);
/* Whether no two threads may launch a kernel for the first time at once. */
bool quirk_first_alone(const char *platform);
/* Whether one process builds one kernel at a time. */
bool quirk_serial_builds(const char *platform);
/* Whether binaries are kept when a session ends, not after each run. */
bool quirk_slow_binaries(const char *platform);
/* The global size from which on a kernel is compiled anew, as for each local size; 0: never. */
size_t quirk_large_grid(const char *platform);
/* The libraries of a compiler that lies in the process, for release_code, or NULL. */
const char *quirk_compiler(const char *platform);
/* The most groups of work-items in the second and third dimension of a launch. */
size_t quirk_most_groups(const char *platform);
/* The variable that names the folder where the platform keeps files, or NULL; and of the platform
 * that does. */
const char *quirk_files(const char *platform);
const char *quirk_files_variable(void);
/* Whether constants are read faster as images, and local memory is as slow as any other. */
bool quirk_images(const char *platform);
bool quirk_local(const char *platform, const char *device);
/* Whether a map must wait before what it mapped is unmapped. */
bool quirk_blocking_maps(const char *platform);
/* The guard of the header that kernels_cl/builtins.h replaces, or NULL. */
const char *quirk_header(const char *platform);

/* ---------------------------------------------------------------- sources.c */

/* Text of one kernel of kernels_cl/<stem>.cl, or of a generated source, with the includes written
 * out, and the kernel's head as args_write_head has it. */
clave_status source_of_kernel(const cl_device *d, const kernel_signature *g,
                              text *out) STATUS_CHECK;
clave_status source_expand(const cl_device *d, const text *generated, const kernel_signature *g,
                           text *out) STATUS_CHECK;

/* ---------------------------------------------------------------- shape_class.c */

/* A hash of the kernel's name, local size and the classes of the sizes it is launched with. */
uint64_t launch_class(const launch *l, const kernel_signature *g, const size_t global[3],
                      const size_t local[3]);

/* Classes whose results were right: sorted hashes. What does not fit is not in it, and is compared
 * again. */
enum { MAX_PROOFS = 1024 };
typedef struct proof_set {
  uint64_t *items; /* owned */
  uint32_t count;
  size_t capacity;
} proof_set;
bool proof_set_has(const proof_set *p, uint64_t launch_class);
void proof_set_add(proof_set *p, uint64_t launch_class);

/* ---------------------------------------------------------------- programs.c */

typedef struct kernel_program
    kernel_program; /* one built (or requested) program of a device; lives as long as the device */

typedef struct builders builders; /* builders.c */

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
  bool cache_noted;      /* an unwritable cache is mentioned once */
  int index;             /* N of opencl:N */
  char forms[32];        /* base.info's */
  builders *builders;    /* owned; NULL: the driver builds well in this process */
  void *blas;            /* clblast.c's */
  proof_set blas_proven; /* CLBlast's launches, compared in this process. Under `lock` */
  bool blas_refused;     /* CLBlast failed: our own kernels run instead. Atomic */
  instruction_state instructions[4]; /* of the table in instructions.c. Under `lock` */
};

/* What of a launch's sizes the driver compiles for, see quirk_large_grid: such launches have a
 * program of their own, since one made from a binary gives that binary again, without what was
 * compiled since. All 0 where a driver compiles once. */
typedef struct launch_variant {
  uint64_t local[3], is_large;
} launch_variant;
launch_variant variant_of(const cl_device *d, const size_t global[3], const size_t local[3]);

/* The program of a kernel and its options, or of a generated source. Made known, not built. */
clave_status program_find(cl_device *d, const launch *l, const launch_variant *v,
                          kernel_program **out) STATUS_CHECK;
/* Builds it unless that was done, from the cache on disk if it is there. UNSUPPORTED: the driver's
 * compiler does not take it, which is remembered. */
clave_status program_build(cl_device *d, kernel_program *p) STATUS_CHECK;
/* Its kernel, built if need be. The caller releases it. */
clave_status program_kernel(cl_device *d, kernel_program *p, cl_kernel *out) STATUS_CHECK;
const kernel_signature *program_signature(const kernel_program *p);
/* It was launched: PoCL's binary holds code now. True: that is not yet in the cache on disk. */
bool program_mark_run(kernel_program *p);
/* It is launched: true the first time in this process. */
bool program_first_launch(kernel_program *p);
/* Whether results of launches of that class were compared with the CPU backend's, now or when the
 * binary was kept. */
bool program_is_proven(kernel_program *p, uint64_t launch_class);
void program_prove(kernel_program *p, uint64_t launch_class);
bool program_is_built(const kernel_program *p);
bool program_was_tried(const kernel_program *p); /* it is built, or was refused */
void programs_save(
    cl_device *d); /* writes new binaries to the cache; never fails, may leave a note */
bool programs_save_next(cl_device *d); /* one of them; false: all are there */
/* Appends the binaries of all that have run in this process, as binaries.h has them. */
clave_status programs_append(cl_device *d, text *to) STATUS_CHECK;
void programs_destroy(cl_device *d);

/* Embedded files, written by embed.py (build/gen/kernels_embed.c). */
typedef struct kernel_file {
  const char *name; /* "softmax.cl" */
  const unsigned char *bytes;
  size_t size;
} kernel_file;
extern const kernel_file kernel_files[];
extern const int n_kernel_files;

/* ---------------------------------------------------------------- adopt.c: the caller's objects */

enum { MAX_CONTEXT_DEVICES = 64 };
/* Its context, and its queue if there is one, in the device. */
clave_status adopt_context(cl_device *d, const opencl_options *o) STATUS_CHECK;
clave_status opencl_buffer_adopt(backend *b, void *handle, size_t offset, size_t bytes,
                                 bool writable, memory_start *place, buffer **out) STATUS_CHECK;

/* ---------------------------------------------------------------- import.c: dma-bufs */

clave_status opencl_buffer_import(backend *b, int fd, size_t bytes, bool writable,
                                  buffer **out) STATUS_CHECK;
clave_status opencl_acquire(stream *s, buffer *imported) STATUS_CHECK;
clave_status opencl_release(stream *s, buffer *imported) STATUS_CHECK;
typedef struct cl_stream cl_stream;
/* Of buffers that no other command takes. */
clave_status copy_by_kernel(cl_stream *s, buffer *to, size_t to_offset, const buffer *from,
                            size_t from_offset, size_t bytes) STATUS_CHECK;

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
clave_status opencl_buffer_of(cl_device *d, cl_mem memory, size_t bytes, buffer **out) STATUS_CHECK;
clave_status opencl_buffer_create(backend *b, size_t bytes, buffer **out) STATUS_CHECK;
clave_status opencl_buffer_wrap(backend *b, const void *host, size_t bytes, bool writable,
                                buffer **out) STATUS_CHECK;
/* An image of its words of 16 bytes, made at the first call; the buffer's. */
clave_status opencl_buffer_image(cl_device *d, cl_buffer *buf, cl_mem *out) STATUS_CHECK;
void opencl_buffer_destroy(backend *b, buffer *buf);

/* ---------------------------------------------------------------- args.c, launch.c */

/* An argument as clSetKernelArg takes it. */
typedef struct raw_arg {
  union {
    int32_t i;
    int64_t l;
    float f;
    double d;
    int32_t i8[8];
    int64_t l8[8];
  } as;
  size_t size;
  const void *data; /* NULL: local memory */
} raw_arg;
/* The bytes of a value for a parameter; of buffers and what changes by run there are none. False:
 * it does not fit. */
bool launch_raw(const launch_value *v, arg_kind kind, bool wide, dtype compute, raw_arg *out);
/* Whether the values are those that the kernel takes; says which is not. */
clave_status launch_check(const launch *l, const kernel_signature *g, dtype compute) STATUS_CHECK;
void opencl_cache_destroy(backend *b, void *cache); /* of an instruction's programs */

/* ---------------------------------------------------------------- recorder.c, record.c */

/* A product that CLBlast runs: clblast.h. */
typedef struct blas_call blas_call;

typedef struct cl_recording cl_recording;

/* A launch but for the buffers. */
typedef struct recorded_launch {
  kernel_program *program; /* NULL: CLBlast's */
  blas_call *blas;         /* owned; or NULL */
  cl_recording *instead;   /* owned, of blas: what runs where CLBlast fails */
  const kernel_signature *signature;
  arg_places places;
  launch_value *values; /* owned (n_values), in the parameters' order */
  int n_values, dims;
  size_t global[3], local[3];
  size_t items[3]; /* those of `global` that the op asked for */
  bool wide;
  dtype compute;  /* F32, F64 or I64: what `real` is */
  uint64_t class; /* see launch_class */
} recorded_launch;

struct cl_recording {
  recording base;
  recorded_launch *launches; /* owned */
  int n;
  size_t capacity;
};

typedef struct epilogue_part epilogue_part; /* epilogue.c */
struct cl_recorder {
  cl_device *device;
  bool fast; /* kernels may round less exactly */
  cl_recording *out;
  epilogue_part *epilogue;  /* borrowed: of the node, until a launch has it; NULL */
  variant_choices *choices; /* node.choices */
};
/* The op's launches, and its epilogue, if none of them has it: in place, or out of scratch memory,
 * where it makes another dtype. */
clave_status record_with_epilogue(cl_recorder *s, const node *n) STATUS_CHECK;
clave_status launch_epilogue_alone(cl_recorder *s, const node *n) STATUS_CHECK;

/* Takes `blas` and `instead` over; copies values. */
clave_status recorder_add(cl_recorder *s, const recorded_launch *l,
                          const launch_value *values) STATUS_CHECK;
clave_status opencl_record(backend *b, const node *n, bool fast, recording **out) STATUS_CHECK;
void opencl_recording_destroy(backend *b, recording *r);
clave_status opencl_request(stream *s, const recording *r) STATUS_CHECK;
clave_status opencl_build_all(stream *s, build_progress progress, void *ctx) STATUS_CHECK;
bool opencl_is_built(stream *s, const recording *r);
clave_status opencl_is_unproven(stream *s, const recording *r, bool fills,
                                bool *unproven) STATUS_CHECK;
clave_status opencl_prove(stream *s, const recording *r, bool fills) STATUS_CHECK;

/* ---------------------------------------------------------------- orders: programs.c, builders.c
 */

typedef struct order order; /* build_messages.h */
/* A launch that will be enqueued: builders make it, too. */
void program_want(const cl_device *d, kernel_program *p, const recorded_launch *l);
/* What a builder needs to know. texts: kernel, options, source, each with its NUL. False: it is
 * built, or in the cache on disk, or memory is out. */
bool program_order(cl_device *d, kernel_program *p, order *o, text *texts);
clave_status program_of_order(cl_device *d, const order *o, const char *const texts[3],
                              kernel_program **out) STATUS_CHECK;

/* Child processes that build kernels, where a driver builds one at a time in a process: they fill
 * the driver's own files, from which this process then loads, and the cache on disk. Whatever they
 * do not do is done here, later. */
clave_status builders_create(builders **out) STATUS_CHECK;
void builders_destroy(builders *b); /* takes NULL */
/* Returns when the programs are built, or cannot be there: how many were tried. At most `most`
 * children; progress counts n steps more, which follow, may be called twice for a step, and once
 * it says false the children that still build are ended. */
int builders_build(cl_device *d, kernel_program *const *programs, int n, int most,
                   build_progress progress, void *ctx);
/* Waits until the children have kept all binaries. */
void builders_wait(cl_device *d);
/* A run is over: they may keep what they built. Takes leave of those that have ended. */
void builders_reap(cl_device *d);

/* ---------------------------------------------------------------- stream.c */

/* As in kernels_cl/common.h. */
typedef struct fault_record {
  cl_int kind;
  cl_uint node;
  cl_long value, low, high;
} fault_record;

typedef struct timed_event {
  uint32_t number;
  cl_event event;
} timed_event;

struct cl_stream {
  stream base;
  cl_device *device;
  const cl_functions *cl;
  cl_command_queue queue;
  cl_mem fault;       /* one fault_record */
  fault_record found; /* what finish reads of it */
  bool fault_armed;   /* a kernel that may write it was enqueued since the last finish */
  cl_event before;    /* owned: when the caller's commands before the run are over; or NULL */
  uint32_t number;    /* of the node being run */
  bool profiling;
  timed_event *events;
  size_t n_events, cap_events;
  bool unsaved;               /* a kernel variant ran that the cache on disk lacks */
  bool saves_late;            /* at the end */
  bool blocking_maps;         /* see quirk_blocking_maps */
  kernel_program **requested; /* for build_all */
  int n_requested;
  size_t cap_requested;
};

clave_status opencl_stream_create(backend *b, stream **out) STATUS_CHECK;
void opencl_stream_destroy(backend *b, stream *s);
/* transfers.c */
clave_status opencl_write(stream *s, buffer *to, size_t offset, const void *from,
                          size_t bytes) STATUS_CHECK;
clave_status opencl_read(stream *s, const buffer *from, size_t offset, void *to,
                         size_t bytes) STATUS_CHECK;
clave_status opencl_enqueue_write(stream *s, buffer *to, size_t offset, const void *from,
                                  size_t bytes) STATUS_CHECK;
clave_status opencl_enqueue_read(stream *s, const buffer *from, size_t offset, void *to,
                                 size_t bytes) STATUS_CHECK;
clave_status opencl_fill_zero(stream *s, buffer *to, size_t offset, size_t bytes) STATUS_CHECK;
clave_status opencl_copy_buffer(stream *s, buffer *to, size_t to_offset, const buffer *from,
                                size_t from_offset, size_t bytes) STATUS_CHECK;
clave_status opencl_begin(stream *s) STATUS_CHECK;
clave_status opencl_finish(stream *s, device_fault *fault) STATUS_CHECK;
clave_status opencl_profile(stream *s, bool on) STATUS_CHECK;
clave_status opencl_times(stream *s, uint32_t number, int64_t *start_ns,
                          int64_t *end_ns) STATUS_CHECK;
/* Where the next command's event goes, counted by n_events++ once it was enqueued; NULL unless
 * profiling. */
cl_event *stream_event(cl_stream *s, clave_status *st);

/* ---------------------------------------------------------------- submit.c */

clave_status opencl_prepare(stream *s, const recording *r, void **state) STATUS_CHECK;
clave_status opencl_run(stream *s, const recording *r, void **state, const run_operands *o,
                        uint32_t number) STATUS_CHECK;
void opencl_state_destroy(stream *s, void *state);

/* ---------------------------------------------------------------- clblast.c */

clave_status blas_run(cl_stream *s, const blas_call *call, const run_operands *o) STATUS_CHECK;
/* Returns true once the library has failed on the device; clave's own kernels multiply from then
 * on. */
bool blas_is_refused(const cl_device *d);
void blas_refuse(cl_device *d, const struct clave_error *why); /* leaves a note */
void clblast_close(cl_device *d);

#endif
