#ifndef CLAVE_DELEGATE_H
#define CLAVE_DELEGATE_H
/* clave as a plugin of a host application, which looks up one function and gets a table of
 * functions.
 *
 *   void *library = dlopen("libclave_delegate.so", RTLD_NOW | RTLD_LOCAL);
 *   clave_delegate_register_fn get = dlsym(library, CLAVE_DELEGATE_REGISTER);
 *   clave_delegate d = {.size = sizeof d};
 *   if (get(CLAVE_DELEGATE_VERSION, &d) != CLAVE_OK) ...  // the plugin has another version
 *   d.open(NULL, &device);                                // CLAVE_DEVICE, else the best device
 *   d.load(&payload, &program);
 *   d.create(program, device, NULL, &instance);
 *   d.bind_input(instance, "forward", 0, &shape, &memory);
 *   d.execute(instance, "forward");
 *
 * Opening the library does nothing: it has no constructor and no global registration. Statuses are
 * those of clave.h, read and freed by the table's own functions: a host does not link libclave.
 *
 * Versions. The table, and every struct that begins with `size`, grows at its end. The host sets
 * size to the struct's sizeof, and the plugin fills in the fields that both know. Functions that
 * the plugin lacks are NULL. Structs without size, and elements of arrays, never change.
 * CLAVE_DELEGATE_VERSION changes only if old hosts would no longer work; register then refuses
 * them.
 *
 * Handles. 0 means none. A handle that never existed, was closed, or is of another kind causes an
 * error, never a crash. Handle numbers are not reused.
 *
 * Threads. Any number of threads may use devices and programs. One thread at a time may use an
 * instance; a call during another call is an error and changes nothing. Any thread may call cancel
 * at any time, and any thread may call wait. Callbacks run on the thread that runs the instance,
 * which for submitted runs is a thread that clave started. They may call cancel; every other call
 * on the same instance is an error in a callback.
 *
 * Lifetimes. Bound memory must live until it is bound again or the instance is destroyed; payload
 * and constants until `release` is called; contexts of callbacks as long as the device or instance
 * that they were given to. Devices and programs may be closed before their instances. Results of
 * getters live as long as their handle. */
#include "clave.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CLAVE_DELEGATE_VERSION 1
#define CLAVE_DELEGATE_REGISTER "clave_delegate_register"

typedef uint64_t clave_delegate_handle; /* names a device, a program or an instance */

/* ---------------------------------------------------------------- devices */

typedef struct clave_delegate_device_options {
  size_t size;           /* sizeof(clave_delegate_device_options) */
  const char *device;    /* as for clave_device_open; NULL: CLAVE_DEVICE, else the best */
  bool no_fallback;      /* an op that the device cannot run is an error */
  int n_threads;         /* for the CPU backend; 0: CLAVE_THREADS, else one per CPU */
  const char *cache_dir; /* kernel binaries; NULL: CLAVE_CACHE_DIR, else XDG's; "off": none */
  clave_message_fn log;  /* the host's logger; receives one line at a time, from any thread */
  void *log_ctx;
  /* The host's own OpenCL objects (a cl_context, one of its cl_device_ids, a cl_command_queue of
   * both or NULL) instead of `device`, which is then NULL; clave_opencl.h describes how runs are
   * ordered. */
  void *cl_context, *cl_device, *cl_queue;
} clave_delegate_device_options;

/* ---------------------------------------------------------------- graphs and payloads */

/* A dimension that is only known at run time. min and max are inclusive; a max of INT64_MAX is no
 * bound. */
typedef struct clave_delegate_size {
  const char *name;
  int64_t min, max;
} clave_delegate_size;

typedef struct clave_delegate_tensor {
  const char *name; /* unique among inputs, outputs, states and constants */
  clave_slot_kind kind;
  clave_dtype dtype;
  int rank;
  int64_t dims[CLAVE_MAX_RANK];
  uint32_t sizes[CLAVE_MAX_RANK]; /* 1 + index in the graph's sizes; 0: dims holds the size */
  const void *data; /* data of a constant, row-major, borrowed; may be NULL in query */
} clave_delegate_tensor;

/* Kind of value in a node's field, whose name and type are those of docs/reference/ops.md. */
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
  CLAVE_DELEGATE_STEP = 10  /* the next step of an Elementwise: name is its kind ("mul"), dtype that
                               of its result, operands (n) its operands */
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
  const char *name; /* the host's name for it, for errors and events; may be "" */
  const clave_delegate_field *fields;
  uint32_t n_fields;
} clave_delegate_node;

/* After all nodes have run, copies `tensor` to `state`, which has the same dtype and shape. */
typedef struct clave_delegate_update {
  uint32_t state, tensor; /* indices of the graph's tensors */
} clave_delegate_update;

/* A graph of the host, with nodes in an order in which they can run. As a payload it is one method,
 * "forward", whose inputs and outputs are the tensors of these kinds, in order. States start with
 * zeros or with `initial`; only `updates` changes them, and no node writes them. */
typedef struct clave_delegate_graph {
  size_t size; /* sizeof(clave_delegate_graph) */
  const clave_delegate_size *sizes;
  uint32_t n_sizes;
  const clave_delegate_tensor *tensors;
  uint32_t n_tensors;
  const clave_delegate_node *nodes;
  uint32_t n_nodes;
  /* The fields below are not in the first version of this struct: older plugins ignore them, and
   * query only checks them. initial: NULL, or (n_tensors) row-major first values of states without
   * open dimensions, borrowed or copied like constants; NULL elements mean zeros. updates: at most
   * one per state. */
  const void *const *initial;
  const clave_delegate_update *updates;
  uint32_t n_updates;
} clave_delegate_graph;

/* An answer of query: whether a node is supported and, if not, why. */
typedef struct clave_delegate_answer {
  bool supported;   /* true if the device itself runs it, or if it needs no device (a view) */
  char where[15];   /* clave_placement_info.where; "none": clave cannot run it on any device */
  char reason[240]; /* one line, may be truncated; "" if supported */
} clave_delegate_answer;

typedef enum clave_delegate_format {
  CLAVE_DELEGATE_CLV = 0,     /* data: the bytes of a .clv, with its constants */
  CLAVE_DELEGATE_PROGRAM = 1, /* data: the FlatBuffers encoding; constants are passed by name */
  CLAVE_DELEGATE_GRAPH = 2    /* graph: the host's graph */
} clave_delegate_format;

typedef struct clave_delegate_constant {
  const char *name;
  clave_tensor value; /* contiguous; encoded constants as stored, U8 */
} clave_delegate_constant;

typedef struct clave_delegate_payload {
  size_t size; /* sizeof(clave_delegate_payload) */
  clave_delegate_format format;
  const void *data;
  size_t data_size; /* bytes */
  const clave_delegate_graph *graph;
  /* The constants of a PROGRAM: from the list, else from `find`, which receives the declared dtype
   * and dims, sets data and returns true if there is such a constant. */
  const clave_delegate_constant *constants;
  uint32_t n_constants;
  bool (*find)(void *ctx, const char *name, clave_tensor *constant);
  void *find_ctx;
  /* false: data and constants are borrowed and read in place. true: load copies them. */
  bool copy;
  /* Called once when data and constants are no longer read: before load returns if it fails or
   * copies, otherwise after the program and its last instance are gone. */
  void (*release)(void *ctx);
  void *release_ctx;
} clave_delegate_payload;

/* ---------------------------------------------------------------- instances */

/* Events of a successful run, reported after it, in order. */
typedef enum clave_delegate_event_kind {
  CLAVE_DELEGATE_EVENT_RUN = 0,  /* the whole run, reported last; name: the method */
  CLAVE_DELEGATE_EVENT_NODE = 1, /* needs instance_options.node_events */
  CLAVE_DELEGATE_EVENT_COPY = 2, /* needs node_events; within or between memories of devices */
} clave_delegate_event_kind;
typedef struct clave_delegate_event {
  size_t size; /* sizeof(clave_delegate_event) of the plugin */
  clave_delegate_event_kind kind;
  uint32_t node; /* index in the program's method */
  const char *op, *name, *device;
  int64_t start_ns, end_ns; /* monotonic clock */
} clave_delegate_event;

typedef struct clave_delegate_instance_options {
  size_t size;            /* sizeof(clave_delegate_instance_options) */
  uint64_t memory_budget; /* bytes; 0: CLAVE_MEMORY_BUDGET, else the device's memory */
  bool fast;              /* clave_session_options.fast */
  bool allow_custom_kernels;
  uint64_t seed; /* seed of random ops */
  /* The host's profiler. node_events slow runs down, as each node is timed. */
  void (*event)(void *ctx, const clave_delegate_event *event);
  void *event_ctx;
  bool node_events;
  clave_progress_fn progress; /* called while kernels are built */
  void *progress_ctx;
} clave_delegate_instance_options;

typedef enum clave_delegate_memory_kind {
  CLAVE_DELEGATE_HOST = 0,   /* memory: an address */
  CLAVE_DELEGATE_CL_MEM = 1, /* memory: a cl_mem of the context that the device was opened with */
  CLAVE_DELEGATE_DMA_BUF = 2 /* fd: a dma-buf, which the host keeps; see bind_input */
} clave_delegate_memory_kind;
typedef struct clave_delegate_memory {
  size_t size; /* sizeof(clave_delegate_memory) */
  clave_delegate_memory_kind kind;
  void *memory;
  int fd;
  size_t offset; /* bytes before the tensor's first byte */
  size_t bytes;  /* bytes that may be used, from offset on */
} clave_delegate_memory;

/* ---------------------------------------------------------------- the table */

typedef struct clave_delegate {
  size_t size;         /* sizeof(clave_delegate), set by the host */
  uint32_t version;    /* CLAVE_DELEGATE_VERSION of the plugin */
  const char *library; /* clave_version() */

  clave_code (*status_code)(const struct clave_error *status);
  const char *(*status_message)(const struct clave_error *status);
  void (*status_free)(clave_status status);

  /* Lists the devices that clave finds (clave_devices_get). devices_hint explains why there is no
   * OpenCL device; NULL if there is one. Texts live as long as the process. */
  clave_status (*devices_count)(int *count);
  clave_status (*devices_get)(int index, clave_device_info *info);
  const char *(*devices_hint)(void);

  /* Opens a device. options: NULL for the defaults. */
  clave_status (*open)(const clave_delegate_device_options *options, clave_delegate_handle *device);
  clave_status (*device_info)(clave_delegate_handle device, clave_device_info *info);
  clave_status (*close)(clave_delegate_handle device); /* 0: does nothing */

  /* Reports for each node of a graph, by itself, if `device` runs it: by its op, attributes, dtypes
   * and the class of its shapes. answers: (graph->n_nodes). Nothing is built, run or copied;
   * constants need no data. A problem with one node is reported in its answer; a malformed
   * description (index, kind) is an error. */
  clave_status (*query)(clave_delegate_handle device, const clave_delegate_graph *graph,
                        clave_delegate_answer *answers);
  /* Reports the same for a method of a program; n must be its clave_method_info.n_nodes. */
  clave_status (*query_program)(clave_delegate_handle device, clave_delegate_handle program,
                                const char *method, clave_delegate_answer *answers, uint32_t n);

  clave_status (*load)(const clave_delegate_payload *payload, clave_delegate_handle *program);
  clave_status (*unload)(clave_delegate_handle program); /* 0: does nothing */
  /* Same as the functions of these names in clave.h. */
  clave_status (*program_info)(clave_delegate_handle program, clave_program_info *info);
  clave_status (*method)(clave_delegate_handle program, uint32_t index, clave_method_info *info);
  clave_status (*input)(clave_delegate_handle program, const char *method, uint32_t index,
                        clave_tensor_info *info);
  clave_status (*output)(clave_delegate_handle program, const char *method, uint32_t index,
                         clave_tensor_info *info);
  clave_status (*state)(clave_delegate_handle program, uint32_t index, clave_tensor_info *info);
  clave_status (*node)(clave_delegate_handle program, const char *method, uint32_t index,
                       clave_node_info *info);

  /* Makes an instance: a program on a device, with its state. All instances of a program on a
   * device share the constants and the packed weights. */
  clave_status (*create)(clave_delegate_handle program, clave_delegate_handle device,
                         const clave_delegate_instance_options *options,
                         clave_delegate_handle *instance);
  /* Fails while the instance runs, and until wait has reported the end of a submitted run. 0: does
   * nothing. */
  clave_status (*destroy)(clave_delegate_handle instance);

  /* Copies the tensor, which may be strided. */
  clave_status (*set_input)(clave_delegate_handle instance, const char *method, uint32_t index,
                            const clave_tensor *value);
  /* Makes runs read the input in place. value: dtype, dims and strides (data is ignored); memory:
   * NULL unbinds. Dims may change between calls within the program's bounds. A tensor that exceeds
   * memory->bytes is an error. A dma-buf must be contiguous. OpenCL devices with
   * cl_khr_external_memory_dma_buf or cl_arm_import_memory_dma_buf (device_info.extensions) import
   * it; the CPU backend and OpenCL drivers of the CPU map it; other devices, and plugins without
   * support, return UNSUPPORTED. Its fd may be closed when this returns. A run does not wait for
   * other devices that still write or read it. */
  clave_status (*bind_input)(clave_delegate_handle instance, const char *method, uint32_t index,
                             const clave_tensor *value, const clave_delegate_memory *memory);
  /* Makes runs write the contiguous result to `memory`; a run fails if it exceeds memory->bytes. */
  clave_status (*bind_output)(clave_delegate_handle instance, const char *method, uint32_t index,
                              const clave_delegate_memory *memory);
  /* Returns the last run's result with its dims: where it was bound (data is NULL for a cl_mem or a
   * dma-buf), else in the instance's memory, valid until its next run. */
  clave_status (*result)(clave_delegate_handle instance, const char *method, uint32_t index,
                         clave_tensor *out);

  /* Runs a method (NULL: the first). A failed run may have changed state, as in
   * clave_session_run. */
  clave_status (*execute)(clave_delegate_handle instance, const char *method);
  /* Starts a run on a thread of the library. done: called on that thread when the run is over; may
   * be NULL. Other calls on the instance fail until wait has reported the end of the run. */
  clave_status (*submit)(clave_delegate_handle instance, const char *method,
                         void (*done)(void *ctx), void *ctx);
  /* Waits for a submitted run, at most timeout_ms (< 0: without limit). Sets *over to true if the
   * run is over; wait then returns the run's status. */
  clave_status (*wait)(clave_delegate_handle instance, int timeout_ms, bool *over);
  /* Stops the current run before its next op; that run returns CLAVE_CANCELLED. Does nothing if
   * there is no run. The instance can run again afterwards. */
  clave_status (*cancel)(clave_delegate_handle instance);

  /* Reset all state (clave_program_info.n_state), resize it, or copy one tensor's bytes. */
  clave_status (*reset)(clave_delegate_handle instance);
  clave_status (*resize)(clave_delegate_handle instance, const char *size, int64_t n);
  clave_status (*read_state)(clave_delegate_handle instance, uint32_t index, void *data,
                             size_t bytes);
  clave_status (*write_state)(clave_delegate_handle instance, uint32_t index, const void *data,
                              size_t bytes);
  /* Copies all state from another instance of the same program. */
  clave_status (*copy_state)(clave_delegate_handle to, clave_delegate_handle from);
  /* Calls `each` with every node's results, copied to the host, for debuggers. NULL: off. */
  clave_status (*observe)(clave_delegate_handle instance, clave_observe_fn each, void *ctx);
} clave_delegate;

/* The only symbol of libclave_delegate.so; any thread may call it any number of times. Fills in
 * *table up to its size. CLAVE_UNSUPPORTED: the plugin has another version than `version`.
 * CLAVE_INVALID: table->size is 0 or smaller than in the first version. */
typedef clave_code (*clave_delegate_register_fn)(uint32_t version, clave_delegate *table);
CLAVE_API clave_code clave_delegate_register(uint32_t version, clave_delegate *table);

#ifdef __cplusplus
}
#endif
#endif
