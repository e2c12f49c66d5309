#ifndef INTERP_INTERP_H
#define INTERP_INTERP_H
/* What other rooms see of this one: executables, constants on devices, sessions. */
#include "backend/backend.h"
#include "serialize/program.h"

/* Passes that no device matters to (passes/passes.h). */
typedef struct optimize_options {
  const char *const *passes; /* (n_passes) names; NULL: all */
  uint32_t n_passes;
  /* Runs a program without inputs, which it takes: outputs[i] has room for its output i. NULL:
   * constants are not computed. */
  clave_status (*evaluate)(void *ctx, program *program, void *const *outputs);
  void *ctx;
} optimize_options;
typedef struct optimize_row {
  const char *name;
  uint32_t applied; /* how often */
  int64_t removed;  /* nodes, less those added */
  text refused;     /* why its last result was not taken; empty: it was */
} optimize_row;
typedef struct optimize_report {
  optimize_row *rows; /* (n) by pass, in their order */
  uint32_t n;
} optimize_report;
/* A program that computes the same; its constants' bytes are in part those of `first_program`,
 * which must outlive it. report: to be freed, if the status is good. */
clave_status program_optimize(const program *first_program, const optimize_options *options,
                              program **out, optimize_report *report) STATUS_CHECK;
void optimize_report_free(optimize_report *report);

enum { MAX_BACKENDS = 4 };

/* Devices, the preferred one first. */
typedef struct device_set {
  backend *backends[MAX_BACKENDS]; /* borrowed */
  int count;
  bool no_fallback;
} device_set;

/* A program on a set of devices (executable.h), shared by sessions and threads. */
typedef struct executable executable;
typedef struct executable_options {
  bool unfused; /* instructions as they stand in the program: for comparison op by op */
  bool fast;    /* kernels may round less exactly */
  bool custom;  /* custom kernels may run */
  bool wide;    /* values are kept as the program has them, though `fast` */
  bool partial; /* what no device runs is nowhere, not an error: for executable_placement alone */
} executable_options;
/* Program and devices are borrowed. */
clave_status executable_create(const program *program, const device_set *devices,
                               const executable_options *options, executable **out) STATUS_CHECK;
void executable_destroy(executable *executable); /* takes NULL; no session uses it any more */
/* Whether it was made with these. */
bool executable_is_of(const executable *executable, const device_set *devices,
                      const executable_options *options);

/* Where a node of a method runs: a backend's kind, "host", "view", "control", "reference" (of a
 * custom op: the nodes behind it, which compute the same), "fused" (in the node that a pass joined
 * it to) or "none". */
typedef struct node_placement {
  const char *where;
  const char *reason; /* why not on the preferred device, NULL if it does; of a fused node's own */
  bool supported;     /* on the preferred device, or needing none */
  uint32_t into;      /* the node that it was joined to; itself */
} node_placement;
/* rows: one per node of the method, by number (program_find_node). */
void executable_placement(const executable *executable, uint32_t method, node_placement *rows);

/* A program's constants on one device, plain and packed; made on first use, owned by the store and
 * shared by all sessions there. */
typedef struct constant_store constant_store;
clave_status constant_store_create(const program *program, backend *backend,
                                   constant_store **out) STATUS_CHECK;
void constant_store_destroy(constant_store *store); /* takes NULL */
const backend *constant_store_backend(const constant_store *store);
clave_status constant_store_get(constant_store *store, uint32_t tid,
                                buffer **out) STATUS_CHECK; /* thread-safe; borrowed */
bool constant_store_has(const constant_store *store, uint32_t tid);
uint64_t constant_store_bytes(const constant_store *store); /* of plain and packed ones */
uint64_t constant_store_packed_bytes(const constant_store *store);
uint64_t constant_store_mapped_bytes(
    const constant_store *store); /* packed, in the program's file */
/* A constant in the layout that a kernel reads. */
typedef struct packed_weight {
  struct packed_weight *next;
  packed_weight_request request; /* without `pack` */
  buffer *buf;                   /* owned */
  bool is_packed_here;           /* else its bytes are those of the program's file */
} packed_weight;
/* What the store packs with. */
typedef struct packing_means {
  stream *stream;
  const bound_tensor *operands; /* by Tid: those of the recording that reads the packed weight */
  bool checks; /* verifies the hash of what the program's file has; a damaged one is packed anew */
  bool clears; /* for files: bytes that no kernel writes are zeros */
} packing_means;
/* Finds the packed weight in the store, takes it from the program's file, or packs it. Without
 * request->pack one that serves the request is found, or *out is NULL. Thread-safe; borrowed.
 * *is_damaged: what the program's file has is not used. */
clave_status constant_store_pack(constant_store *store, const packing_means *means,
                                 const packed_weight_request *request, const packed_weight **out,
                                 bool *is_damaged) STATUS_CHECK;
bool constant_store_has_packed(const constant_store *store, const packed_weight_request *request);
/* Moves the weights that were packed here to `to`, the store's program, for its file. No session
 * uses the store any more. */
clave_status constant_store_keep_packed(constant_store *store, program *to) STATUS_CHECK;
/* The program's bytes of the constant in this buffer; NULL: it holds no constant. */
const void *constant_store_host(const constant_store *store, const buffer *buffer);

/* Contiguous or strided host memory. */
typedef struct host_tensor {
  tensor t; /* offset counts from data */
  void *data;
} host_tensor;

/* The caller's memory of a device, by its driver's handle (OpenCL: a cl_mem); or a dma-buf. */
typedef struct device_memory {
  void *handle;
  size_t offset; /* bytes */
  bool is_dma_buf;
  int fd; /* in place of the handle; free when it is bound */
} device_memory;

typedef struct session_options {
  uint64_t memory_budget; /* bytes; 0: the device's memory */
  bool poison, profile;
  bool unchecked;    /* no self-check of kernels */
  bool strict_check; /* what it finds is an error, not run elsewhere */
  void (*progress)(void *ctx, const char *what, int done, int total);
  void *progress_ctx;
  void (*message)(void *ctx, const char *line); /* notes; may be NULL */
  void *message_ctx;
  bool (*cancel)(void *ctx); /* asked before each command; true stops the run */
  void *cancel_ctx;
  uint64_t seed; /* of random ops */
  bool packs; /* for session_pack: no memory for packed weights is an error, and their bytes that no
                 kernel writes are zeros, since files would keep them */
} session_options;

/* Called after an instruction with a tensor it wrote, contiguous; false stops the run. *edited: the
 * bytes at value->data were changed and are written back. */
typedef bool (*observe_fn)(void *ctx, uint32_t instruction, uint32_t tid, const host_tensor *value,
                           bool *edited);

/* A program's state, memory, inputs and outputs. */
typedef struct session session;
/* stores: one per backend of the executable's devices, in their order; both are borrowed and
 * outlive the session. */
clave_status session_create(executable *executable, constant_store *const *stores,
                            const session_options *options, session **out) STATUS_CHECK;
void session_destroy(session *session); /* takes NULL */
clave_status session_set_input(session *session, uint32_t method, uint32_t index,
                               const host_tensor *value) STATUS_CHECK;
/* As set_input, but the memory stays the caller's and is read by each run; NULL: no input. */
clave_status session_bind_input(session *session, uint32_t method, uint32_t index,
                                const host_tensor *value) STATUS_CHECK;
/* Runs write the result there; NULL: into the session's own memory. */
clave_status session_bind_output(session *session, uint32_t method, uint32_t index, void *data,
                                 size_t bytes) STATUS_CHECK;
/* The same in memory of a device, which is held and used where it is, contiguous. `bytes` from the
 * offset on are the output's. */
clave_status session_bind_input_memory(session *session, uint32_t method, uint32_t index,
                                       const tensor *tensor, device_memory at) STATUS_CHECK;
clave_status session_bind_output_memory(session *session, uint32_t method, uint32_t index,
                                        device_memory at, size_t bytes) STATUS_CHECK;
clave_status session_run(session *session, uint32_t method) STATUS_CHECK;
/* Packs the weights that the method's products and convolutions read, without running it: at the
 * smallest sizes of its inputs and at larger ones. */
clave_status session_pack(session *session, uint32_t method) STATUS_CHECK;
/* Result of the last run; contiguous, owned by the session or where it was bound; data is NULL if
 * that is memory of a device or a dma-buf. */
clave_status session_output(session *session, uint32_t method, uint32_t index,
                            host_tensor *out) STATUS_CHECK;
clave_status session_reset(session *session) STATUS_CHECK;
/* State tensor `index`, contiguous; `bytes` must be its size. */
clave_status session_read_state(session *session, uint32_t index, void *data,
                                size_t bytes) STATUS_CHECK;
clave_status session_write_state(session *session, uint32_t index, const void *data,
                                 size_t bytes) STATUS_CHECK;
/* Bytes [from, from + size) of it; copy: to `to`, without overlap. */
clave_status session_read_state_part(session *session, uint32_t index, size_t from, void *data,
                                     size_t size) STATUS_CHECK;
clave_status session_write_state_part(session *session, uint32_t index, size_t from,
                                      const void *data, size_t size) STATUS_CHECK;
clave_status session_copy_state_part(session *session, uint32_t index, size_t from, size_t to,
                                     size_t size) STATUS_CHECK;
/* `value` stands in state's shapes: they get this size. What they hold stays, as far as there is
 * room, with zeros behind it. On failure nothing has changed. */
clave_status session_resize(session *session, uint32_t value, int64_t n) STATUS_CHECK;
clave_status session_match_sizes(session *to, const session *from) STATUS_CHECK;
/* All state, its sizes and how far the random numbers are; of the same program. */
clave_status session_copy_state(session *to, session *from) STATUS_CHECK;

/* A block of a device's arena in the schedule of a method's last run. */
typedef struct session_block {
  const char *device;
  uint32_t slot; /* of the first tensor that lies there; IR_NONE: none */
  uint32_t chunk, first, last;
  uint32_t node; /* of the command `first` */
  uint64_t offset, bytes;
} session_block;
/* INVALID before the method has run. */
clave_status session_count_blocks(const session *session, uint32_t method, uint32_t *blocks,
                                  uint32_t *commands) STATUS_CHECK;
clave_status session_find_block(const session *session, uint32_t method, uint32_t number,
                                session_block *out) STATUS_CHECK;
void session_observe(session *session, observe_fn observe, void *ctx);

/* The one that it runs now: self-checks move what a device gets wrong. */
const executable *session_executable(const session *session);
/* The preferred one. */
const backend_info *session_device(const session *session);
typedef struct session_memory {
  uint64_t constant_bytes, state_bytes, arena_bytes;
  uint64_t constant_bytes_in_place; /* of the constants */
} session_memory;
void session_memory_use(const session *session, session_memory *out);
/* A command of the last run. */
typedef struct session_timing {
  int kind; /* 0: a node, 1: a copy on a device, 2: a transfer between devices */
  uint32_t node;
  const char *op, *name, *device; /* borrowed from the session */
  int64_t start_ns, end_ns;
  const char *shapes;           /* "F32 [2, 3] -> F32 [2]"; "" of copies and transfers */
  dtype type;                   /* that it is computed in */
  double flops, bytes;          /* ops/work.h; flops < 0: not known */
  double compute_ns, memory_ns; /* that they take at the device's peaks; 0: not known */
} session_timing;
/* What a device can do at most. */
typedef struct device_peak {
  char *device;        /* by its name; owned by who has the list */
  dtype type;          /* of the elements that are multiplied and added */
  double flops, bytes; /* a second; 0: not known */
} device_peak;
typedef struct peak_list {
  device_peak *items;
  uint32_t n;
} peak_list;
clave_status session_timings(session *session, const peak_list *peaks,
                             void (*each)(void *ctx, const session_timing *timing),
                             void *ctx) STATUS_CHECK;
/* The last run as Chrome trace events. */
clave_status session_write_trace(session *session, const peak_list *peaks,
                                 const char *path) STATUS_CHECK;

/* How a choice among variants of a node came about. */
typedef enum tune_how {
  TUNE_BEGINS,    /* it is about to be measured */
  TUNE_MEASURED,  /* and is in the device's table now */
  TUNE_KNOWN,     /* it was there before */
  TUNE_BY_RULE,   /* dry: nothing is measured */
  TUNE_UNMEASURED /* what the rule takes fails, or gives wrong results, on the data made up here */
} tune_how;
typedef struct tune_event {
  const backend_info *device;
  const char *family, *key, *variant, *by_rule;
  double ratio; /* the variant's time to that of by_rule */
  int n;        /* variants that were compared */
  tune_how how;
  size_t done, total; /* choices */
} tune_event;
typedef struct tune_options {
  bool again; /* what is in the table, too */
  bool dry;
  double budget_s;                                    /* 0: none */
  bool (*report)(void *ctx, const tune_event *event); /* false stops; may be NULL */
  bool (*cancel)(void *ctx);                          /* asked between measurements; may be NULL */
  clave_status (*keep)(void *ctx, const backend *backend); /* the backend's table has changed */
  void *ctx;
} tune_options;
typedef struct tune_result {
  size_t total, done; /* choices */
  bool has_rest;      /* nodes behind a value that is read from data are not among them */
} tune_result;
/* Measures the variants of the method's nodes, for the sizes of the inputs that are set, on memory
 * of their own: the session's state and results stay. Devices whose backend has no table are left
 * out. */
clave_status session_tune(session *session, uint32_t method, const tune_options *options,
                          tune_result *out) STATUS_CHECK;

/* A session on a device that is made ready in a thread while another session of the program, on the
 * CPU backend, answers in its place. */
typedef struct warm_up warm_up;
/* As session_create. */
clave_status warm_up_create(executable *executable, constant_store *const *stores,
                            const session_options *options, warm_up **out) STATUS_CHECK;
/* Before a run of the method in *answers, which has what options the session has. Where the device
 * is ready for its sizes *answers becomes the session on it, with all that the other had, which is
 * destroyed. Where it is not, it is made ready for them. If it cannot be, one note says why and all
 * stays as it is. */
void warm_up_step(warm_up *warm_up, session **answers, uint32_t method);
/* Takes NULL; waits for the thread, which gives up after the kernels that it builds. */
void warm_up_destroy(warm_up *warm_up);

#endif
