/* Makes recordings of nodes, builds their programs in parallel before they run, and tracks which of
 * their launches are proven. */
#include <stdlib.h>

#include "backend/opencl/launch/stream.h"
#include "base/loaded_code.h"

/* Records the node once, with the rows that are not excluded. *refused: a program of the recording
 * that the driver refused before, or NULL. */
static clave_status record_once(cl_device *device, const node *node, bool fast, row_choices *rows,
                                recording **out, kernel_program **refused) {
  *out = NULL;
  *refused = NULL;
  cl_recording *recorded = calloc(1, sizeof *recorded);
  if (!recorded) return status_no_memory();
  cl_recorder pack = {.device = device, .fast = fast, .rows = rows},
              recorder = {.device = device,
                          .fast = fast,
                          .out = recorded,
                          .choices = node->choices,
                          .pack = &pack,
                          .rows = rows};
  recorded->estimated_ns = estimate_work(device, node);
  rows->n_chosen = 0;
  rows->n_at_refusal = -1;
  if (node->choices) node->choices->n = 0;
  clave_status st = record_with_epilogue(&recorder, node);
  if (st) {
    opencl_recording_destroy(&device->base, &recorded->base);
    return st;
  }
  *refused = recorder.refused ? recorder.refused : pack.refused;
  recorded->base.is_refused = *refused != NULL;
  *out = &recorded->base;
  return NULL;
}

/* Excludes the last row that was chosen before the refused launch and has an alternative. Drops the
 * exclusions of later rows, which depended on it. Returns false if there is no such row. */
static bool exclude_row(row_choices *rows) {
  int last = (rows->n_at_refusal < 0 ? rows->n_chosen : rows->n_at_refusal) - 1;
  while (last >= 0 && !rows->chosen[last].has_others) last--;
  if (last < 0) return false;
  while (rows->n_excluded > 0 && rows->depth[rows->n_excluded - 1] > last) rows->n_excluded--;
  if (rows->n_excluded == MAX_ROW_CHOICES) return false;
  rows->depth[rows->n_excluded] = last;
  rows->excluded[rows->n_excluded++] = rows->chosen[last].row;
  return true;
}

clave_status opencl_record(backend *backend, const node *node, bool fast, recording **out) {
  enum { MAX_ATTEMPTS = 64 };
  cl_device *device = (cl_device *)backend;
  row_choices rows = {.n_chosen = 0};
  kernel_program *refused, *next;
  clave_status first = record_once(device, node, fast, &rows, out, &refused);
  if (first ? status_code_of(first) != STATUS_UNSUPPORTED
            : !(*out)->is_refused || (node->choices && node->choices->first))
    return first;
  for (int i = 0; i < MAX_ATTEMPTS && exclude_row(&rows); i++) {
    recording *other;
    clave_status st = record_once(device, node, fast, &rows, &other, &next);
    const bool is_good = !st && !other->is_refused;
    status_free(st); /* the attempt failed: try the next row */
    opencl_recording_destroy(backend, is_good ? *out : other);
    if (!is_good) continue;
    *out = other;
    if (refused) program_note_replaced(device, refused);
    status_free(first);
    return NULL;
  }
  return first;
}

/* ---------------------------------------------------------------- building */

static clave_status request_build(cl_stream *stream, kernel_program *program) {
  for (int i = 0; i < stream->n_requested; i++)
    if (stream->requested[i] == program) return NULL;
  if (!array_reserve(&stream->requested, &stream->cap_requested, (size_t)stream->n_requested + 1,
                     sizeof *stream->requested))
    return status_no_memory();
  stream->requested[stream->n_requested++] = program;
  return NULL;
}

clave_status opencl_request(stream *base, const recording *recording) {
  cl_stream *queue = (cl_stream *)base;
  const cl_recording *recorded = (const cl_recording *)recording;
  for (int i = 0; i < recording->n_weights; i++)
    if (recording->weights[i].pack) TRY(opencl_request(base, recording->weights[i].pack));
  for (int i = 0; i < recorded->n; i++) {
    const recorded_launch *launch = &recorded->launches[i];
    if (launch->instead && blas_is_refused(queue->device))
      TRY(opencl_request(base, &launch->instead->base));
    if (!launch->program || program_is_built(launch->program)) continue;
    program_set_order(queue->device, launch->program, launch);
    TRY(request_build(queue, launch->program));
  }
  return NULL;
}

typedef struct build_job {
  cl_stream *stream;
  mutex *lock; /* protects the following members */
  clave_status status;
  int done, ahead; /* ahead: built by children */
  bool is_stopped; /* progress returned false */
  build_progress progress;
  void *progress_ctx;
} build_job;

/* Reports progress. The caller holds the lock, or is the only thread with the job. */
static bool report_build(void *ctx, int done, int total) {
  build_job *job = ctx;
  if (job->progress && !job->progress(job->progress_ctx, done, total)) job->is_stopped = true;
  return !job->is_stopped;
}

static bool job_may_continue(build_job *job) {
  mutex_lock(job->lock);
  bool stopped = job->is_stopped;
  mutex_unlock(job->lock);
  return !stopped;
}

static void build_some(void *ctx, int64_t begin, int64_t end) {
  build_job *job = ctx;
  for (int64_t i = begin; i < end && job_may_continue(job); i++) {
    clave_status st = program_build(job->stream->device, job->stream->requested[i]);
    mutex_lock(job->lock);
    if (job->status || status_code_of(st) == STATUS_UNSUPPORTED)
      status_free(st);
    else
      job->status = st;
    job->done++;
    (void)report_build(job, job->ahead + job->done, job->ahead + job->stream->n_requested);
    mutex_unlock(job->lock);
  }
}

/* Releases the memory of the driver's compiler, because packing needs memory next. */
static void release_compiler(const cl_device *device) {
  const char *libraries = quirk_compiler(device->base.info.platform);
  if (libraries) release_code(libraries);
}

clave_status opencl_build_all(stream *base, build_progress progress, void *ctx) {
  cl_stream *queue = (cl_stream *)base;
  if (queue->n_requested == 0) return NULL;
  build_job job = {.stream = queue, .progress = progress, .progress_ctx = ctx};
  thread_pool *pool = NULL;
  clave_status st = mutex_create(&job.lock);
  if (!st) st = thread_pool_create(0, &pool);
  if (!st) {
    job.ahead = builders_build(queue->device, queue->requested, queue->n_requested,
                               thread_pool_size(pool), report_build, &job);
    thread_pool_for(pool, queue->n_requested, 1, build_some, &job);
    st = job.status;
  }
  thread_pool_destroy(pool);
  mutex_destroy(job.lock);
  queue->n_requested = 0;
  release_compiler(queue->device);
  return st;
}

bool opencl_is_built(stream *base, const recording *recording) {
  const cl_device *device = ((cl_stream *)base)->device;
  const cl_recording *recorded = (const cl_recording *)recording;
  for (int i = 0; i < recorded->n; i++) {
    const recorded_launch *launch = &recorded->launches[i];
    if (launch->program && !program_was_tried(launch->program)) return false;
    if (launch->instead && blas_is_refused(device) &&
        !opencl_is_built(base, &launch->instead->base))
      return false;
  }
  return true;
}

bool opencl_was_refused(stream *base, const recording *recording) {
  const cl_device *device = ((cl_stream *)base)->device;
  const cl_recording *recorded = (const cl_recording *)recording;
  for (int i = 0; i < recording->n_weights; i++)
    if (recording->weights[i].pack && opencl_was_refused(base, recording->weights[i].pack))
      return true;
  for (int i = 0; i < recorded->n; i++) {
    const recorded_launch *launch = &recorded->launches[i];
    if (launch->program && program_was_refused(launch->program, launch_group(launch))) return true;
    if (launch->instead && blas_is_refused(device) &&
        opencl_was_refused(base, &launch->instead->base))
      return true;
  }
  return false;
}

/* ---------------------------------------------------------------- proofs */

static bool blas_is_proven(cl_device *device, uint64_t class) {
  mutex_lock(device->lock);
  bool is_proven = proof_set_has(&device->blas_proven, class);
  mutex_unlock(device->lock);
  return is_proven;
}

clave_status opencl_is_unproven(stream *base, const recording *recording, bool packs,
                                bool *unproven) {
  cl_device *device = ((cl_stream *)base)->device;
  const cl_recording *recorded = (const cl_recording *)recording;
  *unproven = false;
  for (int i = 0; packs && i < recording->n_weights && !*unproven; i++)
    if (recording->weights[i].pack)
      TRY(opencl_is_unproven(base, recording->weights[i].pack, false, unproven));
  for (int i = 0; i < recorded->n && !*unproven; i++) {
    const recorded_launch *launch = &recorded->launches[i];
    if (launch->blas && blas_is_refused(device)) {
      TRY(opencl_is_unproven(base, &launch->instead->base, packs, unproven));
      continue;
    }
    if (launch->blas) {
      *unproven = !blas_is_proven(device, launch->class);
      continue;
    }
    TRY(program_build(device, launch->program)); /* proven classes are stored with the binary */
    *unproven = !program_is_proven(launch->program, launch->class);
  }
  return NULL;
}

clave_status opencl_prove(stream *base, const recording *recording, bool packs) {
  cl_stream *queue = (cl_stream *)base;
  cl_device *device = queue->device;
  const cl_recording *recorded = (const cl_recording *)recording;
  queue->unsaved = true;
  for (int i = 0; packs && i < recording->n_weights; i++)
    if (recording->weights[i].pack) TRY(opencl_prove(base, recording->weights[i].pack, false));
  for (int i = 0; i < recorded->n; i++) {
    const recorded_launch *launch = &recorded->launches[i];
    if (launch->program) {
      program_prove(launch->program, launch->class);
      continue;
    }
    if (blas_is_refused(device)) {
      TRY(opencl_prove(base, &launch->instead->base, packs));
      continue;
    }
    mutex_lock(device->lock);
    proof_set_add(&device->blas_proven, launch->class);
    mutex_unlock(device->lock);
  }
  return NULL;
}
