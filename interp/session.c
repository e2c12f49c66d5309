/* Sessions: made from a verified program and opened devices, they own streams, state, arenas, plans
 * and results. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "interp/host_copy.h"
#include "interp/internal.h"
#include "interp/scalar.h"
#include "interp/self_check.h"

/* ---------------------------------------------------------------- making */

static clave_status init_method(session *s, method *m, const ir_method *ir) {
  m->ir = ir;
  m->inputs = mem_pool_alloc(s->pool, ir->inputs.count + 1, sizeof *m->inputs);
  m->outputs = mem_pool_alloc(s->pool, ir->outputs.count + 1, sizeof *m->outputs);
  m->output_capacity = mem_pool_alloc(s->pool, ir->outputs.count + 1, sizeof *m->output_capacity);
  m->last_use = mem_pool_alloc(s->pool, slot_count(s) + 1, sizeof *m->last_use);
  m->writer = mem_pool_alloc(s->pool, slot_count(s) + 1, sizeof *m->writer);
  if (!m->inputs || !m->outputs || !m->output_capacity || !m->last_use || !m->writer)
    return status_no_memory();
  TRY(flatten_method(s, m));
  if (!s->options.unfused) TRY(fuse_elementwise(s, m));
  m->where = mem_pool_alloc(s->pool, m->n + 1, sizeof *m->where);
  m->reason = mem_pool_alloc(s->pool, m->n + 1, sizeof *m->reason);
  m->distrusted = mem_pool_alloc(s->pool, m->n + 1, sizeof *m->distrusted);
  bool good = m->where && m->reason && m->distrusted;
  for (int b = 0; b < s->devices.count; b++) {
    m->cache[b] = mem_pool_alloc(s->pool, m->n + 1, sizeof(void *));
    m->copy_cache[b] = mem_pool_alloc(s->pool, (size_t)slot_count(s) + m->n + 1, sizeof(void *));
    good = good && m->cache[b] && m->copy_cache[b];
  }
  if (!good) return status_no_memory();
  find_last_uses(s, m);
  return place_method(s, m);
}

static clave_status init_session(session *s) {
  TRY(mem_pool_create(&s->pool));
  for (int b = 0; b < s->devices.count; b++) {
    backend *be = s->devices.backends[b];
    TRY(be->vt->stream_create(be, &s->streams[b]));
    if (s->options.fast && be->vt->relax) be->vt->relax(s->streams[b]);
    if (s->options.profile && be->vt->profile) TRY(be->vt->profile(s->streams[b], true));
  }
  uint32_t n = s->prog->ir.methods.count;
  s->methods = mem_pool_alloc(s->pool, n + 1, sizeof *s->methods);
  if (!s->methods) return status_no_memory();
  for (uint32_t i = 0; i < n; i++)
    TRY(status_while(init_method(s, &s->methods[i], &s->prog->ir.methods.items[i]), "method '%s'",
                     s->prog->ir.methods.items[i].name));
  return create_state(s);
}

clave_status session_create(const program *p, const device_set *devices,
                            constant_store *const *stores, const session_options *o,
                            session **out) {
  *out = NULL;
  session *s = calloc(1, sizeof *s);
  if (!s) return status_no_memory();
  s->prog = p;
  s->devices = *devices;
  s->options = *o;
  for (int b = 0; b < devices->count; b++) s->stores[b] = stores[b];
  clave_status st = init_session(s);
  if (st) {
    session_destroy(s);
    return st;
  }
  *out = s;
  return NULL;
}

static void destroy_method(method *m) {
  for (size_t i = 0; i < sizeof m->plans / sizeof m->plans[0]; i++) plan_destroy(m->plans[i]);
  if (!m->ir) return;
  for (uint32_t i = 0; m->inputs && i < m->ir->inputs.count; i++) free(m->inputs[i].data);
  for (uint32_t i = 0; m->outputs && i < m->ir->outputs.count; i++) free(m->outputs[i].data);
}

void session_destroy(session *s) {
  if (!s) return;
  for (int b = 0; b < s->devices.count; b++) {
    backend *be = s->devices.backends[b];
    if (s->streams[b]) be->vt->stream_destroy(be, s->streams[b]);
    for (uint32_t i = 0; i < s->arenas[b].n; i++)
      be->vt->buffer_destroy(be, s->arenas[b].chunks[i]);
    free(s->arenas[b].chunks);
  }
  for (uint32_t i = 0; s->state && i < s->prog->ir.n_state; i++) {
    backend *be = s->devices.backends[s->state_home[i]];
    be->vt->buffer_destroy(be, s->state[i]);
  }
  for (uint32_t i = 0; s->methods && i < s->prog->ir.methods.count; i++)
    destroy_method(&s->methods[i]);
  oracle_destroy(s->oracle);
  free(s->events);
  mem_pool_destroy(s->pool);
  free(s);
}

/* ---------------------------------------------------------------- use */

clave_status session_find_method(const session *s, const char *name, uint32_t *out) {
  for (uint32_t i = 0; i < s->prog->ir.methods.count; i++) {
    *out = i;
    if (strcmp(s->methods[i].ir->name, name) == 0) return NULL;
  }
  text names = {0};
  for (uint32_t i = 0; i < s->prog->ir.methods.count; i++)
    text_printf(&names, "%s'%s'", i ? ", " : "", s->methods[i].ir->name);
  clave_status st = names.failed ? status_no_memory()
                                 : INVALID("no method '%s'; the program has %s", name,
                                           names.data ? names.data : "none");
  text_free(&names);
  return st;
}

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
  method *m = &s->methods[method_index];
  if (index >= m->ir->inputs.count)
    return INVALID("input %u of method '%s', which has %u", index, m->ir->name,
                   m->ir->inputs.count);
  const ir_argument *a = &m->ir->inputs.items[index];
  bound_input *in = &m->inputs[index];
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
  return status_while(st, "input %u ('%s') of method '%s'", index, a->name, m->ir->name);
}

clave_status session_output(session *s, uint32_t method_index, uint32_t index, host_tensor *out) {
  const method *m = &s->methods[method_index];
  if (index >= m->ir->outputs.count)
    return INVALID("output %u of method '%s', which has %u", index, m->ir->name,
                   m->ir->outputs.count);
  if (!m->has_run) return INVALID("method '%s' has not run", m->ir->name);
  *out = m->outputs[index];
  return NULL;
}

void session_observe(session *s, observe_fn observe, void *ctx) {
  s->observe = observe;
  s->observe_ctx = ctx;
}

void session_placement(const session *s, uint32_t method_index, uint32_t instruction,
                       const char **where, const char **reason) {
  const method *m = &s->methods[method_index];
  *where = "fused";
  *reason = NULL;
  for (uint32_t i = 0; i < m->n; i++) {
    if (m->source[i] != instruction) continue;
    uint8_t w = m->where[i];
    *where = w == WHERE_HOST      ? "host"
             : w == WHERE_VIEW    ? "view"
             : w == WHERE_CONTROL ? "control"
                                  : s->devices.backends[w]->info.kind;
    *reason = w < MAX_BACKENDS ? m->reason[i] : NULL;
  }
}

void session_memory_use(const session *s, session_memory *out) {
  *out = (session_memory){.state_bytes = s->state_bytes, .arena_bytes = s->last_arena_bytes};
  for (int b = 0; b < s->devices.count; b++)
    out->constant_bytes += constant_store_bytes(s->stores[b]);
}
