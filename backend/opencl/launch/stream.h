#ifndef BACKEND_OPENCL_LAUNCH_STREAM_H
#define BACKEND_OPENCL_LAUNCH_STREAM_H
/* Recordings of the launches of an op, and the stream of a session, which runs them. Op
 * families include opencl.h only. */
#include "backend/opencl/program/program.h"

typedef struct cl_stream cl_stream;

/* ---------------------------------------------------------------- instructions.c */

/* Chooses which instructions kernels may use. Fails if CLAVE_ASM names an unknown one. */
clave_status instructions_choose(cl_device *device) STATUS_CHECK;
/* Runs the probe of an instruction, by its number in the table, unless the probe has run before. */
void instruction_try(cl_device *device, int number);

/* ---------------------------------------------------------------- launch.c */

void opencl_cache_destroy(backend *backend, void *cache); /* frees a node's cache of programs */

/* ---------------------------------------------------------------- recorder.c, record.c */

struct cl_recording {
  recording base;
  int64_t estimated_ns;      /* estimated time of the node, see estimate_work */
  recorded_launch *launches; /* owned */
  int n;
  size_t capacity;
};

typedef struct fused_epilogue fused_epilogue; /* epilogue.c */
typedef struct row_choices row_choices;
struct cl_recorder {
  cl_device *device;
  bool fast; /* kernels may round less exactly */
  cl_recording *out;
  fused_epilogue *epilogue; /* borrowed: the node's epilogue until a launch runs it, then NULL */
  variant_choices *choices; /* node.choices */
  cl_recorder *pack;        /* borrowed: records launches that pack a weight; NULL in itself */
  row_choices *rows;        /* borrowed: the rows of variant tables that this attempt chooses */
  kernel_program *refused;  /* a recorded launch's program, refused by the driver before; or NULL */
};

/* The rows of variant tables that an attempt to record chose, in order, and rows that it must not
 * choose. */
enum { MAX_ROW_CHOICES = 24 };
struct row_choices {
  struct {
    const kernel_variant *row;
    bool has_others; /* the family has another row of finite cost */
  } chosen[MAX_ROW_CHOICES];
  int n_chosen, n_at_refusal; /* n_at_refusal: n_chosen at the first refused launch */
  const kernel_variant *excluded[MAX_ROW_CHOICES];
  int depth[MAX_ROW_CHOICES]; /* for each excluded row, its index in `chosen` */
  int n_excluded;
};
/* Notes that a launch of the recording was refused before. */
void recorder_note_refused(cl_recorder *recorder, kernel_program *program);

/* Records the op's launches. If none of them runs the epilogue, a separate launch does: in place,
 * or from scratch memory if it changes the dtype. */
clave_status record_with_epilogue(cl_recorder *recorder, const node *node) STATUS_CHECK;
/* Records a launch of the epilogue alone; nothing if the node has none. */
clave_status launch_epilogue_alone(cl_recorder *recorder, const node *node) STATUS_CHECK;

/* Appends a launch to the recording. Takes ownership of `blas` and `instead`, on failure too;
 * copies values. */
clave_status recorder_add(cl_recorder *recorder, const recorded_launch *launch,
                          const launch_value *values) STATUS_CHECK;
/* The functions opencl_* below are entries of the tables of backend.h, which describes them. */
/* Records the node with the best kernels that the driver has not refused. If it refused all of
 * them, returns the recording of the best ones, with is_refused set. */
clave_status opencl_record(backend *backend, const node *node, bool fast,
                           recording **out) STATUS_CHECK;
void opencl_recording_destroy(backend *backend, recording *recording);
clave_status opencl_request(stream *stream, const recording *recording) STATUS_CHECK;
clave_status opencl_build_all(stream *stream, build_progress progress, void *ctx) STATUS_CHECK;
bool opencl_is_built(stream *stream, const recording *recording);
bool opencl_was_refused(stream *stream, const recording *recording);
clave_status opencl_is_unproven(stream *stream, const recording *recording, bool packs,
                                bool *unproven) STATUS_CHECK;
clave_status opencl_prove(stream *stream, const recording *recording, bool packs) STATUS_CHECK;

/* ---------------------------------------------------------------- stream.c */

/* Same layout as in kernels_cl/support/common.h. */
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
  fault_record found; /* a copy of `fault` that finish reads */
  bool fault_armed;   /* a kernel that may write `fault` has been enqueued since the last finish */
  cl_event before;    /* owned: completes with the caller's commands before the run; or NULL */
  uint32_t number;    /* number of the node being run */
  bool profiling;
  timed_event *events; /* owned, (n_events); only while profiling */
  size_t n_events, cap_events;
  bool unsaved;       /* a program or proof is new and may be missing in the cache on disk */
  bool saves_late;    /* binaries are saved when the stream is destroyed, see quirk_slow_binaries */
  bool blocking_maps; /* see quirk_blocking_maps */
  bool spins;         /* see quirk_spins */
  uint32_t n_queued;  /* launches since the last wait for all; the kernels of the first and last */
  const char *queued_first, *queued_last;
  int unflushed; /* launches and estimated work since the last flush, and since `mark` */
  int64_t unflushed_ns, unmarked_ns;
  cl_event mark;              /* owned: completes with all earlier work; or NULL */
  kernel_program **requested; /* programs for build_all to build */
  int n_requested;
  size_t cap_requested;
};

/* Returns the error of a call that waits, with the names of queued launches. Except after an
 * out-of-memory error, the device is lost from then on. */
clave_status stream_lost(cl_stream *stream, cl_int code, const char *call) STATUS_CHECK;
/* Returns the error of a call that enqueues. The device is lost from then on if the code tells so,
 * or if a wait for the queue fails. */
clave_status stream_failed(cl_stream *stream, cl_int code, const char *call) STATUS_CHECK;
/* Fails if the device was lost: its driver may hang in any later call. */
clave_status device_alive(const cl_device *device) STATUS_CHECK;
clave_status opencl_stream_create(backend *backend, stream **out) STATUS_CHECK;
void opencl_stream_destroy(backend *backend, stream *stream);
/* transfers.c */
clave_status opencl_write(stream *stream, buffer *to, size_t offset, const void *from,
                          size_t bytes) STATUS_CHECK;
clave_status opencl_read(stream *stream, const buffer *from, size_t offset, void *to,
                         size_t bytes) STATUS_CHECK;
clave_status opencl_enqueue_write(stream *stream, buffer *to, size_t offset, const void *from,
                                  size_t bytes) STATUS_CHECK;
clave_status opencl_enqueue_read(stream *stream, const buffer *from, size_t offset, void *to,
                                 size_t bytes) STATUS_CHECK;
clave_status opencl_fill_zero(stream *stream, buffer *to, size_t offset, size_t bytes) STATUS_CHECK;
clave_status opencl_copy_buffer(stream *stream, buffer *to, size_t to_offset, const buffer *from,
                                size_t from_offset, size_t bytes) STATUS_CHECK;
clave_status opencl_begin(stream *stream) STATUS_CHECK;
clave_status opencl_finish(stream *stream, device_fault *fault) STATUS_CHECK;
clave_status opencl_profile(stream *stream, bool on) STATUS_CHECK;
clave_status opencl_times(stream *stream, uint32_t number, int64_t *start_ns,
                          int64_t *end_ns) STATUS_CHECK;
/* Returns the address for the next command's event, or NULL unless profiling. Increment n_events
 * once the command is enqueued. */
cl_event *stream_event(cl_stream *stream, clave_status *st);

/* ---------------------------------------------------------------- bounded_work.c */

/* Estimates the time of a node on the device, in nanoseconds. */
int64_t estimate_work(const cl_device *device, const node *node);
/* True if a launch of the recorder's node must be split into several. The kernels of a split launch
 * compute get_group_id from global indices, see common.h. */
bool launch_is_long(const cl_recorder *recorder);
/* Sets n_splits and split_dim. */
void split_launch(const cl_recorder *recorder, recorded_launch *launch);
/* Call it after a launch is enqueued, with its estimated time. If the queue holds much work,
 * flushes the queue and waits for earlier work. */
clave_status bound_work(cl_stream *stream, int64_t ns) STATUS_CHECK;

/* ---------------------------------------------------------------- submit.c */

clave_status opencl_prepare(stream *stream, const recording *recording, void **state) STATUS_CHECK;
clave_status opencl_run(stream *stream, const recording *recording, void **state,
                        const run_operands *operands, uint32_t number) STATUS_CHECK;
void opencl_state_destroy(stream *stream, void *state);

/* ---------------------------------------------------------------- pack.c */

clave_status opencl_pack(stream *stream, const packed_weight_request *request,
                         const bound_tensor *operands, bool clears, buffer *to) STATUS_CHECK;

/* ---------------------------------------------------------------- import.c: dma-bufs */

clave_status opencl_buffer_import(backend *backend, int fd, size_t bytes, bool writable,
                                  buffer **out) STATUS_CHECK;
clave_status opencl_acquire(stream *stream, buffer *imported) STATUS_CHECK;
clave_status opencl_release(stream *stream, buffer *imported) STATUS_CHECK;
/* Copies between buffers that copy commands cannot use. */
clave_status copy_by_kernel(cl_stream *stream, buffer *to, size_t to_offset, const buffer *from,
                            size_t from_offset, size_t bytes) STATUS_CHECK;

/* ---------------------------------------------------------------- clblast.c */

/* Enqueues a product of CLBlast. */
clave_status blas_run(cl_stream *stream, const blas_call *call,
                      const run_operands *operands) STATUS_CHECK;
/* True once the library has failed on the device; clave's own kernels then replace it. */
bool blas_is_refused(const cl_device *device);
/* Makes blas_is_refused true. Leaves a note the first time. */
void blas_refuse(cl_device *device, const struct clave_error *why);
/* Closes the library, if the device has opened it. */
void clblast_close(cl_device *device);

#endif
