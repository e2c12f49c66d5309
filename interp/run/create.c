/* Creates and destroys sessions, which own streams, state, arenas, bindings and results. */
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

static clave_status run_create_init_method(session *session, uint32_t index) {
  const graph *graph = &session->executable->methods[index].graph;
  method_state *state = &session->methods[index];
  uint32_t n_inputs = graph->method->inputs.count, n_outputs = graph->method->outputs.count;
  state->inputs = mem_pool_alloc(session->pool, n_inputs + 1, sizeof *state->inputs);
  state->outputs = mem_pool_alloc(session->pool, n_outputs + 1, sizeof *state->outputs);
  state->moved = mem_pool_alloc(session->pool, graph->n + 1, sizeof *state->moved);
  bool good = state->inputs && state->outputs && state->moved;
  return good ? NULL : status_no_memory();
}

static clave_status run_create_init_session(session *session) {
  TRY(mem_pool_create(&session->pool));
  for (int b = 0; b < session->devices.count; b++) {
    backend *be = session->devices.backends[b];
    TRY(be->vt->stream_create(be, &session->streams[b]));
  }
  uint32_t n = session->prog->ir.methods.count;
  session->methods = mem_pool_alloc(session->pool, n + 1, sizeof *session->methods);
  if (!session->methods) return status_no_memory();
  for (uint32_t i = 0; i < n; i++) TRY(run_create_init_method(session, i));
  TRY(init_sizes(session));
  return session_reset(session);
}

clave_status session_create(executable *executable, constant_store *const *stores,
                            const session_options *options, session **out) {
  *out = NULL;
  session *session = calloc(1, sizeof *session);
  if (!session) return status_no_memory();
  session->executable = executable;
  session->prog = executable->prog;
  session->devices = executable->devices;
  session->options = *options;
  session->generation = 1;
  for (int b = 0; b < session->devices.count; b++) session->stores[b] = stores[b];
  clave_status st = run_create_init_session(session);
  if (st) {
    session_destroy(session);
    return st;
  }
  *out = session;
  return NULL;
}

static void destroy_method(session *session, uint32_t index) {
  const ir_method *ir = &session->prog->ir.methods.items[index];
  method_state *state = &session->methods[index];
  free(state->items);
  for (uint32_t i = 0; state->inputs && i < ir->inputs.count; i++)
    argument_clear(session, &state->inputs[i]);
  for (uint32_t i = 0; state->outputs && i < ir->outputs.count; i++)
    argument_clear(session, &state->outputs[i]);
}

void session_destroy(session *session) {
  if (!session) return;
  if (session->methods) forget_bindings(session);
  for (uint32_t i = 0; session->methods && i < session->prog->ir.methods.count; i++)
    destroy_method(session, i);
  for (int b = 0; b < session->devices.count; b++) {
    backend *be = session->devices.backends[b];
    if (session->streams[b]) be->vt->stream_destroy(be, session->streams[b]);
    be->vt->buffer_destroy(be, session->scratch[b]);
    for (uint32_t i = 0; i < session->arenas[b].n; i++)
      be->vt->buffer_destroy(be, session->arenas[b].chunks[i]);
    free(session->arenas[b].chunks);
  }
  destroy_state(session);
  free_staged(session);
  trace_clear(session);
  free(session->events);
  free(session->traced);
  executable_destroy(session->own);
  oracle_destroy(session->oracle);
  mem_pool_destroy(session->pool);
  free(session);
}

/* ---------------------------------------------------------------- queries */

void session_observe(session *session, observe_fn observe, void *ctx) {
  session->observe = observe;
  session->observe_ctx = ctx;
}

const executable *session_executable(const session *session) { return session->executable; }

const backend_info *session_device(const session *session) {
  return &session->devices.backends[0]->info;
}

void session_memory_use(const session *session, session_memory *out) {
  *out = (session_memory){.state_bytes = session->state_bytes,
                          .arena_bytes = session->last_arena_bytes};
  for (int b = 0; b < session->devices.count; b++) {
    uint64_t bytes = constant_store_bytes(session->stores[b]);
    out->constant_bytes += bytes;
    out->constant_bytes_in_place += constant_store_in_place_bytes(session->stores[b]);
  }
}
