/* Recordings of nodes: made, their programs built ahead, in parallel, and asked about what was
 * proven of them. */
#include <stdlib.h>

#include "backend/opencl/launch/stream.h"
#include "base/loaded_code.h"

clave_status opencl_record(backend *b, const node *n, bool fast, recording **out) {
  *out = NULL;
  cl_recording *r = calloc(1, sizeof *r);
  if (!r) return status_no_memory();
  cl_recorder pack = {.device = (cl_device *)b, .fast = fast},
              s = {.device = pack.device, .fast = fast, .out = r, .pack = &pack};
  s.choices = n->choices;
  clave_status st = record_with_epilogue(&s, n);
  if (st) {
    opencl_recording_destroy(b, &r->base);
    return st;
  }
  *out = &r->base;
  return NULL;
}

/* ---------------------------------------------------------------- building */

static clave_status request_build(cl_stream *s, kernel_program *p) {
  for (int i = 0; i < s->n_requested; i++)
    if (s->requested[i] == p) return NULL;
  if (!array_reserve(&s->requested, &s->cap_requested, (size_t)s->n_requested + 1,
                     sizeof *s->requested))
    return status_no_memory();
  s->requested[s->n_requested++] = p;
  return NULL;
}

clave_status opencl_request(stream *base, const recording *r) {
  cl_stream *s = (cl_stream *)base;
  const cl_recording *c = (const cl_recording *)r;
  for (int i = 0; i < r->n_weights; i++)
    if (r->weights[i].pack) TRY(opencl_request(base, r->weights[i].pack));
  for (int i = 0; i < c->n; i++) {
    const recorded_launch *l = &c->launches[i];
    if (l->instead && blas_is_refused(s->device)) TRY(opencl_request(base, &l->instead->base));
    if (!l->program || program_is_built(l->program)) continue;
    program_want(s->device, l->program, l);
    TRY(request_build(s, l->program));
  }
  return NULL;
}

typedef struct build_job {
  cl_stream *s;
  mutex *lock; /* of what follows */
  clave_status status;
  int done, ahead; /* ahead: by children */
  bool is_stopped; /* by progress */
  build_progress progress;
  void *progress_ctx;
} build_job;

/* Under the lock, or before other threads have the job. */
static bool report_build(void *ctx, int done, int total) {
  build_job *job = ctx;
  if (job->progress && !job->progress(job->progress_ctx, done, total)) job->is_stopped = true;
  return !job->is_stopped;
}

static bool goes_on(build_job *job) {
  mutex_lock(job->lock);
  bool stopped = job->is_stopped;
  mutex_unlock(job->lock);
  return !stopped;
}

static void build_some(void *ctx, int64_t begin, int64_t end) {
  build_job *job = ctx;
  for (int64_t i = begin; i < end && goes_on(job); i++) {
    clave_status st = program_build(job->s->device, job->s->requested[i]);
    mutex_lock(job->lock);
    if (job->status || status_code_of(st) == STATUS_UNSUPPORTED)
      status_free(st);
    else
      job->status = st;
    job->done++;
    (void)report_build(job, job->ahead + job->done, job->ahead + job->s->n_requested);
    mutex_unlock(job->lock);
  }
}

/* A driver's compiler has run, or begun with the process: what is packed next needs the memory. */
static void release_compiler(const cl_device *d) {
  const char *libraries = quirk_compiler(d->base.info.platform);
  if (libraries) release_code(libraries);
}

clave_status opencl_build_all(stream *base, build_progress progress, void *ctx) {
  cl_stream *s = (cl_stream *)base;
  if (s->n_requested == 0) return NULL;
  build_job job = {.s = s, .progress = progress, .progress_ctx = ctx};
  thread_pool *pool = NULL;
  clave_status st = mutex_create(&job.lock);
  if (!st) st = thread_pool_create(0, &pool);
  if (!st) {
    job.ahead = builders_build(s->device, s->requested, s->n_requested, thread_pool_size(pool),
                               report_build, &job);
    thread_pool_for(pool, s->n_requested, 1, build_some, &job);
    st = job.status;
  }
  thread_pool_destroy(pool);
  mutex_destroy(job.lock);
  s->n_requested = 0;
  release_compiler(s->device);
  return st;
}

bool opencl_is_built(stream *base, const recording *r) {
  const cl_device *d = ((cl_stream *)base)->device;
  const cl_recording *c = (const cl_recording *)r;
  for (int i = 0; i < c->n; i++) {
    const recorded_launch *l = &c->launches[i];
    if (l->program && !program_was_tried(l->program)) return false;
    if (l->instead && blas_is_refused(d) && !opencl_is_built(base, &l->instead->base)) return false;
  }
  return true;
}

/* ---------------------------------------------------------------- proofs */

static bool blas_is_proven(cl_device *d, uint64_t class) {
  mutex_lock(d->lock);
  bool is_proven = proof_set_has(&d->blas_proven, class);
  mutex_unlock(d->lock);
  return is_proven;
}

clave_status opencl_is_unproven(stream *base, const recording *r, bool packs, bool *unproven) {
  cl_device *d = ((cl_stream *)base)->device;
  const cl_recording *c = (const cl_recording *)r;
  *unproven = false;
  for (int i = 0; packs && i < r->n_weights && !*unproven; i++)
    if (r->weights[i].pack) TRY(opencl_is_unproven(base, r->weights[i].pack, false, unproven));
  for (int i = 0; i < c->n && !*unproven; i++) {
    const recorded_launch *l = &c->launches[i];
    if (l->blas && blas_is_refused(d)) {
      TRY(opencl_is_unproven(base, &l->instead->base, packs, unproven));
      continue;
    }
    if (l->blas) {
      *unproven = !blas_is_proven(d, l->class);
      continue;
    }
    TRY(program_build(d, l->program)); /* what was proven lies with the binary */
    *unproven = !program_is_proven(l->program, l->class);
  }
  return NULL;
}

clave_status opencl_prove(stream *base, const recording *r, bool packs) {
  cl_stream *s = (cl_stream *)base;
  cl_device *d = s->device;
  const cl_recording *c = (const cl_recording *)r;
  s->unsaved = true;
  for (int i = 0; packs && i < r->n_weights; i++)
    if (r->weights[i].pack) TRY(opencl_prove(base, r->weights[i].pack, false));
  for (int i = 0; i < c->n; i++) {
    const recorded_launch *l = &c->launches[i];
    if (l->program) {
      program_prove(l->program, l->class);
      continue;
    }
    if (blas_is_refused(d)) {
      TRY(opencl_prove(base, &l->instead->base, packs));
      continue;
    }
    mutex_lock(d->lock);
    proof_set_add(&d->blas_proven, l->class);
    mutex_unlock(d->lock);
  }
  return NULL;
}
