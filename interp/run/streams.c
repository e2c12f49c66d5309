/* The streams of a session: a run's begin and end on all of them, and bytes that go from one device
 * to another through the host, which keeps them until the devices have finished. */
#include "interp/run/streams.h"

#include <stdlib.h>

#include "base/fault.h"
#include "interp/run/trace_work.h"

/* Host memory on its way to a device. */
struct staged {
  staged *next;
  char data[];
};

/* Beyond this much the host waits for the devices that read it. */
enum { MAX_STAGED = 16 << 20 };

static clave_status status_of_fault(const session *s, const graph *g, const device_fault *f) {
  uint32_t i =
      s->options.profile && f->node < s->n_events ? s->events[f->node].instruction : f->node;
  return while_in_node(fault_status(&f->fault), g, i);
}

clave_status finish_all(session *s, const graph *g) {
  clave_status first = NULL;
  for (int b = 0; b < s->devices.count; b++) {
    device_fault f = {0};
    clave_status e = s->devices.backends[b]->vt->finish(s->streams[b], &f);
    if (!e && f.present) e = status_of_fault(s, g, &f);
    first = status_first(first, e);
  }
  free_staged(s);
  return first;
}

clave_status begin_streams(const session *s) {
  for (int b = 0; b < s->devices.count; b++) {
    const backend_vtable *vt = s->devices.backends[b]->vt;
    if (vt->sharing) TRY(vt->sharing->begin(s->streams[b]));
  }
  return NULL;
}

static clave_status stage(session *s, size_t bytes, void **out) {
  staged *t = malloc(sizeof *t + bytes);
  if (!t) return status_no_memory();
  t->next = s->staged;
  s->staged = t;
  s->staged_bytes += bytes;
  *out = t->data;
  return NULL;
}

void free_staged(session *s) {
  for (staged *t = s->staged, *next; t; t = next) {
    next = t->next;
    free(t);
  }
  s->staged = NULL;
  s->staged_bytes = 0;
}

clave_status copy_bytes(const running *r, int from_backend, address from, int to_backend,
                        address to, size_t bytes) {
  session *s = r->s;
  const backend_vtable *from_vt = s->devices.backends[from_backend]->vt,
                       *to_vt = s->devices.backends[to_backend]->vt;
  void *host;
  if (!bytes) return NULL;
  if (from_backend == to_backend)
    return to_vt->copy(s->streams[to_backend], to.buf, to.offset, from.buf, from.offset, bytes);
  TRY(stage(s, bytes, &host));
  TRY(from_vt->read(s->streams[from_backend], from.buf, from.offset, host, bytes));
  TRY(enqueue_write(s->streams[to_backend], to.buf, to.offset, host, bytes));
  return s->staged_bytes > MAX_STAGED ? finish_all(s, r->g) : NULL;
}
