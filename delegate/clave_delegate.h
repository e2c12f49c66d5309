#ifndef CLAVE_DELEGATE_H
#define CLAVE_DELEGATE_H
/* clave as a plugin of a host application: one function is looked up, a table of functions is got.
 *
 *   void *library = dlopen("libclave_delegate.so", RTLD_NOW | RTLD_LOCAL);
 *   clave_delegate_register_fn get = dlsym(library, CLAVE_DELEGATE_REGISTER);
 *   clave_delegate d = {.size = sizeof d};
 *   if (get(CLAVE_DELEGATE_VERSION, &d) != CLAVE_OK) ...  // the plugin is of another kind
 *   d.open(NULL, &device);                                 // CLAVE_DEVICE, else the best there is
 *   d.load(&payload, &program);
 *   d.create(program, device, NULL, &instance);
 *   d.bind_input(instance, "forward", 0, &shape, &memory);
 *   d.execute(instance, "forward");
 *
 * Nothing happens when the library is opened: no constructor, no global registration. Statuses are
 * those of clave.h, read and freed by the table's own functions: a host does not link libclave.
 *
 * Versions. A table, and every struct that begins with `size`, grows at its end: the host sets size
 * to its sizeof, the plugin fills in what both know. Functions that the plugin lacks are NULL.
 * Structs without size, and what is in arrays, never change. CLAVE_DELEGATE_VERSION changes only
 * where an old host could not go on, and then register refuses it.
 *
 * Handles. 0 is none. A handle that was never given, was closed before, or is of another kind is an
 * error that says so, never a crash; numbers are not used twice.
 *
 * Threads. Devices and programs are used by any number of threads. An instance is used by one
 * thread at a time: a call that meets another is an error and changes nothing. cancel is called by
 * any thread at any time, wait by any thread. Callbacks come on the thread that runs the instance,
 * for submitted runs one of clave's own; they may cancel, every other call on the same instance is
 * an error there.
 *
 * Lifetimes. What is bound or borrowed outlives its use: memory until it is bound again or the
 * instance is destroyed, payload and constants until `release` is called, contexts of callbacks as
 * long as the device or the instance that they were given to. Devices and programs may be closed
 * before their instances. What a getter gives lives as long as its handle. */
#include "clave.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CLAVE_DELEGATE_VERSION 1
#define CLAVE_DELEGATE_REGISTER "clave_delegate_register"

typedef uint64_t clave_delegate_handle; /* of a device, a program or an instance */

/* ---------------------------------------------------------------- devices */

typedef struct clave_delegate_device_options {
  size_t size;           /* sizeof(clave_delegate_device_options) */
  const char *device;    /* as for clave_device_open; NULL: CLAVE_DEVICE, else the best */
  bool no_fallback;      /* an op that the device cannot run is an error */
  int n_threads;         /* of the CPU backend; 0: CLAVE_THREADS, else all CPUs */
  const char *cache_dir; /* of binaries; NULL: CLAVE_CACHE_DIR, else the XDG cache; "off": none */
  clave_message_fn log;  /* notes, one line each, by any thread; the host's logger */
  void *log_ctx;
  /* The host's own OpenCL (a cl_context, one of its cl_device_ids, a cl_command_queue of both or
   * NULL), in whose place `device` is NULL: clave_opencl.h says in what order runs stand to it. */
  void *cl_context, *cl_device, *cl_queue;
} clave_delegate_device_options;

/* ---------------------------------------------------------------- graphs and payloads */

/* A dimension that is known at run time only; min, max inclusive, INT64_MAX: none. */
typedef struct clave_delegate_size {
  const char *name;
  int64_t min, max;
} clave_delegate_size;

typedef struct clave_delegate_tensor {
  const char *name; /* of inputs, outputs, states and constants no two are the same */
  clave_slot_kind kind;
  clave_dtype dtype;
  int rank;
  int64_t dims[CLAVE_MAX_RANK];
  uint32_t sizes[CLAVE_MAX_RANK]; /* 1 + index of the graph's sizes where dims says nothing; 0 */
  const void *data;               /* of constants, row-major, borrowed; NULL in questions */
} clave_delegate_tensor;

/* What a field of a node holds; its name and its type are those of docs/ops.md. */
typedef enum clave_delegate_field_kind {
  CLAVE_DELEGATE_READS = 0,  /* tensors: one operand (n = 1) */
  CLAVE_DELEGATE_WRITES = 1, /* tensors: one result */
  CLAVE_DELEGATE_READS_LIST = 2,
  CLAVE_DELEGATE_WRITES_LIST = 3,
  CLAVE_DELEGATE_INT = 4,   /* i: int, uint, long, IntOrVid */
  CLAVE_DELEGATE_FLOAT = 5, /* f: double, FloatOrVid */
  CLAVE_DELEGATE_BOOL = 6,  /* i: 0 or 1 */
  CLAVE_DELEGATE_TEXT = 7,  /* text: string, enum */
  CLAVE_DELEGATE_INTS = 8,  /* ints: [int] */
  CLAVE_DELEGATE_SIZES = 9, /* ints: [IntOrVid]; tensors: NULL, or as clave_delegate_tensor.sizes */
  CLAVE_DELEGATE_STEP = 10  /* the next step of an Elementwise: name is its kind ("mul"), dtype its
                               result's, operands (n) what it reads */
} clave_delegate_field_kind;

typedef enum clave_delegate_source {
  CLAVE_DELEGATE_OPERAND_INPUT = 0, /* inputs[i] of the node */
  CLAVE_DELEGATE_OPERAND_STEP = 1,  /* the result of step i */
  CLAVE_DELEGATE_OPERAND_INT = 2,   /* i itself */
  CLAVE_DELEGATE_OPERAND_FLOAT = 3  /* f */
} clave_delegate_source;
typedef struct clave_delegate_operand {
  clave_delegate_source source;
  int64_t i;
  double f;
} clave_delegate_operand;

typedef struct clave_delegate_field {
  const char *name;
  clave_delegate_field_kind kind;
  uint32_t n;
  const uint32_t *tensors; /* (n) indices of the graph's tensors */
  const int64_t *ints;     /* (n) */
  const char *text;
  int64_t i;
  double f;
  clave_dtype dtype;
  const clave_delegate_operand *operands; /* (n) */
} clave_delegate_field;

typedef struct clave_delegate_node {
  const char *op;   /* "Softmax" or "softmax" */
  const char *name; /* the host's own, for errors and events; "" */
  const clave_delegate_field *fields;
  uint32_t n_fields;
} clave_delegate_node;

/* When all nodes have run `state` becomes `tensor`, of its dtype and shape. */
typedef struct clave_delegate_update {
  uint32_t state, tensor; /* indices of the graph's tensors */
} clave_delegate_update;

/* A graph of the host's, in an order that it can be run in. As a payload it has one method,
 * "forward", whose inputs and outputs are the tensors of these kinds, in their order. States begin
 * with zeros, or with what `initial` says, and change by `updates`; no node writes them. */
typedef struct clave_delegate_graph {
  size_t size; /* sizeof(clave_delegate_graph) */
  const clave_delegate_size *sizes;
  uint32_t n_sizes;
  const clave_delegate_tensor *tensors;
  uint32_t n_tensors;
  const clave_delegate_node *nodes;
  uint32_t n_nodes;
  /* Not in the first version of this struct: a plugin that knows that alone ignores these. Nor are
   * they read in questions. initial: (n_tensors) first values, row-major, borrowed or copied as
   * constants are, of states without open dimensions; NULL elsewhere, and for all: zeros. updates:
   * at most one for each state. */
  const void *const *initial;
  const clave_delegate_update *updates;
  uint32_t n_updates;
} clave_delegate_graph;

/* Whether a device runs a node, and if not, why. */
typedef struct clave_delegate_answer {
  bool supported;   /* the device itself, or it needs none (a view) */
  char where[15];   /* clave_placement_info.where; "none": no clave at all can run it as it is */
  char reason[240]; /* one line, perhaps cut; "" where supported */
} clave_delegate_answer;

typedef enum clave_delegate_format {
  CLAVE_DELEGATE_CLV = 0,     /* data: the bytes of a .clv, with its constants */
  CLAVE_DELEGATE_PROGRAM = 1, /* data: the FlatBuffers form; constants are handed over by name */
  CLAVE_DELEGATE_GRAPH = 2    /* graph */
} clave_delegate_format;

typedef struct clave_delegate_constant {
  const char *name;
  clave_tensor value; /* contiguous; encoded ones as stored, U8 */
} clave_delegate_constant;

typedef struct clave_delegate_payload {
  size_t size; /* sizeof(clave_delegate_payload) */
  clave_delegate_format format;
  const void *data;
  size_t data_size; /* bytes */
  const clave_delegate_graph *graph;
  /* The constants of a PROGRAM: of the list, and those that are not there from `find`, which is
   * given dtype and dims as declared, sets data and says whether there is such a constant. */
  const clave_delegate_constant *constants;
  uint32_t n_constants;
  bool (*find)(void *ctx, const char *name, clave_tensor *constant);
  void *find_ctx;
  /* false: data and constants are borrowed and read in place; true: they are copied, and may go
   * when load returns. */
  bool copy;
  /* Called once when nothing reads them any more: after a load that fails, or with copy, before it
   * returns; else after the program and its last instance are gone. */
  void (*release)(void *ctx);
  void *release_ctx;
} clave_delegate_payload;

/* ---------------------------------------------------------------- instances */

/* What happened in a run that was good, told after it, in order. */
typedef enum clave_delegate_event_kind {
  CLAVE_DELEGATE_EVENT_RUN = 0,  /* the run as a whole, last; name: the method */
  CLAVE_DELEGATE_EVENT_NODE = 1, /* needs instance_options.node_events */
  CLAVE_DELEGATE_EVENT_COPY = 2, /* likewise: within a device's memory or between devices */
} clave_delegate_event_kind;
typedef struct clave_delegate_event {
  size_t size; /* sizeof(clave_delegate_event) of the plugin */
  clave_delegate_event_kind kind;
  uint32_t node; /* the program's number of it */
  const char *op, *name, *device;
  int64_t start_ns, end_ns; /* monotonic clock */
} clave_delegate_event;

typedef struct clave_delegate_instance_options {
  size_t size;            /* sizeof(clave_delegate_instance_options) */
  uint64_t memory_budget; /* bytes; 0: CLAVE_MEMORY_BUDGET, else the device's memory */
  bool fast;              /* clave_session_options.fast */
  bool allow_custom_kernels;
  uint64_t seed; /* of random ops */
  /* The host's profiler. Times of nodes cost time themselves. */
  void (*event)(void *ctx, const clave_delegate_event *event);
  void *event_ctx;
  bool node_events;
  clave_progress_fn progress; /* building kernels */
  void *progress_ctx;
} clave_delegate_instance_options;

typedef enum clave_delegate_memory_kind {
  CLAVE_DELEGATE_HOST = 0,   /* memory: an address */
  CLAVE_DELEGATE_CL_MEM = 1, /* memory: a cl_mem of the context that the device was opened with */
  CLAVE_DELEGATE_DMA_BUF = 2 /* fd: a dma-buf, which stays the host's; see bind_input */
} clave_delegate_memory_kind;
typedef struct clave_delegate_memory {
  size_t size; /* sizeof(clave_delegate_memory) */
  clave_delegate_memory_kind kind;
  void *memory;
  int fd;
  size_t offset; /* of the tensor's first byte */
  size_t bytes;  /* that may be used, behind offset */
} clave_delegate_memory;

/* ---------------------------------------------------------------- the table */

typedef struct clave_delegate {
  size_t size;         /* sizeof(clave_delegate), set by the host */
  uint32_t version;    /* CLAVE_DELEGATE_VERSION of the plugin */
  const char *library; /* clave_version() */

  clave_code (*status_code)(const struct clave_error *status);
  const char *(*status_message)(const struct clave_error *status);
  void (*status_free)(clave_status status);

  /* Every device that clave sees (clave_devices_get), and why there is no OpenCL device: NULL where
   * there is one. Texts live as long as the process. */
  clave_status (*devices_count)(int *count);
  clave_status (*devices_get)(int index, clave_device_info *info);
  const char *(*devices_hint)(void);

  /* options: NULL is the defaults. */
  clave_status (*open)(const clave_delegate_device_options *options, clave_delegate_handle *device);
  clave_status (*device_info)(clave_delegate_handle device, clave_device_info *info);
  clave_status (*close)(clave_delegate_handle device); /* 0: nothing */

  /* Whether `device` runs each node of a graph, each by itself: by its op, attributes, dtypes and
   * the class of its shapes. answers: (graph->n_nodes). Nothing is built, run or copied; constants
   * need no data. What is wrong with one node is its answer; what is wrong with the description as
   * such (an index, a kind) is an error. */
  clave_status (*query)(clave_delegate_handle device, const clave_delegate_graph *graph,
                        clave_delegate_answer *answers);
  /* The same of the nodes of a program's method (clave_method_info.n_nodes). */
  clave_status (*query_program)(clave_delegate_handle device, clave_delegate_handle program,
                                const char *method, clave_delegate_answer *answers, uint32_t n);

  clave_status (*load)(const clave_delegate_payload *payload, clave_delegate_handle *program);
  clave_status (*unload)(clave_delegate_handle program); /* 0: nothing */
  /* As the functions of clave.h of these names. */
  clave_status (*program_info)(clave_delegate_handle program, clave_program_info *info);
  clave_status (*method)(clave_delegate_handle program, uint32_t index, clave_method_info *info);
  clave_status (*input)(clave_delegate_handle program, const char *method, uint32_t index,
                        clave_tensor_info *info);
  clave_status (*output)(clave_delegate_handle program, const char *method, uint32_t index,
                         clave_tensor_info *info);
  clave_status (*state)(clave_delegate_handle program, uint32_t index, clave_tensor_info *info);
  clave_status (*node)(clave_delegate_handle program, const char *method, uint32_t index,
                       clave_node_info *info);

  /* A program on a device, with its state. Constants, and what is made of them, are shared by all
   * instances on a device. */
  clave_status (*create)(clave_delegate_handle program, clave_delegate_handle device,
                         const clave_delegate_instance_options *options,
                         clave_delegate_handle *instance);
  /* An error while it runs, or before a submitted run was waited for. 0: nothing. */
  clave_status (*destroy)(clave_delegate_handle instance);

  /* Copies the tensor in, strided or not. */
  clave_status (*set_input)(clave_delegate_handle instance, const char *method, uint32_t index,
                            const clave_tensor *value);
  /* Each run reads the input where it is. value: dtype, dims, strides (its data is not used);
   * memory: NULL unbinds. Its sizes may change from call to call within the program's bounds. What
   * does not fit in memory->bytes is an error. A dma-buf, contiguous, is imported by
   * OpenCL devices with cl_khr_external_memory_dma_buf or cl_arm_import_memory_dma_buf
   * (device_info.extensions), and mapped for the CPU backend and OpenCL drivers of the CPU; for
   * other devices it is UNSUPPORTED, as with plugins that import none. Its fd may be closed when
   * this returns. A run does not wait for other devices that still write or read it. */
  clave_status (*bind_input)(clave_delegate_handle instance, const char *method, uint32_t index,
                             const clave_tensor *value, const clave_delegate_memory *memory);
  /* Runs write the result there, contiguous; one of more than memory->bytes fails the run. */
  clave_status (*bind_output)(clave_delegate_handle instance, const char *method, uint32_t index,
                              const clave_delegate_memory *memory);
  /* The last run's result with its dims: where it was bound (data NULL for a cl_mem or a dma-buf),
   * else in the instance's own memory, until its next run. */
  clave_status (*result)(clave_delegate_handle instance, const char *method, uint32_t index,
                         clave_tensor *out);

  /* method: NULL is the first. A run that fails may have changed state: clave_session_run. */
  clave_status (*execute)(clave_delegate_handle instance, const char *method);
  /* The same on a thread of clave's. done: called there when the run is over; may be NULL. The run
   * is the instance's until a wait has found it over. */
  clave_status (*submit)(clave_delegate_handle instance, const char *method,
                         void (*done)(void *ctx), void *ctx);
  /* Waits for a submitted run, at most timeout_ms (< 0: for its end). *over: whether it is; the
   * run's own status is then what wait returns. */
  clave_status (*wait)(clave_delegate_handle instance, int timeout_ms, bool *over);
  /* Ends the running run before its next op; that run returns CLAVE_CANCELLED. Does nothing if no
   * run is under way. The instance can run again afterwards. */
  clave_status (*cancel)(clave_delegate_handle instance);

  /* State (clave_program_info.n_state): back to its first value; an open size of it; its bytes. */
  clave_status (*reset)(clave_delegate_handle instance);
  clave_status (*resize)(clave_delegate_handle instance, const char *size, int64_t n);
  clave_status (*read_state)(clave_delegate_handle instance, uint32_t index, void *data,
                             size_t bytes);
  clave_status (*write_state)(clave_delegate_handle instance, uint32_t index, const void *data,
                              size_t bytes);
  /* All state of another instance of the same program. */
  clave_status (*copy_state)(clave_delegate_handle to, clave_delegate_handle from);
  /* Every node's results, copied to the host as they are made: for debuggers. NULL: off. */
  clave_status (*observe)(clave_delegate_handle instance, clave_observe_fn each, void *ctx);
} clave_delegate;

/* The one symbol of libclave_delegate.so. Fills in *table up to its size. CLAVE_UNSUPPORTED:
 * `version` is not that of this plugin; CLAVE_INVALID: the table has no size, or none that a
 * version had. Called as often as one likes, by any thread. */
typedef clave_code (*clave_delegate_register_fn)(uint32_t version, clave_delegate *table);
CLAVE_API clave_code clave_delegate_register(uint32_t version, clave_delegate *table);

#ifdef __cplusplus
}
#endif
#endif
