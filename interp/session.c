/* Sessions: made of an executable, they own streams, state, arenas, bindings and results. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "interp/host_copy.h"
#include "interp/running.h"
#include "interp/scalar.h"
#include "interp/self_check.h"

/* ---------------------------------------------------------------- making */

static clave_status init_method(session *s, uint32_t index) {
  const graph *g = &s->x->methods[index].g;
  method_state *m = &s->methods[index];
  uint32_t n_inputs = g->method->inputs.count, n_outputs = g->method->outputs.count;
  m->inputs = mem_pool_alloc(s->pool, n_inputs + 1, sizeof *m->inputs);
  m->outputs = mem_pool_alloc(s->pool, n_outputs + 1, sizeof *m->outputs);
  m->output_capacity = mem_pool_alloc(s->pool, n_outputs + 1, sizeof *m->output_capacity);
  m->distrusted = mem_pool_alloc(s->pool, g->n + 1, sizeof *m->distrusted);
  bool good = m->inputs && m->outputs && m->output_capacity && m->distrusted;
  return good ? NULL : status_no_memory();
}

static clave_status init_session(session *s) {
  TRY(mem_pool_create(&s->pool));
  for (int b = 0; b < s->devices.count; b++) {
    backend *be = s->devices.backends[b];
    TRY(be->vt->stream_create(be, &s->streams[b]));
    if (s->options.profile && be->vt->profile) TRY(be->vt->profile(s->streams[b], true));
  }
  uint32_t n = s->prog->ir.methods.count;
  s->methods = mem_pool_alloc(s->pool, n + 1, sizeof *s->methods);
  if (!s->methods) return status_no_memory();
  for (uint32_t i = 0; i < n; i++) TRY(init_method(s, i));
  return create_state(s);
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
  for (int i = 0; i < KEPT_BINDINGS; i++) binding_destroy(s, m->bindings[i]);
  for (uint32_t i = 0; m->inputs && i < ir->inputs.count; i++) free(m->inputs[i].data);
  for (uint32_t i = 0; m->outputs && i < ir->outputs.count; i++) free(m->outputs[i].data);
}

void session_destroy(session *s) {
  if (!s) return;
  for (uint32_t i = 0; s->methods && i < s->prog->ir.methods.count; i++) destroy_method(s, i);
  for (int b = 0; b < s->devices.count; b++) {
    backend *be = s->devices.backends[b];
    if (s->streams[b]) be->vt->stream_destroy(be, s->streams[b]);
    be->vt->buffer_destroy(be, s->scratch[b]);
    for (uint32_t i = 0; i < s->arenas[b].n; i++)
      be->vt->buffer_destroy(be, s->arenas[b].chunks[i]);
    free(s->arenas[b].chunks);
  }
  for (uint32_t i = 0; s->state && i < s->prog->ir.n_state; i++) {
    backend *be = s->devices.backends[s->x->state_home[i]];
    be->vt->buffer_destroy(be, s->state[i]);
  }
  executable_destroy(s->own);
  oracle_destroy(s->oracle);
  free(s->events);
  mem_pool_destroy(s->pool);
  free(s);
}

/* ---------------------------------------------------------------- use */

static clave_status check_input(const session *s, const ir_argument *a, const tensor *v) {
  if (a->tensor == IR_NONE) {
    ir_value_type type = s->prog->ir.values.items[a->value].type;
    bool fits = v->rank == 0 && (type == IR_VALUE_TYPE_FLOAT || !dtype_is_float(v->type));
    return fits ? NULL
                : INVALID("it is a %s scalar, not %s of rank %d",
                          type == IR_VALUE_TYPE_FLOAT ? "float" : "integer", dtype_name(v->type),
                          v->rank);
  }
  const tensor *want = &s->prog->types[a->tensor];
  char have_text[128], want_text[128];
  bool fits = v->type == want->type && v->rank == want->rank;
  for (int i = 0; fits && i < want->rank; i++)
    fits = dim_matches(v->dims[i], want->dims[i]) && v->dims[i] >= 0;
  if (fits) return NULL;
  return INVALID("it is %s %s, not %s %s", dtype_name(want->type),
                 tensor_shape_text(want, want_text, sizeof want_text), dtype_name(v->type),
                 tensor_shape_text(v, have_text, sizeof have_text));
}

static clave_status store_input(bound_input *in, const host_tensor *value) {
  size_t bytes;
  TRY(known_bytes(&value->t, &bytes));
  if (!in->data || in->capacity < bytes) {
    free(in->data);
    in->capacity = 0;
    in->data = malloc(bytes + 1);
    if (!in->data) return status_no_memory();
    in->capacity = bytes;
  }
  copy_to_contiguous(&value->t, value->data, in->data);
  in->t = value->t;
  tensor_set_contiguous(&in->t);
  return NULL;
}

clave_status session_set_input(session *s, uint32_t method_index, uint32_t index,
                               const host_tensor *value) {
  const ir_method *m = &s->prog->ir.methods.items[method_index];
  if (index >= m->inputs.count)
    return INVALID("input %u of method '%s', which has %u", index, m->name, m->inputs.count);
  const ir_argument *a = &m->inputs.items[index];
  bound_input *in = &s->methods[method_index].inputs[index];
  in->set = false;
  clave_status st = check_input(s, a, &value->t);
  if (!st && a->tensor != IR_NONE) st = store_input(in, value);
  if (!st && a->tensor == IR_NONE) {
    const char *element =
        (const char *)value->data + value->t.offset * (int64_t)dtype_size(value->t.type);
    st = scalar_from_bytes(value->t.type, element, s->prog->ir.values.items[a->value].type,
                           &in->scalar);
  }
  in->set = st == NULL;
  return status_while(st, "input %u ('%s') of method '%s'", index, a->name, m->name);
}

clave_status session_output(session *s, uint32_t method_index, uint32_t index, host_tensor *out) {
  const ir_method *m = &s->prog->ir.methods.items[method_index];
  if (index >= m->outputs.count)
    return INVALID("output %u of method '%s', which has %u", index, m->name, m->outputs.count);
  if (!s->methods[method_index].has_run) return INVALID("method '%s' has not run", m->name);
  *out = s->methods[method_index].outputs[index];
  return NULL;
}

void session_observe(session *s, observe_fn observe, void *ctx) {
  s->observe = observe;
  s->observe_ctx = ctx;
}

const executable *session_executable(const session *s) { return s->x; }

void session_memory_use(const session *s, session_memory *out) {
  *out = (session_memory){.state_bytes = s->state_bytes, .arena_bytes = s->last_arena_bytes};
  for (int b = 0; b < s->devices.count; b++)
    out->constant_bytes += constant_store_bytes(s->stores[b]);
}
