#ifndef CLAVE_H
#define CLAVE_H
/* clave: runs exported neural networks on any OpenCL device, or on the CPU.
 *
 *   clave_device *device; clave_program *program; clave_session *session;
 *   clave_device_open(NULL, NULL, &device);  // CLAVE_DEVICE, else the best device found
 *   clave_program_load("model.clv", NULL, &program);
 *   clave_session_create(program, device, NULL, &session);
 *   clave_session_set_input(session, "forward", 0, &input);
 *   clave_session_run(session, "forward");
 *   clave_session_output(session, "forward", 0, &output);
 *
 * Every function that can fail returns a status: NULL on success, else an error that the caller
 * reads and frees. `out` parameters come last and are NULL after a failure. Arguments are borrowed
 * for the call; results of getters are borrowed from the object. Objects of create, open and load
 * are released by destroy, which accepts NULL. Threads may share devices and programs, but only one
 * thread at a time may use a session. A session keeps its program and device alive, so the three
 * may be destroyed in any order. The library prints nothing, never exits, and does not depend on
 * the locale or the rounding mode. A forked process must open its own devices.
 *
 * Structs that begin with `size` (options, info) grow at their end in later versions. The caller
 * sets size to the struct's sizeof; the library neither reads nor writes fields beyond it. A size
 * smaller than the struct of the first version (0, for example) is an error. */
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
  CLAVE_UNSUPPORTED = 2, /* valid, but this build or device cannot do it */
  CLAVE_NO_MEMORY = 3,
  CLAVE_DEVICE = 4, /* the device or its driver failed */
  CLAVE_IO = 5,
  CLAVE_CANCELLED = 6 /* by the caller: `cancel` returned true, or an observer false */
} clave_code;

CLAVE_API clave_code clave_status_code(const struct clave_error *status);     /* NULL: CLAVE_OK */
CLAVE_API const char *clave_status_message(const struct clave_error *status); /* NULL: "" */
CLAVE_API void clave_status_free(clave_status status);                        /* accepts NULL */
CLAVE_API const char *clave_version(void);                                    /* "0.2.0" */

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
  CLAVE_U16 = 10, /* this dtype and those below can only be moved and cast */
  CLAVE_U32 = 11,
  CLAVE_U64 = 12,
  CLAVE_F8_E4M3 = 13, /* torch.float8_e4m3fn */
  CLAVE_F8_E5M2 = 14  /* torch.float8_e5m2 */
} clave_dtype;

enum { CLAVE_MAX_RANK = 8 };

/* A view of host memory as a tensor. Strides count elements and may be 0 or negative. */
typedef struct clave_tensor {
  clave_dtype dtype;
  int rank;
  int64_t dims[CLAVE_MAX_RANK];
  int64_t strides[CLAVE_MAX_RANK];
  void *data; /* element [0, ..., 0] */
} clave_tensor;

CLAVE_API const char *clave_dtype_name(clave_dtype dtype); /* "F32"; NULL if invalid */
CLAVE_API size_t clave_dtype_size(clave_dtype dtype);      /* bytes; 0 if invalid */
/* Returns a row-major tensor over `data`; rank is clamped to 0 to CLAVE_MAX_RANK. */
CLAVE_API clave_tensor clave_tensor_make(clave_dtype t, int rank, const int64_t *dims, void *data);

/* ---------------------------------------------------------------- devices */

typedef struct clave_device_info {
  size_t size;                /* sizeof(clave_device_info) */
  const char *kind, *name;    /* kind: "cpu" or "opencl"; name: one line */
  const char *platform;       /* platform name and version; "clave" for the CPU backend */
  const char *driver, *type;  /* type: "CPU", "GPU", "accelerator" or "custom" */
  const char *extensions;     /* optional extensions that clave uses, space-separated */
  uint64_t memory, max_alloc; /* bytes; max_alloc: largest buffer */
  uint32_t compute_units, clock_mhz;
  bool shares_host_memory, is_default; /* opened by default (clave_devices_get only) */
  int index;                           /* N of opencl:N; -1 for the CPU backend */
  uint32_t n_tuned;                    /* rows of its tuning table (clave_tune.h) */
  const char *version; /* CL_DEVICE_VERSION: "OpenCL 3.0 ..."; "" for the CPU backend */
  bool is_trusted;     /* new kernels are not tried in a child process unless CLAVE_ISOLATION=on */
} clave_device_info;

/* Counts the devices, which are found once per process: OpenCL devices, then the CPU backend. */
CLAVE_API clave_status clave_devices_count(int *count) CLAVE_CHECK;
/* Describes device `index`. The texts live as long as the process. */
CLAVE_API clave_status clave_devices_get(int index, clave_device_info *info) CLAVE_CHECK;
/* Explains why no OpenCL device was found and which package would help; NULL if one was found. */
CLAVE_API const char *clave_devices_hint(void);

/* Receives a note of one line; may be called by a thread that builds kernels. */
typedef void (*clave_message_fn)(void *ctx, const char *line);
typedef void (*clave_progress_fn)(void *ctx, const char *what, int done, int total);

typedef struct clave_device_options {
  size_t size;            /* sizeof(clave_device_options) */
  bool no_fallback;       /* an op that the device cannot run is an error */
  int n_threads;          /* for the CPU backend; 0: CLAVE_THREADS, else one per CPU */
  const char *cache_dir;  /* kernel binaries; NULL: CLAVE_CACHE_DIR, else XDG's; "off": none */
  const char *kernel_dir; /* kernel sources; NULL: CLAVE_KERNEL_DIR, else the embedded ones */
  clave_message_fn message;
  void *message_ctx;
  const void *binaries; /* see clave_device_save_binaries; borrowed while the device lives */
  size_t binaries_size;
} clave_device_options;

/* Opens the devices of spec: "cpu", "opencl", "opencl:N", "opencl:TEXT" (part of a name), or a
 * comma-separated list, the preferred one first. NULL means CLAVE_DEVICE; if that is unset or
 * empty, the best GPU or accelerator that can be opened, else "cpu". The CPU backend runs the ops
 * that the listed devices cannot run, unless no_fallback is set. Errors list the valid values. */
CLAVE_API clave_status clave_device_open(const char *spec, const clave_device_options *options,
                                         clave_device **out) CLAVE_CHECK;
/* Adds an owner and returns the device; accepts NULL. Each owner calls clave_device_destroy. */
CLAVE_API clave_device *clave_device_retain(clave_device *device);
CLAVE_API void clave_device_destroy(clave_device *device);
/* Describes the preferred device. The texts are borrowed from the device. */
CLAVE_API clave_status clave_device_get_info(const clave_device *device,
                                             clave_device_info *info) CLAVE_CHECK;

/* ---------------------------------------------------------------- programs */

typedef struct clave_program_options {
  size_t size;          /* sizeof(clave_program_options) */
  const char *consts;   /* safetensors of a .json program; NULL: consts.safetensors beside it */
  int64_t max_context;  /* above 0: limit of an .onnx as by clave_llm_import, or of a .gguf */
  bool has_tokenizer;   /* the caller has a tokenizer in place of the one in a .gguf */
  const char *kv;       /* element type of a .gguf's caches: f32, f16 (NULL), bf16 or int8 */
  int64_t prompt_piece; /* tokens of a prompt that its layers with a window run at once; 0: 256 */
} clave_program_options;

/* Reads a .clv or a .json program and verifies all of it. The file stays mapped: if it is changed
 * in place or cut short, later runs and new sessions fail (CLAVE_IO; SIGBUS: see clave_host.h). */
CLAVE_API clave_status clave_program_load(const char *path, const clave_program_options *options,
                                          clave_program **out) CLAVE_CHECK;
/* Makes a program from its FlatBuffers encoding and its constants in slot order. These are
 * contiguous and borrowed; they may change only after clave_program_own_constants. */
CLAVE_API clave_status clave_program_create(const void *flatbuffer, size_t size,
                                            const clave_tensor *constants, size_t n_constants,
                                            clave_program **out) CLAVE_CHECK;
/* Writes a .clv, or a .json with consts.safetensors beside it, by the extension of path; a failure
 * leaves no partial file. Refuses to replace another program's constants. */
CLAVE_API clave_status clave_program_save(const clave_program *program,
                                          const char *path) CLAVE_CHECK;
/* Checks the content hashes of a loaded program's constants; for a .clv, load checks only the
 * structure. A program that was made in memory has no hashes to check. */
CLAVE_API clave_status clave_program_check_hashes(const clave_program *program) CLAVE_CHECK;
CLAVE_API void clave_program_destroy(clave_program *program);

typedef enum clave_slot_kind {
  CLAVE_SLOT_CONSTANT,
  CLAVE_SLOT_INPUT,
  CLAVE_SLOT_OUTPUT,
  CLAVE_SLOT_STATE,
  CLAVE_SLOT_TEMPORARY
} clave_slot_kind;

enum { CLAVE_DYNAMIC = -1 }; /* a dimension that is only known at run time */
/* Layout of a tensor's bytes. Only constants may have a layout other than plain. */
typedef enum clave_encoding {
  CLAVE_ENCODING_PLAIN = 0,  /* separate elements, row-major */
  CLAVE_ENCODING_GROUPS = 2, /* codes of 2 to 8 bits in groups that share a scale */
  CLAVE_ENCODING_BLOCKS = 3  /* one of llama.cpp's block formats */
} clave_encoding;

/* A tensor slot of the program, or a host scalar argument (is_scalar: I64, F64 or BOOL, rank 0). */
typedef struct clave_tensor_info {
  size_t size; /* sizeof(clave_tensor_info) */
  const char *name;
  clave_dtype dtype;
  int rank;
  int64_t dims[CLAVE_MAX_RANK]; /* CLAVE_DYNAMIC where only known at run time */
  int64_t min_dims[CLAVE_MAX_RANK], max_dims[CLAVE_MAX_RANK]; /* inclusive; INT64_MAX: unbounded */
  const char *dim_names[CLAVE_MAX_RANK];                      /* NULL for fixed dimensions */
  clave_slot_kind kind;
  bool is_scalar;
  uint32_t slot;
  clave_encoding encoding;
  char encoding_text[64]; /* "plain", "int4:32:zeros", "Q4_K" */
} clave_tensor_info;

/* Summary of a program. */
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
  const char *name;           /* name of the node in the source graph */
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
/* Describes state tensor `index`, which is below clave_program_info.n_state. */
CLAVE_API clave_status clave_program_state(const clave_program *program, uint32_t index,
                                           clave_tensor_info *info) CLAVE_CHECK;
/* Returns a section that the .clv carries beside the program, in place, by its tag of four letters
 * ("TOKN": a tokenizer's file). Returns NULL and sets *size to 0 if there is no such section. */
CLAVE_API const void *clave_program_section(const clave_program *program, const char *tag,
                                            size_t *size);
/* Adds or replaces a section (a copy of data; NULL removes it) before the program is shared. */
CLAVE_API clave_status clave_program_set_section(clave_program *program, const char *tag,
                                                 const void *data, size_t size) CLAVE_CHECK;
/* Replaces clave_program_info.metadata (JSON text or "") before the program is shared. */
CLAVE_API clave_status clave_program_set_metadata(clave_program *program,
                                                  const char *metadata) CLAVE_CHECK;
/* Returns a constant's bytes, borrowed from the program. */
CLAVE_API clave_status clave_program_constant(const clave_program *program, uint32_t slot,
                                              clave_tensor *out) CLAVE_CHECK;

/* ---------------------------------------------------------------- sessions
 * `method` names an entry point of the program; NULL names the first one. */

/* Called for each tensor that an instruction wrote, copied to the host; false stops the run. */
typedef bool (*clave_observe_fn)(void *ctx, uint32_t node, uint32_t slot, const clave_tensor *out);

/* Behaviour of a run whose device has yet to build kernels for it. */
typedef enum clave_warm_up {
  CLAVE_WARM_UP_WAIT = 0,      /* waits for the kernels, so that results do not depend on timing */
  CLAVE_WARM_UP_BACKGROUND = 1 /* the CPU backend runs the method while a thread builds the kernels.
                                  Then the session moves to the device between two runs, with its
                                  state, inputs and outputs; later runs wait for kernels. If the
                                  move fails, it stays on the CPU backend, with a note. Destroy such
                                  a session before the process ends */
} clave_warm_up;

typedef struct clave_session_options {
  size_t size;            /* sizeof(clave_session_options) */
  uint64_t memory_budget; /* bytes; 0: CLAVE_MEMORY_BUDGET, else the device's memory */
  bool poison;            /* for debugging: fill dead memory with NaN patterns */
  bool profile;           /* time every op, for clave_session_write_profile */
  bool fast; /* like CLAVE_PRECISION=fast: fuse a * b + c, flush subnormals, divide inexactly, round
                factors to 8 bits or BF16 (docs/reference/precision.md) */
  clave_progress_fn progress; /* called while kernels are built */
  void *progress_ctx;
  bool unfused;   /* do not fuse nodes, so that each can be compared */
  bool unchecked; /* do not compare kernels with the CPU backend at their first run for a class of
                     sizes. Same as CLAVE_SELF_CHECK=off; =strict makes wrong results an error */
  bool (*cancel)(void *ctx); /* true stops; called before ops, at the end and by build threads */
  void *cancel_ctx;
  uint64_t seed;             /* seed of random ops (docs/reference/random.md) */
  clave_warm_up warm_up;     /* BACKGROUND needs a device that was opened with fallback */
  bool allow_custom_kernels; /* run the program's own kernels (unsafe: docs/howto/custom_op.md) */
  int wide;                  /* 1: fast, but values between layers keep the program's dtypes */
  int strict;                /* 1: not fast, whatever CLAVE_PRECISION says */
} clave_session_options;
CLAVE_API clave_status clave_session_create(clave_program *program, clave_device *device,
                                            const clave_session_options *options,
                                            clave_session **out) CLAVE_CHECK;
CLAVE_API void clave_session_destroy(clave_session *session);
/* Copies the tensor, which may be strided. Errors name the input and what it should be. */
CLAVE_API clave_status clave_session_set_input(clave_session *session, const char *method,
                                               uint32_t index,
                                               const clave_tensor *value) CLAVE_CHECK;
/* Makes runs read the tensor in place: it must live until the input is set or bound again, and not
 * change during a run. NULL removes the input. Devices that share the host's memory do not copy a
 * contiguous tensor of 64 KB or more if it is aligned (64 bytes mostly suffice, 4096 always do). */
CLAVE_API clave_status clave_session_bind_input(clave_session *session, const char *method,
                                                uint32_t index,
                                                const clave_tensor *value) CLAVE_CHECK;
/* Makes runs write the result to `data`, or to the session's own memory if NULL. A run fails if the
 * result exceeds `size` bytes. Inputs may share memory. Outputs may overlap inputs (runs use the
 * inputs' old values), but not other outputs or constants. clave_opencl.h binds device memory. */
CLAVE_API clave_status clave_session_bind_output(clave_session *session, const char *method,
                                                 uint32_t index, void *data,
                                                 size_t size) CLAVE_CHECK;
/* Runs a method on its inputs. A run that fails on bad data may leave state partly changed. */
CLAVE_API clave_status clave_session_run(clave_session *session, const char *method) CLAVE_CHECK;
/* Returns the kind of the device of the last successful run: "opencl", or "cpu" if the CPU backend
 * ran in its place (warm_up); NULL before the first. For each node see clave_session_placement. */
CLAVE_API const char *clave_session_answered_by(const clave_session *session);
/* Returns the last run's contiguous result, valid until the next run; in place if it is bound. */
CLAVE_API clave_status clave_session_output(clave_session *session, const char *method,
                                            uint32_t index, clave_tensor *out) CLAVE_CHECK;
/* Resets state (KV caches, mutated buffers) and random numbers to their initial values. */
CLAVE_API clave_status clave_session_reset(clave_session *session) CLAVE_CHECK;

/* Read or replace state tensor `index` (clave_program_state), row-major; size: its bytes. */
CLAVE_API clave_status clave_session_read_state(clave_session *session, uint32_t index, void *data,
                                                size_t size) CLAVE_CHECK;
CLAVE_API clave_status clave_session_write_state(clave_session *session, uint32_t index,
                                                 const void *data, size_t size) CLAVE_CHECK;
/* Read, replace or copy bytes [from, from + size). A copy goes to byte `to`, outside that range. */
CLAVE_API clave_status clave_session_read_state_part(clave_session *session, uint32_t index,
                                                     size_t from, void *data,
                                                     size_t size) CLAVE_CHECK;
CLAVE_API clave_status clave_session_write_state_part(clave_session *session, uint32_t index,
                                                      size_t from, const void *data,
                                                      size_t size) CLAVE_CHECK;
CLAVE_API clave_status clave_session_copy_state_part(clave_session *session, uint32_t index,
                                                     size_t from, size_t to,
                                                     size_t size) CLAVE_CHECK;
/* Sets the open dimension of state named `size` (clave_program_state) to n; in a new session it has
 * its maximum. State keeps the contents that fit; new elements are zeros. */
CLAVE_API clave_status clave_session_resize(clave_session *session, const char *size,
                                            int64_t n) CLAVE_CHECK;
/* Copies all state, its sizes and the random position to another session of the program. */
CLAVE_API clave_status clave_session_copy_state(clave_session *to, clave_session *from) CLAVE_CHECK;

typedef struct clave_memory_info {
  size_t size;                          /* sizeof(clave_memory_info) */
  uint64_t constant_bytes, state_bytes; /* on the device; constants include packed weights */
  uint64_t arena_bytes;                 /* planned for the last run; 0 before the first */
  uint64_t constant_bytes_in_place;     /* part of constant_bytes: mapped, not copied */
} clave_memory_info;
CLAVE_API clave_status clave_session_memory(const clave_session *session,
                                            clave_memory_info *info) CLAVE_CHECK;
CLAVE_API clave_status clave_session_observe(clave_session *session, clave_observe_fn observe,
                                             void *ctx) CLAVE_CHECK; /* NULL: none */
/* Writes the last run as a JSON trace for Perfetto or chrome://tracing. Needs options.profile. */
CLAVE_API clave_status clave_session_write_profile(const clave_session *session,
                                                   const char *path) CLAVE_CHECK;

/* ---------------------------------------------------------------- placement
 * The device that runs each node, and the reason. Read-only: threads may share a placement. */

typedef struct clave_placement clave_placement;
typedef struct clave_placement_info {
  size_t size;        /* sizeof(clave_placement_info) */
  const char *op;     /* "softmax" */
  const char *name;   /* name of the node in the source graph */
  const char *where;  /* "opencl" or "cpu": a device of that kind; "none": no device; "host": sizes
                         and other scalars; "view": nothing to run; "control" and "reference" (of a
                         custom op): see the nodes of its bodies; "fused": see `into` */
  const char *reason; /* why the node does not run on the preferred device; NULL if it does */
  bool supported;     /* true if the node runs on the preferred device or needs no device */
  uint64_t into;      /* index of the node that it is fused with; else its own */
} clave_placement_info;

/* Tells which device would run each node in a session of this program. Builds and runs nothing; a
 * node that no device can run is not an error. options: as for the session (NULL: the defaults);
 * `unfused` places each node separately. Self-checks may later move ops to the CPU. */
CLAVE_API clave_status clave_program_supported(clave_program *program, clave_device *device,
                                               const clave_session_options *options,
                                               clave_placement **out) CLAVE_CHECK;
/* Tells which device ran each node in the session's last run. */
CLAVE_API clave_status clave_session_placement(const clave_session *session,
                                               clave_placement **out) CLAVE_CHECK;
/* Describes node `index` < n_nodes of a method (NULL: the first). The placement owns the texts. */
CLAVE_API clave_status clave_placement_get(const clave_placement *placement, const char *method,
                                           uint32_t index, clave_placement_info *info) CLAVE_CHECK;
CLAVE_API void clave_placement_destroy(clave_placement *placement);

#ifdef __cplusplus
}
#endif
#endif
