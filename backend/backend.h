#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H
/* The abstraction over devices. interp/ sees nothing below this file; a backend sees nothing above
 * it but decoded structs, ops' tensor types and base/. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/kernel.h"
#include "base/status.h"
#include "base/tuning.h"
#include "ops/node.h"

typedef struct backend backend; /* an opened device; every implementation starts with this struct */
typedef struct stream
    stream; /* one session's queue, kernels, scratch, error record; starts with this struct */

/* Where a session's random numbers come from. */
typedef struct random_key {
  uint64_t seed;
  uint64_t run; /* straight stretches of instructions that the session has run, bodies of loops
                   each time: no random node sees the same number twice */
} random_key;

/* Names a packed weight: a constant operand in the layout that a kernel reads. A device keeps one
 * packed weight for all requests that are equal except for `pack`. */
typedef struct packed_weight_request {
  uint32_t constant; /* Tid */
  tensor view;       /* of its elements, as the operand sees them; dims beyond the rank are 0 */
  int kind;          /* the backend's own number of the layout */
  int64_t size[3];   /* everything else that decides the bytes */
  size_t bytes;
  struct recording *pack; /* writes the packed weight to its scratch memory, from the operand; any
                             scratch memory beyond `bytes` is temporary. NULL: the recording reads
                             a packed weight only where another recording's request made one that
                             is equal except for `bytes` and `pack` */
} packed_weight_request;
enum { MAX_PACKED_WEIGHTS = 2 };
/* True if a recording that requests right without `pack` may read left. */
static inline bool packed_weight_serves(const packed_weight_request *left,
                                        const packed_weight_request *right) {
  return left->constant == right->constant && left->kind == right->kind &&
         memcmp(left->size, right->size, sizeof left->size) == 0 &&
         tensor_same_view(&left->view, &right->view);
}
/* True if they name one packed weight: all fields but `pack` are equal. */
static inline bool packed_weights_equal(const packed_weight_request *left,
                                        const packed_weight_request *right) {
  return left->bytes == right->bytes && packed_weight_serves(left, right);
}

/* How the operands of a Matmul are rounded before they are multiplied. */
typedef enum rounding {
  ROUNDS_NOTHING,
  ROUNDS_ROWS,   /* a to 8 bits, as base/rounded.h says */
  ROUNDS_TO_BF16 /* a and b; of attention on the CPU backend q, scaled, k, its weights, and v */
} rounding;

/* What a node does, for any buffers; every implementation starts with this struct. Read-only, so
 * that sessions share it. */
typedef struct recording {
  size_t scratch_bytes; /* memory that it wants while it runs */
  uint64_t serial;      /* its maker's: no two of a process have the same */
  uint32_t holds;       /* its maker's */
  packed_weight_request weights[MAX_PACKED_WEIGHTS]; /* that it reads; `pack` owned */
  int n_weights;
  rounding rounds;
} recording;

/* What it runs with. */
typedef struct run_operands {
  const bound_tensor *tensors; /* by Tid */
  buffer *scratch;             /* at least of the recording's bytes */
  buffer *const *weights;      /* the recording's; NULL: one without `pack` that nobody made */
  random_key random;
} run_operands;

typedef struct backend_info {
  const char *kind;       /* "cpu" or "opencl" */
  const char *name;       /* device name, one line */
  const char *platform;   /* platform and version */
  const char *driver;     /* driver version */
  const char *type;       /* "CPU", "GPU", "accelerator", "custom" */
  const char *extensions; /* those we use, space separated */
  uint64_t memory;        /* bytes */
  uint64_t max_alloc;     /* bytes of one buffer */
  size_t alignment;       /* bytes: of sub-allocations, and of host memory used in place */
  uint32_t compute_units, clock_mhz;
  bool shares_host_memory; /* buffer_wrap works without a copy */
  bool runs_on_host;       /* and so for any memory that is mapped: its processors are the host's */
  /* Everything that decides the bytes of a packed weight beside its request: "KIND VERSION TRAITS",
   * at most 31 bytes. Files keep packed weights by it: VERSION grows whenever a kernel packs
   * otherwise. NULL: files keep none. */
  const char *weight_layout;
} backend_info;

/* A data error found by a kernel: an index out of range, an integer division by zero. */
typedef struct device_fault {
  bool present;
  uint32_t node; /* number given to run() */
  kernel_fault fault;
} device_fault;

/* Where memory begins, so that overlaps show: in an object of a driver, in a
 * dma-buf, or, without one, in the host's. */
typedef struct memory_start {
  const void *object;
  uint64_t file[2]; /* of a dma-buf (base/dma_buf.h); else 0 */
  uintptr_t from;
} memory_start;

typedef bool (*build_progress)(void *ctx, int done, int total);

/* Memory and a command queue that belong to the caller. */
typedef struct backend_sharing {
  /* A buffer over the caller's memory of the device, by its driver's handle; held until
   * buffer_destroy. Only the `bytes` from `offset` on will be used, which lie at *place. */
  clave_status (*adopt)(backend *backend, void *handle, size_t offset, size_t bytes, bool writable,
                        memory_start *place, buffer **out);
  /* A buffer over a dma-buf of `bytes`; `fd` stays the caller's. UNSUPPORTED: the device cannot.
   * Commands may use it from acquire to release, which are called for each run. */
  clave_status (*import)(backend *backend, int fd, size_t bytes, bool writable, buffer **out);
  clave_status (*acquire)(stream *stream, buffer *imported);
  clave_status (*release)(stream *stream, buffer *imported);
  /* Commands that are enqueued from now on wait for those in the caller's own queue. If one of the
   * caller's fails, finish returns the error. */
  clave_status (*begin)(stream *stream);
} backend_sharing;

/* Kernels that are built before a recording runs. */
typedef struct backend_building {
  /* Notes what a recording needs built; build_all builds everything noted since, in parallel, and
   * calls progress(done, total) if given, also where nothing is done since; where it says false the
   * rest stays unbuilt. What does not build is prepare's to say. */
  clave_status (*request)(stream *stream, const recording *recording);
  clave_status (*build_all)(stream *stream, build_progress progress, void *ctx);
  /* Returns true when each program of the recording was built or was refused by the compiler. */
  bool (*is_built)(stream *stream, const recording *recording);
  /* Makes the state that run() has else to make. UNSUPPORTED: a kernel cannot run on the device. */
  clave_status (*prepare)(stream *stream, const recording *recording, void **state);
  void (*cache_destroy)(backend *backend, void *cache); /* of node.cache */
} backend_building;

/* Results of kernels are compared with the CPU backend's the first time they run. */
typedef struct backend_proof {
  /* Sets *unproven if a kernel of the recording was never compared on this device and driver at
   * sizes of the same class. prove records that the results were right. packs: include the kernels
   * that packed the recording's weights, which were not read from a file. */
  clave_status (*is_unproven)(stream *stream, const recording *recording, bool packs,
                              bool *unproven);
  clave_status (*prove)(stream *stream, const recording *recording, bool packs);
} backend_proof;

/* Copies that overlap with the host: as write and read of the core, without waiting. The host's
 * memory is in use until finish. */
typedef struct backend_overlap {
  clave_status (*write)(stream *stream, buffer *to, size_t offset, const void *from, size_t bytes);
  clave_status (*read)(stream *stream, const buffer *from, size_t offset, void *to, size_t bytes);
} backend_overlap;

/* When what ran under a number began and ended. */
typedef struct backend_profile {
  clave_status (*enable)(stream *stream, bool on);
  /* In ns of the device's clock, once it is finished; of what ran since times were asked for. */
  clave_status (*times)(stream *stream, uint32_t number, int64_t *start_ns, int64_t *end_ns);
} backend_profile;

/* Values that fast precision keeps as BF16. */
typedef struct backend_precision {
  /* Returns true if a fast recording of the node reads or writes this F32 operand as BF16 without
   * being slower. Asked before anything is recorded: operands that are not placed yet have the
   * strides that the program gives them. */
  bool (*supports_bf16)(backend *backend, const node *node, uint32_t slot);
} backend_precision;

/* The functions that every backend has, and optional tables of further ones. */
typedef struct backend_vtable {
  void (*destroy)(backend *backend);

  clave_status (*buffer_create)(backend *backend, size_t bytes,
                                buffer **out); /* uninitialised; bytes may be 0 */
  /* A buffer over host memory that outlives it; in place if shares_host_memory and aligned, else a
   * copy. Where it is in place, write and read of the memory itself tell the device and the host
   * that the other has changed it. */
  clave_status (*buffer_wrap)(backend *backend, const void *host, size_t bytes, bool writable,
                              buffer **out);
  void (*buffer_destroy)(backend *backend, buffer *buf); /* takes NULL */

  /* Can this backend run the instruction with these operand types (dims may be unknown)? If not,
   * `reason` (one line, static or in the backend) says why. */
  bool (*supports)(backend *backend, const rule_context *context, const ir_instruction *ins,
                   const char **reason);

  clave_status (*stream_create)(backend *backend, stream **out);
  void (*stream_destroy)(backend *backend, stream *stream); /* waits; takes NULL */
  /* What the node does: its tensors have types and slots, no buffers; instruction and values
   * outlive it. fast: kernels may contract a * backend + c, flush subnormals, divide less exactly,
   * and round what is multiplied with a constant, see recording.rounds. */
  clave_status (*record)(backend *backend, const node *node, bool fast, recording **out);
  void (*recording_destroy)(backend *backend, recording *recording); /* takes NULL */
  /* Enqueues a node; not views, not host ops. state: the stream's own for this recording, NULL at
   * first. `number` is what faults are reported with. */
  clave_status (*run)(stream *stream, const recording *recording, void **state,
                      const run_operands *operands, uint32_t number);
  void (*state_destroy)(stream *stream, void *state); /* takes NULL */
  /* Packs a weight into `to`, which all streams may read when this returns. operands: by Tid; only
   * the weight's own is read. clears: bytes that no kernel writes are zeros. The time is not
   * charged to a node. */
  clave_status (*pack)(stream *stream, const packed_weight_request *request,
                       const bound_tensor *operands, bool clears, buffer *to);
  clave_status (*write)(stream *stream, buffer *to, size_t offset, const void *from,
                        size_t bytes); /* `from` free on return */
  clave_status (*read)(stream *stream, const buffer *from, size_t offset, void *to,
                       size_t bytes); /* waits */
  clave_status (*fill_zero)(stream *stream, buffer *to, size_t offset, size_t bytes);
  /* Between buffers of the same backend; whoever else wrote `from` has finished. */
  clave_status (*copy)(stream *stream, buffer *to, size_t to_offset, const buffer *from,
                       size_t from_offset, size_t bytes);
  /* Waits for all work and reports the first fault since the last finish. */
  clave_status (*finish)(stream *stream, device_fault *fault);

  /* NULL: the backend does not have these functions. `sharing` is required unless runs_on_host. */
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
  tuning *tuning; /* borrowed from the device that the backend belongs to; NULL: by rule alone */
};
/* Device memory; every implementation starts with this struct. */
struct buffer {
  size_t bytes;
};
struct stream {
  backend *owner;
};

/* ---- implementations ---- */
clave_status cpu_backend_create(int n_threads, backend **out) STATUS_CHECK;

typedef struct opencl_options {
  const char *cache_dir; /* folder of kernel binaries; NULL = none */
  const char
      *kernel_dir; /* read .cl files from here instead of the embedded ones; NULL = embedded */
  void (*message)(void *ctx, const char *line);
  void *message_ctx;
  bool builds_here; /* no child processes build kernels */
  const void
      *binaries; /* of opencl_save_binaries, borrowed, looked at ahead of the cache; or NULL */
  size_t binaries_size;
  /* The caller's, held, in place of a context of its own; after whose commands streams begin. */
  void *context, *queue;
} opencl_options;
/* Where drivers may keep files while the process lives, if there is no room in memory: in a folder
 * of its own within this one; NULL or one that cannot be used: within that for temporary files.
 * Before the first of the calls below; the first call counts. */
void opencl_keep_files_in(const char *folder);
/* Every OpenCL device of every platform, in the order of `clave devices`. No loader or no device
 * gives count 0 and a reason, not an error; otherwise reason names devices that were left out and
 * why, or is NULL. infos live as long as the library. */
clave_status opencl_devices(const backend_info **infos, int *count,
                            const char **reason) STATUS_CHECK;
/* The index of a cl_device_id in that list. */
clave_status opencl_find_device(const void *device, int *index) STATUS_CHECK;
clave_status opencl_backend_create(int index, const opencl_options *options,
                                   backend **out) STATUS_CHECK;

/* A file with the binaries of the kernels that ran on the device in this process. UNSUPPORTED:
 * there are none. */
clave_status opencl_save_binaries(backend *backend, const char *path) STATUS_CHECK;

/* Builds kernels for the process at the other end of a socket, until that closes it or has not
 * asked for any in a while. */
clave_status opencl_serve_builds(int socket) STATUS_CHECK;

/* The folder of kernel binaries, which may be missing. */
typedef struct cache_stats {
  uint64_t bytes, files, limit_bytes;
} cache_stats;
clave_status cache_info(const char *folder, cache_stats *out) STATUS_CHECK;
/* Removes least recently used binaries until at most max_bytes are left. removed may be NULL. */
clave_status cache_trim(const char *folder, uint64_t max_bytes, uint64_t *removed) STATUS_CHECK;

/* Write and read without waiting, where the backend can. */
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
