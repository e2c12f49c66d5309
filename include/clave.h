#ifndef CLAVE_H
#define CLAVE_H
/* clave: runs exported neural networks on any OpenCL device, or on the CPU.
 *
 *   clave_device *device;
 *   clave_program *program;
 *   clave_session *session;
 *   clave_device_open(NULL, NULL, &device);  // CLAVE_DEVICE, else the best there is
 *   clave_program_load("model.clv", NULL, &program);
 *   clave_session_create(program, device, NULL, &session);
 *   clave_session_set_input(session, "forward", 0, &input);
 *   clave_session_run(session, "forward");
 *   clave_session_output(session, "forward", 0, &output);
 *
 * Every function that can fail returns a status: NULL is good, else an error to read and free.
 * `out` arguments come last and are NULL after a failure. Arguments are borrowed for the call; what
 * a getter gives is borrowed from the object. create, open and load are paired with destroy, which
 * takes NULL. Devices and programs may be shared by threads; a session keeps its own alive, so they
 * may be destroyed in any order. One session is used by one thread at a time. The library prints
 * nothing, never exits, and follows no locale or rounding mode. Forked processes open their own.
 *
 * Structs that begin with `size` (options, info) grow at their end in later versions: the caller
 * sets size to the struct's sizeof, and fields beyond it are neither read nor written. A size
 * smaller than the first version's, 0 above all, is an error. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define CLAVE_API __attribute__((visibility("default")))
#define CLAVE_CHECK __attribute__((warn_unused_result))
#else
#define CLAVE_API
#define CLAVE_CHECK
#endif

typedef struct clave_error *clave_status;
typedef struct clave_device clave_device;
typedef struct clave_program clave_program;
typedef struct clave_session clave_session;

/* ---------------------------------------------------------------- errors, version */

typedef enum clave_code {
  CLAVE_OK = 0,
  CLAVE_INVALID = 1,     /* the caller, a file or an input is wrong */
  CLAVE_UNSUPPORTED = 2, /* right, but not something this build or device can do */
  CLAVE_NO_MEMORY = 3,
  CLAVE_DEVICE = 4, /* the device or its driver failed */
  CLAVE_IO = 5,
  CLAVE_CANCELLED = 6 /* by the caller: cancel, or an observer that returned false */
} clave_code;

CLAVE_API clave_code clave_status_code(const struct clave_error *status); /* CLAVE_OK for NULL */
CLAVE_API const char *clave_status_message(const struct clave_error *status); /* NULL: "" */
CLAVE_API void clave_status_free(clave_status status);                        /* accepts NULL */
CLAVE_API const char *clave_version(void);                                    /* "0.1.0" */

/* ---------------------------------------------------------------- tensors */

typedef enum clave_dtype {
  CLAVE_F32 = 0,
  CLAVE_F16 = 1,
  CLAVE_BF16 = 2,
  CLAVE_F64 = 3,
  CLAVE_I8 = 4,
  CLAVE_U8 = 5,
  CLAVE_I16 = 6,
  CLAVE_I32 = 7,
  CLAVE_I64 = 8,
  CLAVE_BOOL = 9,
  CLAVE_U16 = 10, /* this and those below: programs move and cast them, and compute nothing else */
  CLAVE_U32 = 11,
  CLAVE_U64 = 12,
  CLAVE_F8_E4M3 = 13, /* torch.float8_e4m3fn */
  CLAVE_F8_E5M2 = 14  /* torch.float8_e5m2 */
} clave_dtype;

enum { CLAVE_MAX_RANK = 8 };

/* Host memory seen as a tensor. strides count elements and may be 0 or negative. */
typedef struct clave_tensor {
  clave_dtype dtype;
  int rank;
  int64_t dims[CLAVE_MAX_RANK];
  int64_t strides[CLAVE_MAX_RANK];
  void *data; /* element [0, ..., 0] */
} clave_tensor;

CLAVE_API const char *clave_dtype_name(clave_dtype dtype); /* "F32"; NULL: there is no such dtype */
CLAVE_API size_t clave_dtype_size(clave_dtype dtype);      /* bytes; 0: there is no such dtype */
/* A row-major tensor over `data`. */
CLAVE_API clave_tensor clave_tensor_make(clave_dtype t, int rank, const int64_t *dims, void *data);

/* ---------------------------------------------------------------- devices */

typedef struct clave_device_info {
  size_t size;                /* sizeof(clave_device_info) */
  const char *kind;           /* "cpu" or "opencl" */
  const char *name;           /* one line */
  const char *platform;       /* platform name and version; "clave" for the CPU backend */
  const char *driver, *type;  /* type: "CPU", "GPU", "accelerator", "custom" */
  const char *extensions;     /* the optional ones we use, space separated */
  uint64_t memory, max_alloc; /* bytes; those of one buffer */
  uint32_t compute_units, clock_mhz;
  bool shares_host_memory;
  bool is_default;  /* of clave_devices_get: what an unset CLAVE_DEVICE picks */
  int index;        /* N of opencl:N; -1 for the CPU backend */
  uint32_t n_tuned; /* rows of its tuning table (clave_tune.h) */
} clave_device_info;

/* Every device, found once a process: OpenCL's in order, then the CPU backend. */
CLAVE_API clave_status clave_devices_count(int *count) CLAVE_CHECK;
/* Its texts live as long as the process. */
CLAVE_API clave_status clave_devices_get(int index, clave_device_info *info) CLAVE_CHECK;
/* Why there is no OpenCL device, and which package would help; NULL if there is one. */
CLAVE_API const char *clave_devices_hint(void);

/* A note of one line, perhaps by a thread that builds kernels. */
typedef void (*clave_message_fn)(void *ctx, const char *line);
typedef void (*clave_progress_fn)(void *ctx, const char *what, int done, int total);

typedef struct clave_device_options {
  size_t size;            /* sizeof(clave_device_options) */
  bool no_fallback;       /* an op the device cannot run is an error */
  int n_threads;          /* of the CPU backend; 0: CLAVE_THREADS, else all CPUs */
  const char *cache_dir;  /* of binaries; NULL: CLAVE_CACHE_DIR, else the XDG cache; "off": none */
  const char *kernel_dir; /* kernels' sources; NULL: CLAVE_KERNEL_DIR, else the embedded ones */
  clave_message_fn message;
  void *message_ctx;
  const void *binaries; /* of kernels, borrowed while the device lives: clave_opencl.h */
  size_t binaries_size;
} clave_device_options;

/* spec: "cpu", "opencl", "opencl:N", "opencl:TEXT", or a comma list, the first preferred; NULL:
 * CLAVE_DEVICE, and if that is unset or empty, "opencl" if there is a GPU or an accelerator, else
 * "cpu", with a note where there is no OpenCL device at all. The CPU backend takes what the listed
 * devices cannot run unless no_fallback is set. Errors list the valid values. */
CLAVE_API clave_status clave_device_open(const char *spec, const clave_device_options *options,
                                         clave_device **out) CLAVE_CHECK;
/* Another owner: the device goes with the last of its owners' clave_device_destroy, called by any
 * thread. Gives the same device; takes NULL. */
CLAVE_API clave_device *clave_device_retain(clave_device *device);
CLAVE_API void clave_device_destroy(clave_device *device);
/* Of the preferred one. Its texts are borrowed from the device. */
CLAVE_API clave_status clave_device_get_info(const clave_device *device,
                                             clave_device_info *info) CLAVE_CHECK;

/* ---------------------------------------------------------------- programs */

typedef struct clave_program_options {
  size_t size;        /* sizeof(clave_program_options) */
  const char *consts; /* safetensors of a .json program; NULL: consts.safetensors beside it */
} clave_program_options;

/* Reads a .clv or a .json program and verifies it whole. The file stays mapped: where it is changed
 * in place or cut short meanwhile, sessions and runs fail (CLAVE_IO). See clave_host.h: SIGBUS. */
CLAVE_API clave_status clave_program_load(const char *path, const clave_program_options *options,
                                          clave_program **out) CLAVE_CHECK;
/* From the FlatBuffers form and the constants in slot order: contiguous, borrowed, unchanged while
 * the program lives (but see clave_program_own_constants). They are hashed where it is saved. */
CLAVE_API clave_status clave_program_create(const void *flatbuffer, size_t size,
                                            const clave_tensor *constants, size_t n_constants,
                                            clave_program **out) CLAVE_CHECK;
/* By the ending: .clv, or .json with consts.safetensors beside it. Written whole or not at all;
 * refuses to replace another program's constants. */
CLAVE_API clave_status clave_program_save(const clave_program *program,
                                          const char *path) CLAVE_CHECK;
/* Checks the content hashes of a loaded program's constants (load checks the structure only for
 * .clv). Nothing to check where the program was made in memory. */
CLAVE_API clave_status clave_program_check_hashes(const clave_program *program) CLAVE_CHECK;
CLAVE_API void clave_program_destroy(clave_program *program);

typedef enum clave_slot_kind {
  CLAVE_SLOT_CONSTANT,
  CLAVE_SLOT_INPUT,
  CLAVE_SLOT_OUTPUT,
  CLAVE_SLOT_STATE,
  CLAVE_SLOT_TEMPORARY
} clave_slot_kind;

enum { CLAVE_DYNAMIC = -1 }; /* a dimension known at run time only */
/* How a tensor's bytes are laid out; only constants are other than plain. */
typedef enum clave_encoding {
  CLAVE_ENCODING_PLAIN = 0,  /* each element by itself, row-major */
  CLAVE_ENCODING_GROUPS = 2, /* codes of 2 to 8 bits, in groups that share a scale */
  CLAVE_ENCODING_BLOCKS = 3  /* one of llama.cpp's blocks */
} clave_encoding;

/* A tensor slot of the program, or a host scalar argument (is_scalar: I64, F64 or BOOL, rank 0). */
typedef struct clave_tensor_info {
  size_t size; /* sizeof(clave_tensor_info) */
  const char *name;
  clave_dtype dtype;
  int rank;
  int64_t dims[CLAVE_MAX_RANK]; /* CLAVE_DYNAMIC where known at run time only */
  int64_t min_dims[CLAVE_MAX_RANK], max_dims[CLAVE_MAX_RANK]; /* inclusive; INT64_MAX: none */
  const char *dim_names[CLAVE_MAX_RANK];                      /* of dynamic ones, else NULL */
  clave_slot_kind kind;
  bool is_scalar;
  uint32_t slot;
  clave_encoding encoding;
  char encoding_text[64]; /* "int4:32:zeros", "Q4_K"; "plain" */
} clave_tensor_info;

/* What a program holds besides its methods. */
typedef struct clave_program_info {
  size_t size;                     /* sizeof(clave_program_info) */
  const char *producer, *metadata; /* metadata: JSON text or "" */
  uint32_t version;
  uint32_t n_methods, n_slots, n_constants, n_state;
  uint64_t constant_bytes, state_bytes;
} clave_program_info;
typedef struct clave_method_info {
  size_t size; /* sizeof(clave_method_info) */
  const char *name, *metadata;
  uint32_t n_inputs, n_outputs, n_nodes;
} clave_method_info;
enum { CLAVE_MAX_OPERANDS = 64 };
typedef struct clave_node_info {
  size_t size;                /* sizeof(clave_node_info) */
  const char *op;             /* "softmax" */
  const char *name;           /* the source graph's node */
  const char *detail;         /* the attributes, one line */
  uint32_t n_reads, n_writes; /* at most CLAVE_MAX_OPERANDS are listed */
  uint32_t reads[CLAVE_MAX_OPERANDS], writes[CLAVE_MAX_OPERANDS]; /* slots */
} clave_node_info;

CLAVE_API clave_status clave_program_get_info(const clave_program *program,
                                              clave_program_info *info) CLAVE_CHECK;
CLAVE_API clave_status clave_program_method(const clave_program *program, uint32_t index,
                                            clave_method_info *info) CLAVE_CHECK;
CLAVE_API clave_status clave_program_input(const clave_program *program, const char *method,
                                           uint32_t index, clave_tensor_info *info) CLAVE_CHECK;
CLAVE_API clave_status clave_program_output(const clave_program *program, const char *method,
                                            uint32_t index, clave_tensor_info *info) CLAVE_CHECK;
CLAVE_API clave_status clave_program_slot(const clave_program *program, uint32_t slot,
                                          clave_tensor_info *info) CLAVE_CHECK;
CLAVE_API clave_status clave_program_node(const clave_program *program, const char *method,
                                          uint32_t index, clave_node_info *info) CLAVE_CHECK;
/* State tensor `index`, below clave_program_info.n_state. */
CLAVE_API clave_status clave_program_state(const clave_program *program, uint32_t index,
                                           clave_tensor_info *info) CLAVE_CHECK;
/* What a .clv carries beside the program, by a tag of four letters ("TOKN": a tokenizer's file), in
 * place; NULL and 0 if it is not there. */
CLAVE_API const void *clave_program_section(const clave_program *program, const char *tag,
                                            size_t *size);
/* Adds or replaces one, saved too (copied); data NULL: removes it. Before the program is shared. */
CLAVE_API clave_status clave_program_set_section(clave_program *program, const char *tag,
                                                 const void *data, size_t size) CLAVE_CHECK;
/* Replaces clave_program_info.metadata; JSON text or "". Before the program is shared. */
CLAVE_API clave_status clave_program_set_metadata(clave_program *program,
                                                  const char *metadata) CLAVE_CHECK;
/* The bytes of a constant slot, in place. */
CLAVE_API clave_status clave_program_constant(const clave_program *program, uint32_t slot,
                                              clave_tensor *out) CLAVE_CHECK;

/* ---------------------------------------------------------------- sessions
 * `method` names an entry point of the program; NULL is the first one. */

/* Called after each instruction with what it wrote, copied to the host; false stops the run. */
typedef bool (*clave_observe_fn)(void *ctx, uint32_t node, uint32_t slot, const clave_tensor *out);

/* What a run does whose device has yet to build kernels for it. */
typedef enum clave_warm_up {
  CLAVE_WARM_UP_WAIT = 0,      /* waits for them: the same numbers in every process */
  CLAVE_WARM_UP_BACKGROUND = 1 /* is answered by the CPU backend, while a thread builds them.
                                  Between runs, once they are there, the session moves to the device
                                  with its state, inputs and outputs, and waits from then on. What
                                  goes wrong before leaves it on the CPU backend, with a note. It
                                  must be destroyed before the process ends */
} clave_warm_up;

typedef struct clave_session_options {
  size_t size;            /* sizeof(clave_session_options) */
  uint64_t memory_budget; /* bytes; 0: CLAVE_MEMORY_BUDGET, else the device's memory */
  bool poison;            /* fill dead memory with NaN patterns (debugging) */
  bool profile;           /* time every op, for clave_session_write_profile */
  bool fast; /* CLAVE_PRECISION=fast: fuse a * b + c, flush subnormals, divide inexactly, round
                factors to 8 bits or BF16 (docs/export.md) */
  clave_progress_fn progress; /* building kernels */
  void *progress_ctx;
  bool unfused;   /* run every node by itself, for comparison node by node */
  bool unchecked; /* CLAVE_SELF_CHECK=off: do not compare kernels with the CPU backend when they
                     first run at sizes of a class. =strict: wrong results are an error */
  bool (*cancel)(void *ctx); /* asked before ops, at the end, and by any thread between builds */
  void *cancel_ctx;
  uint64_t seed;             /* of random ops, see docs/random.md */
  clave_warm_up warm_up;     /* BACKGROUND needs a device that was opened with fallback */
  bool allow_custom_kernels; /* run the program's own, which can do anything (docs/custom_ops.md) */
  int wide;   /* 1: fast, yet values between layers are as the program has them (docs/export.md) */
  int strict; /* 1: not fast, whatever CLAVE_PRECISION says */
} clave_session_options;
CLAVE_API clave_status clave_session_create(clave_program *program, clave_device *device,
                                            const clave_session_options *options,
                                            clave_session **out) CLAVE_CHECK;
CLAVE_API void clave_session_destroy(clave_session *session);
/* Copies the tensor in (it may be strided). Errors name the input, what it is and should be. */
CLAVE_API clave_status clave_session_set_input(clave_session *session, const char *method,
                                               uint32_t index,
                                               const clave_tensor *value) CLAVE_CHECK;
/* As set_input, but each run reads the tensor where it is: it must live, and not change during a
 * run, until set or bound again; NULL: no input. Devices that share the host's memory do not copy
 * it at all if it is contiguous, 64 KB or more, and aligned (64 bytes mostly do, 4096 always). */
CLAVE_API clave_status clave_session_bind_input(clave_session *session, const char *method,
                                                uint32_t index,
                                                const clave_tensor *value) CLAVE_CHECK;
/* Runs write the result to `data`, likewise; NULL: to the session's own memory. More than `size`
 * bytes fail the run. Results are those of the inputs as they were: inputs may share memory, and
 * outputs lie on inputs, but not on other outputs or constants. In a device's: clave_opencl.h. */
CLAVE_API clave_status clave_session_bind_output(clave_session *session, const char *method,
                                                 uint32_t index, void *data,
                                                 size_t size) CLAVE_CHECK;
/* Runs a method on its inputs. A run that fails on bad data may leave state changed, in part. */
CLAVE_API clave_status clave_session_run(clave_session *session, const char *method) CLAVE_CHECK;
/* The kind of the device that the last good run was for: "opencl", or "cpu" where the CPU backend
 * answered for it (warm_up); NULL before. clave_session_placement tells of each node. */
CLAVE_API const char *clave_session_answered_by(const clave_session *session);
/* The last run's result: contiguous; the session's, until its next run, or where it was bound. */
CLAVE_API clave_status clave_session_output(clave_session *session, const char *method,
                                            uint32_t index, clave_tensor *out) CLAVE_CHECK;
/* State (KV caches, mutated buffers) back to its initial value, random numbers to their first. */
CLAVE_API clave_status clave_session_reset(clave_session *session) CLAVE_CHECK;

/* State tensor `index` (clave_program_state), row-major; size: its bytes. */
CLAVE_API clave_status clave_session_read_state(clave_session *session, uint32_t index, void *data,
                                                size_t size) CLAVE_CHECK;
CLAVE_API clave_status clave_session_write_state(clave_session *session, uint32_t index,
                                                 const void *data, size_t size) CLAVE_CHECK;
/* Bytes [from, from + size) of it; copy_state_part: within it, to `to`, without overlap. */
CLAVE_API clave_status clave_session_read_state_part(clave_session *session, uint32_t index,
                                                     size_t from, void *data,
                                                     size_t size) CLAVE_CHECK;
CLAVE_API clave_status clave_session_write_state_part(clave_session *session, uint32_t index,
                                                      size_t from, const void *data,
                                                      size_t size) CLAVE_CHECK;
CLAVE_API clave_status clave_session_copy_state_part(clave_session *session, uint32_t index,
                                                     size_t from, size_t to,
                                                     size_t size) CLAVE_CHECK;
/* An open dimension of state (clave_program_state), the largest in a new session, becomes n. What
 * state holds stays, as far as there is room, with zeros behind it. */
CLAVE_API clave_status clave_session_resize(clave_session *session, const char *size,
                                            int64_t n) CLAVE_CHECK;
/* All state, its sizes, and how far the random numbers are, between sessions of one program. */
CLAVE_API clave_status clave_session_copy_state(clave_session *to, clave_session *from) CLAVE_CHECK;

typedef struct clave_memory_info {
  size_t size;                          /* sizeof(clave_memory_info) */
  uint64_t constant_bytes, state_bytes; /* on the device; constants with what is packed of them */
  uint64_t arena_bytes;                 /* planned for the last run; 0 before */
  uint64_t constant_bytes_in_place;     /* of the constants: mapped, not copied */
} clave_memory_info;
CLAVE_API clave_status clave_session_memory(const clave_session *session,
                                            clave_memory_info *info) CLAVE_CHECK;
CLAVE_API clave_status clave_session_observe(clave_session *session, clave_observe_fn observe,
                                             void *ctx) CLAVE_CHECK; /* NULL: off */
/* The last run as a trace for Perfetto or chrome://tracing (JSON). Needs options.profile. */
CLAVE_API clave_status clave_session_write_profile(const clave_session *session,
                                                   const char *path) CLAVE_CHECK;

/* ---------------------------------------------------------------- placement
 * Which device runs which node, and why. Read-only once made: threads may share one. */

typedef struct clave_placement clave_placement;
typedef struct clave_placement_info {
  size_t size;        /* sizeof(clave_placement_info) */
  const char *op;     /* "softmax" */
  const char *name;   /* the source graph's node */
  const char *where;  /* "opencl" or "cpu": a device of that kind; "none": no device given; "host":
                         sizes and other scalars; "view": nothing to run; "control": its bodies'
                         nodes have places; "reference": so of a custom op; "fused": in `into` */
  const char *reason; /* why not on the preferred device, one line; NULL: it is there */
  bool supported;     /* the preferred device runs it, or it needs none */
  uint64_t into;      /* the node that runs it: its own number, or that of one it is fused with */
} clave_placement_info;

/* Where a session of this program on these devices would run each node: nothing is built or run,
 * and what no device takes is no error. options: as for the session (NULL: the defaults); unfused
 * asks for every node by itself. Self-checks may later move what a device gets wrong. */
CLAVE_API clave_status clave_program_supported(clave_program *program, clave_device *device,
                                               const clave_session_options *options,
                                               clave_placement **out) CLAVE_CHECK;
/* Where it runs them, as of its last run. */
CLAVE_API clave_status clave_session_placement(const clave_session *session,
                                               clave_placement **out) CLAVE_CHECK;
/* Node `index` of a method (NULL: the first), below clave_method_info.n_nodes. Texts are borrowed
 * from the placement. */
CLAVE_API clave_status clave_placement_get(const clave_placement *placement, const char *method,
                                           uint32_t index, clave_placement_info *info) CLAVE_CHECK;
CLAVE_API void clave_placement_destroy(clave_placement *placement);

#ifdef __cplusplus
}
#endif
#endif
