#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H
/* The abstraction over devices: interp/ knows devices only through this file. Backends use only
 * decoded instructions, the rules and descriptions of ops/, and base/. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/kernel.h"
#include "base/status.h"
#include "base/tuning.h"
#include "ops/node.h"

typedef struct backend backend; /* an opened device; implementations begin with it */
typedef struct stream stream;   /* a session's queue, kernels, scratch memory and faults;
                                   implementations begin with it */

/* Key of a session's random numbers. */
typedef struct random_key {
  uint64_t seed;
  uint64_t run; /* counts the straight-line sections of instructions that the session has run, in
                   each iteration of a loop again, so that no random node gets the same number
                   twice */
} random_key;

/* A request for a packed weight: a constant operand in the layout that a kernel reads. All requests
 * that are equal except for `pack` share one packed weight per device. */
typedef struct packed_weight_request {
  uint32_t constant; /* Tid */
  tensor view;       /* view of the constant, as in the operand; dims beyond the rank are 0 */
  int kind;          /* the backend's number of the layout */
  int64_t size[3];   /* all other values that determine the bytes */
  size_t bytes;
  struct recording *pack; /* packs the operand into the first `bytes` of its own scratch memory; the
                             rest of that memory is temporary. NULL: the recording uses the packed
                             weight only if another recording made it, by a request that is equal
                             except for `bytes` and `pack` */
} packed_weight_request;
enum { MAX_PACKED_WEIGHTS = 2 };
/* True if a recording that requests `right` without `pack` may read the packed weight of `left`. */
static inline bool packed_weight_serves(const packed_weight_request *left,
                                        const packed_weight_request *right) {
  return left->constant == right->constant && left->kind == right->kind &&
         memcmp(left->size, right->size, sizeof left->size) == 0 &&
         tensor_same_view(&left->view, &right->view);
}
/* True if both name the same packed weight: all fields but `pack` are equal. */
static inline bool packed_weights_equal(const packed_weight_request *left,
                                        const packed_weight_request *right) {
  return left->bytes == right->bytes && packed_weight_serves(left, right);
}

/* Rounding of a Matmul's operands before they are multiplied. */
typedef enum rounding {
  ROUNDS_NOTHING,
  ROUNDS_ROWS,    /* a, to 8 bits (base/rounded.h) */
  ROUNDS_TO_BF16, /* a and b; in attention on the CPU backend: scaled q, k, softmax weights and v */
  ROUNDS_TO_F16   /* a, b and sums of few products */
} rounding;

/* The work of a node, for any buffers; read-only, so that sessions can share it. Implementations
 * begin with this struct. */
typedef struct recording {
  size_t scratch_bytes;                              /* temporary memory for a run */
  uint64_t serial;                                   /* unique in the process; set by its maker */
  uint32_t holds;                                    /* number of holders; managed by its maker */
  packed_weight_request weights[MAX_PACKED_WEIGHTS]; /* (n_weights) packed weights that it reads;
                                                        each `pack` is owned */
  int n_weights;
  rounding rounds;
  bool is_refused; /* the device has refused one of its kernels and has no alternative */
} recording;

/* Operands of a run of a recording. */
typedef struct run_operands {
  const bound_tensor *tensors; /* indexed by Tid */
  buffer *scratch;             /* at least recording.scratch_bytes */
  buffer *const *weights;      /* (n_weights), as in the recording; an element is NULL if its
                                  request has no `pack` and nobody packed it */
  random_key random;
} run_operands;

typedef struct backend_info {
  const char *kind;       /* "cpu" or "opencl" */
  const char *name;       /* device name, one line */
  const char *platform;   /* platform and version */
  const char *driver;     /* driver version */
  const char *version;    /* OpenCL version, whose text may have the model: "OpenCL 3.0 ..."; "" */
  const char *type;       /* "CPU", "GPU", "accelerator", "custom" */
  const char *extensions; /* names of used extensions, space-separated */
  uint64_t memory;        /* bytes */
  uint64_t max_alloc;     /* largest buffer, in bytes */
  size_t alignment;       /* in bytes, of sub-allocations and of arguments used in place */
  uint32_t compute_units, clock_mhz;
  uint64_t speed;          /* estimate of floats per ns by which devices of a type are ranked */
  bool is_trusted;         /* new kernels are built in this process, without a trial in a child */
  bool shares_host_memory; /* the device has no memory of its own */
  bool runs_on_host;       /* it runs on the host's processors, so buffer_wrap works for any mapped
                              memory */
  /* buffer_wrap uses host memory in place if it begins at a multiple of wrap_alignment and, if the
   * device may write it, its size is a multiple of wrap_multiple. 0: all memory is copied. */
  size_t wrap_alignment, wrap_multiple;
  /* Together with a request, identifies the bytes of a packed weight: "KIND VERSION TRAITS", at
   * most 31 bytes. It is the key of packed weights in files, so VERSION grows whenever a kernel
   * packs differently. NULL: packed weights are not stored in files. */
  const char *weight_layout;
} backend_info;

/* True if the device can allocate a buffer of this size, rounded up to the alignment. */
static inline bool backend_holds(const backend_info *info, size_t bytes) {
  const uint64_t alignment = info->alignment ? info->alignment : 64;
  return !info->max_alloc || (bytes + alignment - 1) / alignment * alignment <= info->max_alloc;
}

/* Returns true if buffer_wrap would use the host's memory in place. */
static inline bool backend_wraps_in_place(const backend_info *info, const void *host, size_t bytes,
                                          bool writable) {
  return info->wrap_alignment && (uintptr_t)host % info->wrap_alignment == 0 &&
         (!writable || bytes % info->wrap_multiple == 0);
}

/* A data error found by a kernel: an index out of range, an integer division by zero. */
typedef struct device_fault {
  bool present;
  uint32_t node; /* `number` of run() */
  kernel_fault fault;
} device_fault;

/* Address of memory in a driver's object, in a dma-buf, or else on the host, to find overlaps. */
typedef struct memory_start {
  const void *object; /* object of a driver; else NULL */
  uint64_t file[2];   /* identity of a dma-buf (base/dma_buf.h); else 0 */
  uintptr_t from;     /* byte offset in the object or dma-buf; else an address of the host */
} memory_start;

typedef bool (*build_progress)(void *ctx, int done, int total);

/* Memory and a command queue that belong to the caller. */
typedef struct backend_sharing {
  /* Makes a buffer over the caller's device memory. handle: the driver's object, which is retained
   * until buffer_destroy. Only `bytes` from `offset` on are used; *place receives their address. */
  clave_status (*adopt)(backend *backend, void *handle, size_t offset, size_t bytes, bool writable,
                        memory_start *place, buffer **out);
  /* Makes a buffer over a dma-buf of `bytes`; the caller keeps `fd`. UNSUPPORTED: the device cannot
   * import it. Each run calls acquire before and release after it uses the buffer. */
  clave_status (*import)(backend *backend, int fd, size_t bytes, bool writable, buffer **out);
  clave_status (*acquire)(stream *stream, buffer *imported);
  clave_status (*release)(stream *stream, buffer *imported);
  /* Makes commands that are enqueued from now on wait for the commands in the caller's queue. If
   * one of the caller's commands fails, finish returns the error. */
  clave_status (*begin)(stream *stream);
} backend_sharing;

/* Building of kernels before a recording runs. */
typedef struct backend_building {
  /* request adds a recording's kernels to a list. build_all builds the kernels on the list in
   * parallel and clears it. It calls progress(done, total), if given, even if the list is empty,
   * and stops if progress returns false. prepare reports kernels that fail to build. */
  clave_status (*request)(stream *stream, const recording *recording);
  clave_status (*build_all)(stream *stream, build_progress progress, void *ctx);
  /* Returns true if each program of the recording was built or was refused by the compiler. */
  bool (*is_built)(stream *stream, const recording *recording);
  /* Returns true if the driver has refused a kernel of the recording. Later recordings of the node
   * avoid refused kernels if the device has others. */
  bool (*was_refused)(stream *stream, const recording *recording);
  /* Makes a recording's state ahead of run(). UNSUPPORTED: the device cannot run one of its
   * kernels. */
  clave_status (*prepare)(stream *stream, const recording *recording, void **state);
  void (*cache_destroy)(backend *backend, void *cache); /* destroys node.cache */
} backend_building;

/* Record of the comparison of kernels' results with the CPU backend's at their first run. */
typedef struct backend_proof {
  /* Sets *unproven if a kernel of the recording was never compared on this device and driver at
   * sizes of the same class. prove records that the results were right. packs: also include the
   * kernels that packed the recording's weights (false if the weights came from a file). */
  clave_status (*is_unproven)(stream *stream, const recording *recording, bool packs,
                              bool *unproven);
  clave_status (*prove)(stream *stream, const recording *recording, bool packs);
} backend_proof;

/* Like write and read of backend_vtable, but return at once: the host's memory is in use until
 * finish. */
typedef struct backend_overlap {
  clave_status (*write)(stream *stream, buffer *to, size_t offset, const void *from, size_t bytes);
  clave_status (*read)(stream *stream, const buffer *from, size_t offset, void *to, size_t bytes);
} backend_overlap;

/* Start and end times of the commands that run() enqueued under a `number`. */
typedef struct backend_profile {
  clave_status (*enable)(stream *stream, bool on);
  /* Returns ns of the device's clock after finish, for commands that ran since `enable`. */
  clave_status (*times)(stream *stream, uint32_t number, int64_t *start_ns, int64_t *end_ns);
} backend_profile;

/* Values that fast precision keeps as BF16. */
typedef struct backend_precision {
  /* Returns true if a fast recording of the node can read or write this F32 operand as BF16, and
   * does not get slower by it. Called before recording: operands without a location yet have the
   * program's strides. */
  bool (*supports_bf16)(backend *backend, const node *node, uint32_t slot);
} backend_precision;

/* The functions that every backend has, and tables of optional functions. */
typedef struct backend_vtable {
  void (*destroy)(backend *backend);

  clave_status (*buffer_create)(backend *backend, size_t bytes,
                                buffer **out); /* uninitialised; `bytes` may be 0 */
  /* Makes a buffer over host memory that outlives it: in place if backend_wraps_in_place, else a
   * copy. For a buffer in place, a write from that memory makes the host's changes visible to the
   * device, and a read into it makes the device's changes visible to the host. */
  clave_status (*buffer_wrap)(backend *backend, const void *host, size_t bytes, bool writable,
                              buffer **out);
  void (*buffer_destroy)(backend *backend, buffer *buf); /* accepts NULL */

  /* Returns true if the backend can run the instruction with these operand types (dims may be
   * unknown); else `reason` (one line, static or in the backend) says why not. */
  bool (*supports)(backend *backend, const rule_context *context, const ir_instruction *ins,
                   const char **reason);

  clave_status (*stream_create)(backend *backend, stream **out);
  void (*stream_destroy)(backend *backend, stream *stream); /* waits; accepts NULL */
  /* Records the work of a node. Its tensors have types and slots, but no buffers; instruction and
   * values outlive the recording. fast: kernels may contract a * b + c, flush subnormals, divide
   * less exactly, and round factors of products (recording.rounds). */
  clave_status (*record)(backend *backend, const node *node, bool fast, recording **out);
  void (*recording_destroy)(backend *backend, recording *recording); /* accepts NULL */
  /* Enqueues the node, which is neither a view nor a host op. state: the stream's data for this
   * recording, NULL at first. Faults are reported with `number`. After UNSUPPORTED, the node can
   * be computed again: an operand that it has overwritten contains what it would write again. */
  clave_status (*run)(stream *stream, const recording *recording, void **state,
                      const run_operands *operands, uint32_t number);
  void (*state_destroy)(stream *stream, void *state); /* accepts NULL */
  /* Packs a weight into `to`, which all streams may read when this returns. operands: indexed by
   * Tid; only the weight's operand is read. clears: also zeros the bytes that no kernel writes. The
   * time is not charged to a node. */
  clave_status (*pack)(stream *stream, const packed_weight_request *request,
                       const bound_tensor *operands, bool clears, buffer *to);
  clave_status (*write)(stream *stream, buffer *to, size_t offset, const void *from,
                        size_t bytes); /* `from` may be changed after the return */
  clave_status (*read)(stream *stream, const buffer *from, size_t offset, void *to,
                       size_t bytes); /* waits */
  clave_status (*fill_zero)(stream *stream, buffer *to, size_t offset, size_t bytes);
  /* Copies between buffers of one backend; other streams have finished writing `from`. */
  clave_status (*copy)(stream *stream, buffer *to, size_t to_offset, const buffer *from,
                       size_t from_offset, size_t bytes);
  /* Waits for all work and reports the first fault since the last finish. */
  clave_status (*finish)(stream *stream, device_fault *fault);

  /* NULL: the backend lacks the functions. `sharing` is required unless runs_on_host. */
  const backend_sharing *sharing;
  const backend_overlap *overlap;
  const backend_building *building;
  const backend_proof *proof;
  const backend_profile *profile;
  const backend_precision *precision;
} backend_vtable;

struct backend {
  const backend_vtable *vt;
  backend_info info;
  tuning *tuning; /* borrowed from the backend's device; NULL: select variants by rule */
};
/* Device memory; implementations begin with this struct. */
struct buffer {
  size_t bytes;
};
struct stream {
  backend *owner;
};

/* ---- implementations ---- */
clave_status cpu_backend_create(int n_threads, backend **out) STATUS_CHECK;

typedef struct opencl_options {
  const char *cache_dir;  /* folder of kernel binaries; NULL: none */
  const char *kernel_dir; /* folder of .cl files; NULL: the embedded ones */
  void (*message)(void *ctx, const char *line);
  void *message_ctx;
  bool builds_here;     /* build kernels without child processes */
  const void *binaries; /* file of opencl_save_binaries, borrowed, used before the cache; or NULL */
  size_t binaries_size;
  /* The caller's context, which is used instead of a new one, and the caller's queue, for whose
   * commands streams wait. Both are retained. NULL: the caller has none. */
  void *context, *queue;
} opencl_options;
/* Sets where drivers that cannot use shared memory keep files while the process lives: in a new
 * folder in `folder`, or in the folder for temporary files if `folder` is NULL or unusable. Call
 * this before the functions below; only the first call has an effect. */
void opencl_keep_files_in(const char *folder);
/* Lists the OpenCL devices of every platform, in the order of `clave devices`. Without a loader or
 * a device, *count is 0 and *reason says why; this is not an error. Otherwise *reason names the
 * devices that were left out and why, or is NULL. *infos lives as long as the library. */
clave_status opencl_devices(const backend_info **infos, int *count,
                            const char **reason) STATUS_CHECK;
/* Sets *out to the name or path of the OpenCL library, as it was opened, or to NULL. */
clave_status opencl_library_file(const char **out) STATUS_CHECK;
/* Finds the index of a cl_device_id in the list of opencl_devices. */
clave_status opencl_find_device(const void *device, int *index) STATUS_CHECK;
/* Opens device `index` of the list of opencl_devices as a backend. */
clave_status opencl_backend_create(int index, const opencl_options *options,
                                   backend **out) STATUS_CHECK;

/* True once a device was lost in this process. */
bool opencl_was_lost(void);

/* Writes a file with the binaries of the kernels that ran on the device in this process. Returns
 * UNSUPPORTED if there are no binaries. */
clave_status opencl_save_binaries(backend *backend, const char *path) STATUS_CHECK;

/* Builds kernels for the process at the other end of a socket, until it closes the socket or sends
 * no request for a while. */
clave_status opencl_serve_builds(int socket) STATUS_CHECK;

/* Statistics of the folder of kernel binaries, which may be missing. */
typedef struct cache_stats {
  uint64_t bytes, files, limit_bytes;
} cache_stats;
clave_status cache_info(const char *folder, cache_stats *out) STATUS_CHECK;
/* Kernel binaries of one device and driver in a file of cache_export. */
typedef struct kernel_group {
  const char *platform, *device, *driver; /* valid during the call */
  uint64_t kernels, bytes;
  uint64_t added;  /* import: binaries that the cache lacked */
  bool is_present; /* import: this machine has the device and the driver */
} kernel_group;
typedef void (*kernel_report)(void *ctx, const kernel_group *group);
/* Writes all binaries in the folder, which may be missing, to a file. */
clave_status cache_export(const char *folder, const char *path, kernel_report report,
                          void *ctx) STATUS_CHECK;
/* Saves those binaries of a file of cache_export that are for devices of this machine. A damaged
 * file changes nothing. */
clave_status cache_import(const char *folder, const char *path, kernel_report report,
                          void *ctx) STATUS_CHECK;
/* Removes the least recently used binaries until at most max_bytes are left. removed may be
 * NULL. */
clave_status cache_trim(const char *folder, uint64_t max_bytes, uint64_t *removed) STATUS_CHECK;

/* Write and read without waiting if the backend supports it (backend_overlap), else wait. */
static inline clave_status enqueue_write(stream *stream, buffer *to, size_t offset,
                                         const void *from, size_t bytes) {
  const backend_vtable *vt = stream->owner->vt;
  return (vt->overlap ? vt->overlap->write : vt->write)(stream, to, offset, from, bytes);
}

static inline clave_status enqueue_read(stream *stream, const buffer *from, size_t offset, void *to,
                                        size_t bytes) {
  const backend_vtable *vt = stream->owner->vt;
  return (vt->overlap ? vt->overlap->read : vt->read)(stream, from, offset, to, bytes);
}

#endif
