#include "backend/opencl/launch/clblast.h"

#include <stdlib.h>
#include <string.h>

static bool find_function(library *l, const char *name, void *to) {
  void *f = library_symbol(l, name);
  memcpy(to, &f, sizeof f);
  return f != NULL;
}

static clblast *open_clblast(const cl_device *d) {
  cl_int code;
  clblast *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  status_free(library_open("libclblast.so.1", &c->library));
  if (!c->library) return c;
  bool all = find_function(c->library, "CLBlastSgemmWithTempBuffer", &c->gemm) &&
             find_function(c->library, "CLBlastSGemmTempBufferSize", &c->temp_size) &&
             find_function(c->library, "CLBlastSgemmStridedBatched", &c->batched);
  if (all) c->queue = d->cl->clCreateCommandQueue(d->context, d->entry->id, 0, &code);
  all = all && c->queue;
  if (!all) {
    library_close(c->library);
    c->library = NULL;
  }
  return c;
}

clblast *clblast_of(cl_device *d) {
  mutex_lock(d->lock);
  if (!d->blas) d->blas = open_clblast(d);
  clblast *c = d->blas;
  mutex_unlock(d->lock);
  return c && c->library ? c : NULL;
}

void clblast_close(cl_device *d) {
  clblast *c = d->blas;
  if (!c) return;
  if (c->queue) d->cl->clReleaseCommandQueue(c->queue);
  library_close(c->library);
  free(c);
  d->blas = NULL;
}

/* A matrix of a run. */
typedef struct placed_matrix {
  cl_mem memory;
  size_t offset;
} placed_matrix;

static placed_matrix place_matrix(const matrix *m, const run_operands *o) {
  const bound_tensor *t = &o->tensors[m->slot];
  return (placed_matrix){((const cl_buffer *)t->buf)->memory,
                         m->offset + t->buffer_offset / sizeof(float)};
}

clave_status blas_run(cl_stream *s, const blas_call *call, const run_operands *o) {
  const clblast *c = s->device->blas;
  const placed_matrix a = place_matrix(&call->a, o), b = place_matrix(&call->b, o),
                      out = place_matrix(&call->out, o);
  cl_mem temporary = o->scratch ? ((const cl_buffer *)o->scratch)->memory : NULL;
  clave_status st;
  cl_event *event = stream_event(s, &st);
  if (st) return st;
  CLBlastStatusCode code;
  if (call->batches > 1) {
    code = c->batched(CLBlastLayoutRowMajor, call->a.transpose, call->b.transpose, call->m, call->n,
                      call->k, call->alpha, a.memory, a.offset, call->a.ld, call->a.stride,
                      b.memory, b.offset, call->b.ld, call->b.stride, call->beta, out.memory,
                      out.offset, call->out.ld, call->out.stride, call->batches, &s->queue, event);
  } else {
    code = c->gemm(CLBlastLayoutRowMajor, call->a.transpose, call->b.transpose, call->m, call->n,
                   call->k, call->alpha, a.memory, a.offset, call->a.ld, b.memory, b.offset,
                   call->b.ld, call->beta, out.memory, out.offset, call->out.ld, &s->queue, event,
                   temporary);
  }
  if (code != CLBlastSuccess) return opencl_status((cl_int)code, "CLBlastSgemm");
  if (event) s->n_events++;
  return NULL;
}

bool blas_is_refused(const cl_device *d) {
  return __atomic_load_n(&d->blas_refused, __ATOMIC_RELAXED);
}

void blas_refuse(cl_device *d, const struct clave_error *why) {
  if (!__atomic_exchange_n(&d->blas_refused, true, __ATOMIC_RELAXED))
    device_note(d, "CLBlast fails on %s (%s); clave's own kernels multiply", d->base.info.name,
                status_message(why));
}
