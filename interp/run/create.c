/* Sessions are made of an executable and destroyed here: they own streams, state, arenas, bindings
 * and results. */
#include "interp/run/session.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "interp/check/self_check.h"
#include "interp/host_copy.h"
#include "interp/run/argument_memory.h"
#include "interp/run/bindings.h"
#include "interp/run/state.h"
#include "interp/run/streams.h"
#include "interp/run/trace_work.h"
#include "interp/scalar.h"

/* ---------------------------------------------------------------- making */

static clave_status init_method(session *s, uint32_t index) {
  const graph *g = &s->x->methods[index].g;
  method_state *m = &s->methods[index];
  uint32_t n_inputs = g->method->inputs.count, n_outputs = g->method->outputs.count;
  m->inputs = mem_pool_alloc(s->pool, n_inputs + 1, sizeof *m->inputs);
  m->outputs = mem_pool_alloc(s->pool, n_outputs + 1, sizeof *m->outputs);
  m->moved = mem_pool_alloc(s->pool, g->n + 1, sizeof *m->moved);
  bool good = m->inputs && m->outputs && m->moved;
  return good ? NULL : status_no_memory();
}

static clave_status init_session(session *s) {
  TRY(mem_pool_create(&s->pool));
  for (int b = 0; b < s->devices.count; b++) {
    backend *be = s->devices.backends[b];
    TRY(be->vt->stream_create(be, &s->streams[b]));
  }
  uint32_t n = s->prog->ir.methods.count;
  s->methods = mem_pool_alloc(s->pool, n + 1, sizeof *s->methods);
  if (!s->methods) return status_no_memory();
  for (uint32_t i = 0; i < n; i++) TRY(init_method(s, i));
  TRY(init_sizes(s));
  return session_reset(s);
}

clave_status session_create(executable *x, constant_store *const *stores, const session_options *o,
                            session **out) {
  *out = NULL;
  session *s = calloc(1, sizeof *s);
  if (!s) return status_no_memory();
  s->x = x;
  s->prog = x->prog;
  s->devices = x->devices;
  s->options = *o;
  s->generation = 1;
  for (int b = 0; b < s->devices.count; b++) s->stores[b] = stores[b];
  clave_status st = init_session(s);
  if (st) {
    session_destroy(s);
    return st;
  }
  *out = s;
  return NULL;
}

static void destroy_method(session *s, uint32_t index) {
  const ir_method *ir = &s->prog->ir.methods.items[index];
  method_state *m = &s->methods[index];
  free(m->items);
  for (uint32_t i = 0; m->inputs && i < ir->inputs.count; i++) argument_clear(s, &m->inputs[i]);
  for (uint32_t i = 0; m->outputs && i < ir->outputs.count; i++) argument_clear(s, &m->outputs[i]);
}

void session_destroy(session *s) {
  if (!s) return;
  if (s->methods) forget_bindings(s);
  for (uint32_t i = 0; s->methods && i < s->prog->ir.methods.count; i++) destroy_method(s, i);
  for (int b = 0; b < s->devices.count; b++) {
    backend *be = s->devices.backends[b];
    if (s->streams[b]) be->vt->stream_destroy(be, s->streams[b]);
    be->vt->buffer_destroy(be, s->scratch[b]);
    for (uint32_t i = 0; i < s->arenas[b].n; i++)
      be->vt->buffer_destroy(be, s->arenas[b].chunks[i]);
    free(s->arenas[b].chunks);
  }
  destroy_state(s);
  free_staged(s);
  trace_clear(s);
  free(s->events);
  free(s->traced);
  executable_destroy(s->own);
  oracle_destroy(s->oracle);
  mem_pool_destroy(s->pool);
  free(s);
}

/* ---------------------------------------------------------------- use */

void session_observe(session *s, observe_fn observe, void *ctx) {
  s->observe = observe;
  s->observe_ctx = ctx;
}

const executable *session_executable(const session *s) { return s->x; }

const backend_info *session_device(const session *s) { return &s->devices.backends[0]->info; }

void session_memory_use(const session *s, session_memory *out) {
  *out = (session_memory){.state_bytes = s->state_bytes, .arena_bytes = s->last_arena_bytes};
  for (int b = 0; b < s->devices.count; b++) {
    uint64_t bytes = constant_store_bytes(s->stores[b]);
    out->constant_bytes += bytes;
    if (s->devices.backends[b]->info.shares_host_memory)
      out->constant_bytes_in_place += bytes - constant_store_packed_bytes(s->stores[b]) +
                                      constant_store_mapped_bytes(s->stores[b]);
  }
}
