#ifndef INTERP_INTERP_H
#define INTERP_INTERP_H
/* The interface of interp/: executables, constants on devices, sessions. */
#include "backend/backend.h"
#include "serialize/program.h"

/* Device-independent passes (passes/passes.h). */
typedef struct optimize_options {
  const char *const *passes; /* (n_passes) names; NULL: all */
  uint32_t n_passes;
  /* Runs a program without inputs and takes ownership of it; outputs[i] has room for output i.
   * NULL: constants are not computed. */
  clave_status (*evaluate)(void *ctx, program *program, void *const *outputs);
  void *ctx;
} optimize_options;
typedef struct optimize_row {
  const char *name;
  uint32_t applied; /* number of places where the pass applied */
  int64_t removed;  /* nodes removed minus nodes added */
  text refused;     /* why the verifier rejected the pass's last result; empty if it accepted it */
} optimize_row;
typedef struct optimize_report {
  optimize_row *rows; /* (n) one per pass, in the order in which they ran */
  uint32_t n;
} optimize_report;
/* Creates an equivalent program by running passes. *out borrows bytes of constants from `given`,
 * which must outlive *out. On success the caller frees *report. */
clave_status program_optimize(const program *given, const optimize_options *options, program **out,
                              optimize_report *report) STATUS_CHECK;
void optimize_report_free(optimize_report *report);

enum { MAX_BACKENDS = 4 };

/* A list of devices, the preferred one first. */
typedef struct device_set {
  backend *backends[MAX_BACKENDS]; /* borrowed */
  int count;
  bool no_fallback;
} device_set;
/* Returns the index of the CPU backend, or -1. */
int device_set_cpu(const device_set *devices);
/* Returns the index of the CPU backend, or -1 if ops may not move to it. */
int device_set_fallback(const device_set *devices);

/* A program on a set of devices (executable.h), shared by sessions and threads. */
typedef struct executable executable;
typedef struct executable_options {
  bool unfused; /* no fusion: instructions stay as in the program, to compare op by op */
  bool fast;    /* kernels may use lower precision */
  bool custom;  /* custom kernels may run */
  bool wide;    /* no f32 value is stored as bf16, even if `fast` */
  bool partial; /* an op that no device supports is not an error; the executable cannot run, only be
                   queried by executable_placement */
} executable_options;
/* Borrows the program and the devices. */
clave_status executable_create(const program *program, const device_set *devices,
                               const executable_options *options, executable **out) STATUS_CHECK;
void executable_destroy(executable *executable); /* accepts NULL; no session may still use it */
/* True if it was made for these devices, their current tuning tables and these options. */
bool executable_is_of(const executable *executable, const device_set *devices,
                      const executable_options *options);

/* The placement of one node. `where` is a backend's kind, "host", "view", "control", "reference" (a
 * custom op that runs as its reference, whose nodes follow), "fused" (a pass merged the node into
 * another one) or "none". */
typedef struct node_placement {
  const char *where;
  const char *reason; /* why the node does not run on the preferred device; NULL if it does; for a
                         fused node, the reason of `into` */
  bool supported;     /* true if the node runs on the preferred device or needs no device */
  uint32_t into;      /* the node that it was merged into; else its own number */
} node_placement;
/* Fills in one row per node of the method, by node number (program_find_node). */
void executable_placement(const executable *executable, uint32_t method, node_placement *rows);

/* A program's constants on one device, plain and packed. The store makes each constant at its first
 * use, owns it, and shares it among all sessions on the device. */
typedef struct constant_store constant_store;
clave_status constant_store_create(const program *program, backend *backend,
                                   constant_store **out) STATUS_CHECK;
void constant_store_destroy(constant_store *store); /* accepts NULL */
const backend *constant_store_backend(const constant_store *store);
clave_status constant_store_get(constant_store *store, uint32_t tid,
                                buffer **out) STATUS_CHECK; /* thread-safe; *out is borrowed */
/* True if the constant has been made already. */
bool constant_store_has(const constant_store *store, uint32_t tid);
uint64_t constant_store_bytes(const constant_store *store); /* plain and packed together */
uint64_t constant_store_packed_bytes(const constant_store *store);
/* Returns the bytes of constants and packed weights that the device uses in the host's memory. */
uint64_t constant_store_in_place_bytes(const constant_store *store);
/* A packed weight: a constant in the layout that a kernel reads. */
typedef struct packed_weight {
  struct packed_weight *next;
  packed_weight_request request; /* without `pack` */
  buffer *buf;                   /* owned */
  bool is_packed_here; /* packed by this store; else its bytes come from the program's file */
} packed_weight;
/* The stream, operands and options with which the store packs a weight. */
typedef struct packing_means {
  stream *stream;
  const bound_tensor *operands; /* by Tid; the operands of the command that reads the weight */
  bool checks; /* verify hashes of the file's packed weights; pack damaged ones again */
  bool clears; /* for files: zero the bytes that no kernel writes */
} packing_means;
/* Finds a packed weight in the store, else in the program's file, else packs it. If request->pack
 * is NULL, only the store is searched, and *out may be NULL. Sets *is_damaged if the packed weight
 * in the file is damaged. Thread-safe; *out is borrowed. */
clave_status constant_store_pack(constant_store *store, const packing_means *means,
                                 const packed_weight_request *request, const packed_weight **out,
                                 bool *is_damaged) STATUS_CHECK;
/* True if the store has this packed weight already. */
bool constant_store_has_packed(const constant_store *store, const packed_weight_request *request);
/* Moves the weights that this store packed to the program `to`, so that they can be saved. No
 * session may still use the store. */
clave_status constant_store_keep_packed(constant_store *store, program *to) STATUS_CHECK;
/* Returns the program's bytes of the constant in the buffer; NULL if it holds no constant. */
const void *constant_store_host(const constant_store *store, const buffer *buffer);

/* Contiguous or strided host memory. */
typedef struct host_tensor {
  tensor t; /* offset is relative to data */
  void *data;
} host_tensor;

/* Device memory of the caller: a handle of the driver (OpenCL: a cl_mem) or a dma-buf. */
typedef struct device_memory {
  void *handle;
  size_t offset; /* bytes */
  bool is_dma_buf;
  int fd; /* a dma-buf, used instead of the handle; the caller may close it once it is bound */
} device_memory;

typedef struct session_options {
  uint64_t memory_budget; /* bytes; 0: all of the device's memory */
  bool poison, profile;
  bool unchecked;    /* skip the self-check of kernels */
  bool strict_check; /* a failed self-check is an error; the op is not moved to another device */
  void (*progress)(void *ctx, const char *what, int done, int total);
  void *progress_ctx;
  void (*message)(void *ctx, const char *line); /* notes; may be NULL */
  void *message_ctx;
  bool (*cancel)(void *ctx); /* called before each command; true stops the run */
  void *cancel_ctx;
  uint64_t seed; /* seed of the random ops */
  bool packs;    /* for session_pack: it is an error if there is no memory for packed weights, and
                    bytes that no kernel writes are zeroed, because files contain them */
} session_options;

/* Called after an instruction with a contiguous copy of a tensor that it wrote; false stops the
 * run. If the observer sets *edited, the bytes at value->data replace the tensor's. */
typedef bool (*observe_fn)(void *ctx, uint32_t instruction, uint32_t tid, const host_tensor *value,
                           bool *edited);

/* A program's state, memory, inputs and outputs. */
typedef struct session session;
/* stores: one per backend of the executable's devices, in the same order. The executable and the
 * stores are borrowed and must outlive the session. */
clave_status session_create(executable *executable, constant_store *const *stores,
                            const session_options *options, session **out) STATUS_CHECK;
void session_destroy(session *session); /* accepts NULL */
clave_status session_set_input(session *session, uint32_t method, uint32_t index,
                               const host_tensor *value) STATUS_CHECK;
/* Works like session_set_input, except that each run reads the caller's memory. NULL unbinds the
 * input. */
clave_status session_bind_input(session *session, uint32_t method, uint32_t index,
                                const host_tensor *value) STATUS_CHECK;
/* Makes runs write the result to `data`; if NULL, to the session's own memory. */
clave_status session_bind_output(session *session, uint32_t method, uint32_t index, void *data,
                                 size_t bytes) STATUS_CHECK;
/* Work like session_bind_input and session_bind_output with contiguous device memory, which the
 * session retains and uses in place. An output may use `bytes` bytes from the offset on. */
clave_status session_bind_input_memory(session *session, uint32_t method, uint32_t index,
                                       const tensor *tensor, device_memory at) STATUS_CHECK;
clave_status session_bind_output_memory(session *session, uint32_t method, uint32_t index,
                                        device_memory at, size_t bytes) STATUS_CHECK;
clave_status session_run(session *session, uint32_t method) STATUS_CHECK;
/* Packs the weights that the method's products and convolutions read. The method is not run, only
 * planned, at small and at larger sizes of its inputs. */
clave_status session_pack(session *session, uint32_t method) STATUS_CHECK;
/* Returns the result of the last run. It is contiguous, in the session's memory or in the bound
 * memory. data is NULL if the result is in device memory or in a dma-buf. */
clave_status session_output(session *session, uint32_t method, uint32_t index,
                            host_tensor *out) STATUS_CHECK;
clave_status session_reset(session *session) STATUS_CHECK;
/* Reads state tensor `index` as contiguous bytes; `bytes` must be its size. */
clave_status session_read_state(session *session, uint32_t index, void *data,
                                size_t bytes) STATUS_CHECK;
clave_status session_write_state(session *session, uint32_t index, const void *data,
                                 size_t bytes) STATUS_CHECK;
/* Read, write or copy bytes [from, from + size) of state tensor `index`. The copy goes to offset
 * `to`; the ranges must not overlap. */
clave_status session_read_state_part(session *session, uint32_t index, size_t from, void *data,
                                     size_t size) STATUS_CHECK;
clave_status session_write_state_part(session *session, uint32_t index, size_t from,
                                      const void *data, size_t size) STATUS_CHECK;
clave_status session_copy_state_part(session *session, uint32_t index, size_t from, size_t to,
                                     size_t size) STATUS_CHECK;
/* Resizes all state tensors whose shapes contain `value`. Data that fits is kept, and new elements
 * are zero. On failure nothing changes. */
clave_status session_resize(session *session, uint32_t value, int64_t n) STATUS_CHECK;
clave_status session_match_sizes(session *to, const session *from) STATUS_CHECK;
/* Copies all state, its sizes and the position in the random sequence. Both sessions must run the
 * same program. */
clave_status session_copy_state(session *to, session *from) STATUS_CHECK;

/* A block of a device's arena in the schedule of a method's last run. */
typedef struct session_block {
  const char *device;
  uint32_t slot; /* the first tensor stored in the block; IR_NONE if none exists */
  uint32_t chunk, first, last;
  uint32_t node; /* the node that command `first` runs */
  uint64_t offset, bytes;
} session_block;
/* Returns INVALID if the method has not run yet. */
clave_status session_count_blocks(const session *session, uint32_t method, uint32_t *blocks,
                                  uint32_t *commands) STATUS_CHECK;
clave_status session_find_block(const session *session, uint32_t method, uint32_t number,
                                session_block *out) STATUS_CHECK;
void session_observe(session *session, observe_fn observe, void *ctx);

/* Returns the executable in use now. It is replaced when ops move to the CPU backend. */
const executable *session_executable(const session *session);
/* Returns the preferred device. */
const backend_info *session_device(const session *session);
typedef struct session_memory {
  uint64_t constant_bytes, state_bytes, arena_bytes;
  uint64_t constant_bytes_in_place; /* part of constant_bytes that is used in place */
} session_memory;
void session_memory_use(const session *session, session_memory *out);
/* One command of the last run. */
typedef struct session_timing {
  int kind; /* 0: a node, 1: a copy on a device, 2: a transfer between devices */
  uint32_t node;
  const char *op, *name, *device; /* borrowed from the session */
  int64_t start_ns, end_ns;
  const char *shapes;           /* such as "F32 [2, 3] -> F32 [2]"; "" for copies and transfers */
  dtype type;                   /* dtype of the computation */
  double flops, bytes;          /* see ops/work.h; flops < 0: unknown */
  double compute_ns, memory_ns; /* time at the device's peak rates; 0: unknown */
} session_timing;
/* Peak rates of a device for one dtype. */
typedef struct device_peak {
  char *device;        /* name of the device; owned by the owner of the list */
  dtype type;          /* dtype of the elements that are multiplied and added */
  double flops, bytes; /* per second; 0: unknown */
} device_peak;
typedef struct peak_list {
  device_peak *items;
  uint32_t n;
} peak_list;
clave_status session_timings(session *session, const peak_list *peaks,
                             void (*each)(void *ctx, const session_timing *timing),
                             void *ctx) STATUS_CHECK;
/* Writes the timings of the last run as Chrome trace events. */
clave_status session_write_trace(session *session, const peak_list *peaks,
                                 const char *path) STATUS_CHECK;

/* How a variant was chosen for a node. */
typedef enum tune_how {
  TUNE_BEGINS,    /* about to be measured */
  TUNE_MEASURED,  /* measured, and stored in the device's table */
  TUNE_KNOWN,     /* already in the table */
  TUNE_BY_RULE,   /* dry run: the variant of the lowest cost; nothing is measured */
  TUNE_UNMEASURED /* the variant of the lowest cost fails or computes wrong results on the tuner's
                     data */
} tune_how;
typedef struct tune_event {
  const backend_info *device;
  const char *family, *key, *variant, *by_rule;
  double ratio; /* time of the variant divided by that of by_rule, the variant of the lowest cost */
  int n;        /* number of variants compared */
  tune_how how;
  size_t done, total; /* numbers of choices */
} tune_event;
typedef struct tune_options {
  bool again; /* also measure choices that the table already has */
  bool dry;
  double budget_s;                                    /* seconds; 0: no limit */
  bool (*report)(void *ctx, const tune_event *event); /* false stops the tuning; may be NULL */
  bool (*cancel)(void *ctx);                          /* called between measurements; may be NULL */
  clave_status (*keep)(void *ctx, const backend *backend); /* called when the table has changed */
  void *ctx;
} tune_options;
typedef struct tune_result {
  size_t total, done; /* numbers of choices */
  bool has_rest;      /* nodes whose sizes depend on data are not included */
} tune_result;
/* Measures the variants of the method's nodes for the sizes of the inputs that are set. It uses
 * separate memory, so the session's state and results do not change. Devices whose backend has no
 * tuning table are skipped. */
clave_status session_tune(session *session, uint32_t method, const tune_options *options,
                          tune_result *out) STATUS_CHECK;

/* A session on a device that a thread prepares. Until it is ready, another session of the program
 * runs on the CPU backend in its place. */
typedef struct warm_up warm_up;
/* The arguments are those of session_create. */
clave_status warm_up_create(executable *executable, constant_store *const *stores,
                            const session_options *options, warm_up **out) STATUS_CHECK;
/* Call this before *active, the session that runs in the device's place, runs the method. If the
 * device is ready for the sizes of this run, the session on the device takes over state and
 * arguments and replaces *active, which is destroyed. Otherwise the thread begins to prepare these
 * sizes. If preparing fails, one message says why, and *active is never replaced. */
void warm_up_advance(warm_up *warm_up, session **active, uint32_t method);
/* Waits for the thread, which first completes the kernels that it is building. Accepts NULL. */
void warm_up_destroy(warm_up *warm_up);

#endif
