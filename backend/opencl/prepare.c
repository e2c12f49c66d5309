/* The op functions' two modes: a dry pass over a node's launches, which collects the programs that
 * it needs, to be built in parallel, or asks and notes what of them is proven; and the run. */
#include <stdlib.h>

#include "backend/opencl/device.h"

static clave_status request_build(cl_stream *s, program *p) {
  if (program_is_built(p)) return NULL;
  for (int i = 0; i < s->n_requested; i++)
    if (s->requested[i] == p) return NULL;
  if (s->n_requested == s->max_requested) {
    int max = s->max_requested ? 2 * s->max_requested : 32;
    program **grown = realloc(s->requested, sizeof *grown * (size_t)max);
    if (!grown) return status_no_memory();
    s->requested = grown;
    s->max_requested = max;
  }
  s->requested[s->n_requested++] = p;
  return NULL;
}

clave_status stream_visit(cl_stream *s, program *p, uint64_t class) {
  if (s->visit == VISIT_BUILD) return request_build(s, p);
  if (s->visit == VISIT_PROVE) {
    program_prove(p, class);
    return NULL;
  }
  TRY(program_build(s->device, p)); /* what was proven lies with the binary */
  if (!program_is_proven(p, class)) s->unproven = true;
  return NULL;
}

void stream_visit_blas(cl_stream *s, uint64_t class) {
  cl_device *d = s->device;
  mutex_lock(d->lock);
  if (s->visit == VISIT_PROVE) proof_set_add(&d->blas_proven, class);
  if (s->visit == VISIT_LOOK && !proof_set_has(&d->blas_proven, class)) s->unproven = true;
  mutex_unlock(d->lock);
}

clave_status opencl_run(stream *base, const node *n, uint32_t number) {
  cl_stream *s = (cl_stream *)base;
  s->number = number;
  return opencl_table[n->instruction->op_type](s, n);
}

/* Passes over the node's launches without running them. */
static clave_status visit_node(cl_stream *s, const node *n, visit_mode mode) {
  s->visit = mode;
  clave_status st = opencl_table[n->instruction->op_type](s, n);
  s->visit = VISIT_RUN;
  return st;
}

clave_status opencl_prepare(stream *base, const node *n) {
  return visit_node((cl_stream *)base, n, VISIT_BUILD);
}

clave_status opencl_is_unproven(stream *base, const node *n, bool *unproven) {
  cl_stream *s = (cl_stream *)base;
  s->unproven = false;
  clave_status st = visit_node(s, n, VISIT_LOOK);
  *unproven = s->unproven;
  return st;
}

clave_status opencl_prove(stream *base, const node *n) {
  cl_stream *s = (cl_stream *)base;
  s->unsaved = true;
  return visit_node(s, n, VISIT_PROVE);
}

typedef struct build_job {
  cl_stream *s;
  mutex *lock; /* of what follows */
  clave_status status;
  int done;
  void (*progress)(void *ctx, int done, int total);
  void *progress_ctx;
} build_job;

static void build_some(void *ctx, int64_t begin, int64_t end) {
  build_job *job = ctx;
  for (int64_t i = begin; i < end; i++) {
    clave_status st = program_build(job->s->device, job->s->requested[i]);
    mutex_lock(job->lock);
    if (job->status)
      status_free(st);
    else
      job->status = st;
    job->done++;
    if (job->progress) job->progress(job->progress_ctx, job->done, job->s->n_requested);
    mutex_unlock(job->lock);
  }
}

clave_status opencl_build_all(stream *base, void (*progress)(void *ctx, int done, int total),
                              void *ctx) {
  cl_stream *s = (cl_stream *)base;
  if (s->n_requested == 0) return NULL;
  build_job job = {.s = s, .progress = progress, .progress_ctx = ctx};
  thread_pool *pool = NULL;
  clave_status st = mutex_create(&job.lock);
  if (!st) st = thread_pool_create(0, &pool);
  if (!st) {
    thread_pool_for(pool, s->n_requested, 1, build_some, &job);
    st = job.status;
  }
  thread_pool_destroy(pool);
  mutex_destroy(job.lock);
  s->n_requested = 0;
  return st;
}
