/* The memory that inputs and outputs lie in: the host's, the session's own or the caller's, which
 * devices that share it use in place where they are large, while the others get and give copies; a
 * device's that is the caller's, which that device always uses in place; a dma-buf, which is one or
 * the other: imported by the session's device, or mapped where that runs on the host. */
#include "interp/run/argument_memory.h"

#include <stdlib.h>

/* What is smaller is copied sooner than a device learns of it. */
#ifndef CLAVE_IN_PLACE_BYTES
#define CLAVE_IN_PLACE_BYTES (64 << 10)
#endif
enum { IN_PLACE_FROM = CLAVE_IN_PLACE_BYTES, PAGE = 4096 /* any device's alignment */ };

/* ---------------------------------------------------------------- letting go */

static void drop_wrapped(session *s, argument *a) {
  for (int b = 0; b < s->devices.count; b++) {
    backend *be = s->devices.backends[b];
    if (!a->wrapped[b]) continue;
    be->vt->buffer_destroy(be, a->wrapped[b]);
    a->wrapped[b] = NULL;
    s->generation++;
  }
}

/* What devices made of it, then a dma-buf. */
static void drop_memory(session *s, argument *a) {
  drop_wrapped(s, a);
  dma_buf_close(&a->shared);
}

void argument_clear(session *s, argument *a) {
  drop_memory(s, a);
  free(a->own);
  *a = (argument){0};
}

static void take_list(session *s, session *from, argument *a, argument *b, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    drop_wrapped(from, &b[i]);
    argument_clear(s, &a[i]);
    a[i] = b[i];
    b[i] = (argument){0};
  }
}

void take_arguments(session *s, session *from) {
  for (uint32_t i = 0; i < s->prog->ir.methods.count; i++) {
    const ir_method *m = &s->prog->ir.methods.items[i];
    method_state *a = &s->methods[i], *b = &from->methods[i];
    take_list(s, from, a->inputs, b->inputs, m->inputs.count);
    take_list(s, from, a->outputs, b->outputs, m->outputs.count);
    a->has_run = b->has_run;
    b->has_run = false;
  }
  s->generation++; /* bindings have no argument in place yet */
}

/* ---------------------------------------------------------------- the host's */

bool argument_can_wrap(const backend *b, const argument *a) {
  return a->data && a->room >= IN_PLACE_FROM && b->info.shares_host_memory &&
         (uintptr_t)a->data % b->info.alignment == 0;
}

void argument_use_memory(session *s, argument *a, void *data, size_t room) {
  bool is_other = a->is_on_device || a->shared.is_open;
  if (!is_other && a->data == data && a->room == room) return;
  drop_memory(s, a);
  a->is_on_device = false;
  a->data = data;
  a->room = room;
  a->start = (memory_start){.from = (uintptr_t)data};
  for (int b = 0; b < s->devices.count; b++)
    if (argument_can_wrap(s->devices.backends[b], a)) s->generation++;
}

clave_status argument_use_own(session *s, argument *a, size_t bytes) {
  if (!a->own || a->capacity < bytes) {
    drop_wrapped(s, a);
    free(a->own);
    a->capacity = bytes < IN_PLACE_FROM ? bytes + 1 : (bytes + PAGE - 1) / PAGE * PAGE;
    a->own = bytes < IN_PLACE_FROM ? malloc(a->capacity) : aligned_alloc(PAGE, a->capacity);
    a->data = NULL;
    if (!a->own) {
      a->capacity = 0;
      return status_no_memory();
    }
  }
  argument_use_memory(s, a, a->own, a->capacity);
  return NULL;
}

/* ---------------------------------------------------------------- a device's */

/* The session's device that takes the caller's memory; -1: none. */
static int device_that_adopts(const session *s) {
  for (int b = 0; b < s->devices.count; b++)
    if (s->devices.backends[b]->vt->sharing) return b;
  return -1;
}

static void use_buffer(session *s, argument *a, int device, buffer *on_it, device_memory m,
                       size_t bytes) {
  drop_memory(s, a);
  a->is_on_device = true;
  a->device = (uint8_t)device;
  a->given = m;
  a->wrapped[device] = on_it;
  a->data = NULL;
  a->room = bytes;
  s->generation++;
}

static clave_status adopt(session *s, argument *a, device_memory m, size_t bytes, bool writable) {
  bool is_same = a->is_on_device && a->given.handle == m.handle && a->given.offset == m.offset;
  if (is_same && a->room == bytes) return NULL;
  int b = device_that_adopts(s);
  if (b < 0) return INVALID("the session has no OpenCL device, whose memory it could be");
  backend *be = s->devices.backends[b];
  buffer *adopted;
  memory_start start;
  TRY(be->vt->sharing->adopt(be, m.handle, m.offset, bytes, writable, &start, &adopted));
  use_buffer(s, a, b, adopted, m, bytes);
  a->start = start;
  return NULL;
}

/* ---------------------------------------------------------------- a dma-buf */

static clave_status map(session *s, argument *a, dma_buf *shared, device_memory m, size_t bytes,
                        bool writable) {
  TRY(dma_buf_map(shared, writable));
  argument_use_memory(s, a, (char *)shared->data + m.offset, bytes);
  return NULL;
}

static clave_status import(session *s, argument *a, const dma_buf *shared, device_memory m,
                           size_t bytes, bool writable) {
  backend *be = s->devices.backends[0];
  buffer *imported;
  TRY(be->vt->sharing->import(be, shared->fd, shared->size, writable, &imported));
  use_buffer(s, a, 0, imported, m, bytes);
  return NULL;
}

static clave_status use_shared(session *s, argument *a, dma_buf *shared, device_memory m,
                               size_t bytes, bool writable) {
  if (m.offset > shared->size || bytes > shared->size - m.offset)
    return INVALID("%zu bytes from offset %zu on do not lie in a dma-buf of %zu", bytes, m.offset,
                   shared->size);
  if (s->devices.backends[0]->info.runs_on_host)
    TRY(map(s, a, shared, m, bytes, writable));
  else
    TRY(import(s, a, shared, m, bytes, writable));
  a->given = m;
  a->shared = *shared;
  a->start = (memory_start){.file = {shared->id[0], shared->id[1]}, .from = m.offset};
  return NULL;
}

static bool is_there(const argument *a, const dma_buf *shared, size_t offset, size_t bytes) {
  return a->shared.is_open && shared->is_distinct && a->shared.id[0] == shared->id[0] &&
         a->shared.id[1] == shared->id[1] && a->given.offset == offset && a->room == bytes;
}

static clave_status use_dma_buf(session *s, argument *a, device_memory m, size_t bytes,
                                bool writable) {
  dma_buf shared;
  TRY(dma_buf_open(m.fd, &shared));
  if (is_there(a, &shared, m.offset, bytes)) {
    dma_buf_close(&shared);
    return NULL;
  }
  clave_status st = use_shared(s, a, &shared, m, bytes, writable);
  if (st) dma_buf_close(&shared);
  return st;
}

clave_status argument_use_callers(session *s, argument *a, device_memory m, size_t bytes,
                                  bool writable) {
  return (m.is_dma_buf ? use_dma_buf : adopt)(s, a, m, bytes, writable);
}

/* ---------------------------------------------------------------- in a run */

address argument_on_device(const argument *a) {
  return (address){a->wrapped[a->device], a->given.offset};
}

static bool has_memory(const argument *a) { return a->data || a->is_on_device; }

bool arguments_overlap(const argument *a, const argument *b) {
  const memory_start *x = &a->start, *y = &b->start;
  return has_memory(a) && has_memory(b) && x->object == y->object && x->file[0] == y->file[0] &&
         x->file[1] == y->file[1] && x->from < y->from + b->room && y->from < x->from + a->room;
}

static clave_status acquire(const session *s, argument *a) {
  if (!a->shared.is_open) return NULL;
  backend *be = s->devices.backends[0];
  TRY(a->is_on_device ? be->vt->sharing->acquire(s->streams[0], a->wrapped[0])
                      : dma_buf_begin(&a->shared));
  a->is_acquired = true;
  return NULL;
}

/* The argument `i` of the method, of inputs and then outputs; NULL: there are no more. */
static argument *argument_at(const running *r, uint32_t i) {
  const ir_method *m = r->g->method;
  if (i < m->inputs.count) return &r->state->inputs[i];
  return i - m->inputs.count < m->outputs.count ? &r->state->outputs[i - m->inputs.count] : NULL;
}

clave_status acquire_arguments(const running *r) {
  argument *a;
  for (uint32_t i = 0; (a = argument_at(r, i)); i++) TRY(acquire(r->s, a));
  return NULL;
}

clave_status release_arguments(const running *r) {
  const backend *be = r->s->devices.backends[0];
  clave_status first = NULL;
  argument *a;
  for (uint32_t i = 0; (a = argument_at(r, i)); i++) {
    if (!a->is_acquired || !a->is_on_device) continue;
    first = status_first(first, be->vt->sharing->release(r->s->streams[0], a->wrapped[0]));
    a->is_acquired = false;
  }
  return first;
}

clave_status end_arguments(const running *r) {
  clave_status first = NULL;
  argument *a;
  for (uint32_t i = 0; (a = argument_at(r, i)); i++) {
    if (!a->is_acquired) continue;
    first = status_first(first, dma_buf_end(&a->shared));
    a->is_acquired = false;
  }
  return first;
}
