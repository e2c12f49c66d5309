/* The op functions' two modes: a dry pass that collects the programs a node needs, built in
 * parallel, and the run. */
#include <stdlib.h>

#include "backend/opencl/device.h"

clave_status stream_request_build(cl_stream *s, program *p) {
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

clave_status opencl_run(stream *base, const node *n, uint32_t number) {
  cl_stream *s = (cl_stream *)base;
  s->number = number;
  return opencl_table[n->instruction->op_type](s, n);
}

clave_status opencl_prepare(stream *base, const node *n) {
  cl_stream *s = (cl_stream *)base;
  s->dry = true;
  clave_status st = opencl_table[n->instruction->op_type](s, n);
  s->dry = false;
  return st;
}

/* A node without a cache has launched nothing. */
bool opencl_is_unproven(stream *base, const node *n) {
  const node_cache *c = *n->cache;
  const cl_stream *s = (const cl_stream *)base;
  if (!c) return false;
  if (c->uses_blas && !__atomic_load_n(&s->device->blas_proven, __ATOMIC_RELAXED)) return true;
  for (const node_kernel *k = c->kernels; k; k = k->next)
    if (!program_is_proven(k->program, k->kernel)) return true;
  return false;
}

void opencl_prove(stream *base, const node *n) {
  const node_cache *c = *n->cache;
  cl_stream *s = (cl_stream *)base;
  if (!c) return;
  if (c->uses_blas) __atomic_store_n(&s->device->blas_proven, true, __ATOMIC_RELAXED);
  for (const node_kernel *k = c->kernels; k; k = k->next) program_prove(k->program, k->kernel);
  s->unsaved = true;
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
