/* The streams of a session: the beginning and end of a run on all of them, and transfers between
 * devices through host memory, which is kept until the devices have finished. */
#include "interp/run/streams.h"

#include <stdlib.h>

#include "base/fault.h"
#include "interp/run/trace_work.h"

/* Host memory of a pending transfer. */
struct staged {
  staged *next;
  char data[];
};

/* bytes; if more host memory is staged, the host waits for the devices */
enum { MAX_STAGED = 16 << 20 };

static clave_status status_of_fault(const session *session, const graph *graph,
                                    const device_fault *fault) {
  uint32_t i = session->options.profile && fault->node < session->n_events
                   ? session->events[fault->node].instruction
                   : fault->node;
  return while_in_node(fault_status(&fault->fault), graph, i);
}

clave_status finish_all(session *session, const graph *graph) {
  clave_status first = NULL;
  for (int b = 0; b < session->devices.count; b++) {
    device_fault fault = {0};
    clave_status e = session->devices.backends[b]->vt->finish(session->streams[b], &fault);
    if (!e && fault.present) e = status_of_fault(session, graph, &fault);
    first = status_first(first, e);
  }
  free_staged(session);
  return first;
}

clave_status begin_streams(const session *session) {
  for (int b = 0; b < session->devices.count; b++) {
    const backend_vtable *vt = session->devices.backends[b]->vt;
    if (vt->sharing) TRY(vt->sharing->begin(session->streams[b]));
  }
  return NULL;
}

static clave_status stage(session *session, size_t bytes, void **out) {
  staged *staged = malloc(sizeof *staged + bytes);
  if (!staged) return status_no_memory();
  staged->next = session->staged;
  session->staged = staged;
  session->staged_bytes += bytes;
  *out = staged->data;
  return NULL;
}

void free_staged(session *session) {
  for (staged *t = session->staged, *next; t; t = next) {
    next = t->next;
    free(t);
  }
  session->staged = NULL;
  session->staged_bytes = 0;
}

clave_status copy_bytes(const running *run, int from_backend, address from, int to_backend,
                        address to, size_t bytes) {
  session *session = run->session;
  const backend_vtable *from_vt = session->devices.backends[from_backend]->vt,
                       *to_vt = session->devices.backends[to_backend]->vt;
  void *host;
  if (!bytes) return NULL;
  if (from_backend == to_backend)
    return to_vt->copy(session->streams[to_backend], to.buf, to.offset, from.buf, from.offset,
                       bytes);
  TRY(stage(session, bytes, &host));
  TRY(from_vt->read(session->streams[from_backend], from.buf, from.offset, host, bytes));
  TRY(enqueue_write(session->streams[to_backend], to.buf, to.offset, host, bytes));
  return session->staged_bytes > MAX_STAGED ? finish_all(session, run->graph) : NULL;
}
