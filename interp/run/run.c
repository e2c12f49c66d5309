/* A run: binds inputs, finds or makes the schedule of their sizes, runs it and what follows it,
 * reads the outputs. Or all of that but for the running: what a run would plan and build. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "interp/check/self_check.h"
#include "interp/plan/schedule_cache.h"
#include "interp/run/running.h"
#include "interp/scalar.h"

/* ---------------------------------------------------------------- inputs */

static clave_status bind_input(const running *r, uint32_t index, scalar_value *values) {
  const ir_program *p = &r->s->prog->ir;
  const ir_argument *a = &r->g->method->inputs.items[index];
  const argument *x = &r->state->inputs[index];
  return a->tensor != IR_NONE ? scalar_bind_dims(p, a, x->t.dims, values)
                              : scalar_bind(p, a, x->scalar, values);
}

static clave_status bind_inputs(const running *r, scalar_value *values) {
  const ir_method *m = r->g->method;
  memcpy(values, r->s->sizes, r->s->prog->ir.values.count * sizeof *values);
  for (uint32_t i = 0; i < m->inputs.count; i++) {
    const ir_argument *a = &m->inputs.items[i];
    if (!r->state->inputs[i].set)
      return INVALID("input %u ('%s') of method '%s' was not given", i, a->name, m->name);
    TRY(bind_input(r, i, values));
  }
  return NULL;
}

/* ---------------------------------------------------------------- schedules of past sizes */

/* With the packed forms of constants that the devices want, unless memory does not suffice for
 * them. */
static clave_status find_schedule(const running *r, const scalar_value *values, schedule **out) {
  TRY(schedule_find(r->s->x, r->index, values, false, out));
  if (r->s->options.packs || fits_budget(r->s, *out)) return NULL;
  schedule_release(r->s->x, *out);
  return schedule_find(r->s->x, r->index, values, true, out);
}

/* Moves the binding of these values to the front, or puts a new one there. */
static clave_status find_binding(running *r, const scalar_value *values) {
  session *s = r->s;
  binding **list = r->state->bindings;
  uint32_t n_values = s->prog->ir.values.count;
  int i = 0;
  while (i < KEPT_BINDINGS && list[i] && !scalars_equal(list[i]->root->key, values, n_values)) i++;
  r->b = i < KEPT_BINDINGS ? list[i] : NULL;
  if (!r->b) {
    schedule *p;
    TRY(find_schedule(r, values, &p));
    TRY(binding_create(s, p, &r->b));
    if (i == KEPT_BINDINGS) binding_destroy(s, list[--i]);
  }
  memmove(&list[1], &list[0], (size_t)i * sizeof list[0]);
  list[0] = r->b;
  return NULL;
}

/* A run that failed may have left slots elsewhere. */
static void forget_binding(const running *r) {
  binding **list = r->state->bindings;
  binding_destroy(r->s, list[0]);
  memmove(&list[0], &list[1], (KEPT_BINDINGS - 1) * sizeof list[0]);
  list[KEPT_BINDINGS - 1] = NULL;
}

/* ---------------------------------------------------------------- parts */

static clave_status read_item(const running *r, scalar_value *out) {
  const schedule *p = r->b->p;
  const ir_item *op = r->g->instructions[p->reads].op;
  location l = p->now[op->x];
  unsigned char raw[8] = {0};
  TRY(read_element(r, l, schedule_home(p, l.storage), raw));
  return scalar_from_bytes(l.t.type, raw, r->s->prog->ir.values.items[op->out].type, out);
}

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

static clave_status keep_item(method_state *m, scalar_value v) {
  if (!array_reserve(&m->items, &m->cap_items, (size_t)m->n_items + 1, sizeof *m->items))
    return status_no_memory();
  m->items[m->n_items++] = v;
  return NULL;
}

/* The schedule that the value read last leads to. */
static clave_status go_on(const running *r) {
  schedule *p = r->b->p, *next;
  scalar_value v = {0};
  bool made;
  TRY(finish_all(r->s, r->g)); /* a value made of bad data is none */
  TRY(while_in_node(read_item(r, &v), r->g, p->reads));
  v.known = true;
  if (p->rest.control == NO_INDEX) TRY(keep_item(r->state, v));
  TRY(schedule_find_next(r->s->x, r->index, p, p->rest, &v, &next, &made));
  TRY(bind_next(r, next, NULL));
  return made ? prepare_kernels(r) : NULL;
}

clave_status run_parts(const running *r) {
  for (;;) {
    const schedule *p = r->b->p;
    uint64_t bytes = schedule_arena_bytes(p);
    if (r->s->last_arena_bytes < bytes) r->s->last_arena_bytes = bytes;
    TRY(write_inputs(r));
    TRY(run_commands(r, (range){p->first_command, p->n_commands}));
    if (p->reads == NO_INDEX) return NULL;
    TRY(go_on(r));
  }
}

/* ---------------------------------------------------------------- runs */

/* Devices whose maker has a queue: its commands come first. */
static clave_status begin_streams(const session *s) {
  for (int b = 0; b < s->devices.count; b++) {
    const backend_vtable *vt = s->devices.backends[b]->vt;
    if (vt->begin) TRY(vt->begin(s->streams[b]));
  }
  return NULL;
}

static clave_status run_binding(const running *r) {
  clave_status st = begin_streams(r->s);
  if (!st) st = acquire_arguments(r);
  if (!st) st = run_parts(r);
  if (!st) st = read_outputs(r);
  st = status_first(st, release_arguments(r));
  st = status_first(st, finish_all(r->s, r->g));
  st = status_first(st, end_arguments(r));
  if (!st && r->s->options.profile) st = trace_finish(r->s);
  restore_slots(r, (range){0, r->b->p->n_commands});
  return st;
}

/* Times are of one run. */
static clave_status begin_profile(session *s) {
  trace_clear(s);
  for (int b = 0; b < s->devices.count && s->options.profile; b++) {
    const backend_vtable *vt = s->devices.backends[b]->vt;
    if (vt->profile) TRY(vt->profile(s->streams[b], true));
  }
  return NULL;
}

/* *began: commands ran. */
typedef clave_status (*attempt)(running *r, const method_sizes *z, bool *began);

static clave_status run_once(running *r, const method_sizes *z, bool *began) {
  session *s = r->s;
  s->last_arena_bytes = 0;
  r->state->n_items = 0;
  s->plan_again = false;
  TRY(begin_profile(s));
  TRY(find_binding(r, z->values));
  bool is_new = !r->b->p;
  clave_status st = bind_root(r);
  if (!st && is_new) st = prepare_kernels(r);
  *began = !st;
  if (!st) st = run_binding(r);
  if (st) forget_binding(r);
  return st;
}

/* The method as the session's executable has it. */
static void find_method(running *r) {
  r->m = &r->s->x->methods[r->index];
  r->g = &r->m->g;
}

/* As often as a device turns out not to run something, which moves; not where that would change
 * state twice. */
static clave_status run_sizes(running *r, const method_sizes *z, attempt try_once) {
  session *s = r->s;
  const uint64_t random_run = s->random.run;
  TRY(need_state(s));
  for (;;) {
    bool began = false;
    clave_status st = try_once(r, z, &began);
    clave_status moved = replace_moved(s); /* after a run that failed, too */
    if (!st || moved) {
      status_free(st);
      return moved;
    }
    if (!s->plan_again || (began && s->prog->ir.n_state)) return st;
    status_free(st);
    s->random.run = random_run;
    find_method(r);
  }
}

static clave_status run_method(running *r) {
  TRY(bind_inputs(r, r->s->bound));
  TRY(gather_inputs(r));
  return run_sizes(r, &(method_sizes){.values = r->s->bound}, run_once);
}

clave_status session_run(session *s, uint32_t index) {
  running r = {.s = s, .index = index, .state = &s->methods[index]};
  find_method(&r);
  r.state->has_run = false;
  clave_status st = run_method(&r);
  r.state->has_run = st == NULL;
  r.state->has_failed = st != NULL;
  return status_while(st, "method '%s'", s->prog->ir.methods.items[index].name);
}

/* ---------------------------------------------------------------- all but the running */

clave_status session_values(session *s, uint32_t index, scalar_value *values) {
  running r = {.s = s, .index = index, .state = &s->methods[index]};
  find_method(&r);
  return bind_inputs(&r, values);
}

static clave_status prepare_part(const running *r);

/* A body that is planned when it runs, up to where it depends on data. It may never run: what is
 * wrong with its sizes is for the run to say that does. */
static clave_status prepare_late(const running *r, uint32_t number, int body) {
  range instructions = r->g->bodies[r->b->p->controls[number]->instruction][body];
  cursor from = {
      .next = instructions.first, .end = instructions.end, .control = number, .body = body};
  schedule *next, *before;
  bool made;
  clave_status st = schedule_find_next(r->s->x, r->index, r->b->p, from, NULL, &next, &made);
  if (!st) st = bind_next(r, next, &before);
  if (st) {
    status_free(st);
    return NULL;
  }
  st = prepare_part(r);
  bind_back(r, before);
  return st;
}

/* The current schedule, with bodies that are schedules of their own. */
static clave_status prepare_part(const running *r) {
  const schedule *p = r->b->p;
  TRY(prepare_kernels(r));
  for (uint32_t i = p->first_control; i < p->n_controls; i++)
    for (int body = 0; body < 2; body++)
      if (p->controls[i]->late[body]) TRY(prepare_late(r, i, body));
  return NULL;
}

static clave_status prepare_next(const running *r, const scalar_value *item) {
  schedule *p = r->b->p, *next;
  bool made;
  TRY(schedule_find_next(r->s->x, r->index, p, p->rest, item, &next, &made));
  TRY(bind_next(r, next, NULL));
  return prepare_part(r);
}

static clave_status prepare_once(running *r, const method_sizes *z, bool *began) {
  *began = false;
  r->s->plan_again = false;
  TRY(find_binding(r, z->values));
  clave_status st = bind_root(r);
  if (!st) st = prepare_part(r);
  for (uint32_t i = 0; i < z->n_items && !st && r->b->p->reads != NO_INDEX; i++)
    st = prepare_next(r, &z->items[i]);
  if (st) {
    forget_binding(r);
  } else if (r->b->p->reads == NO_INDEX) {
    r->state->is_prepared = true;
  }
  return st;
}

clave_status session_prepare(session *s, uint32_t index, const method_sizes *z) {
  running r = {.s = s, .index = index, .state = &s->methods[index]};
  find_method(&r);
  clave_status st = run_sizes(&r, z, prepare_once);
  return status_while(st, "method '%s'", s->prog->ir.methods.items[index].name);
}

clave_status session_is_ready(session *s, uint32_t index, const scalar_value *values, bool *ready) {
  running r = {.s = s, .index = index, .state = &s->methods[index]};
  find_method(&r);
  TRY(find_binding(&r, values));
  bool is_whole = r.b->p && r.b->p->reads == NO_INDEX;
  bool could_be = r.b->root->reads == NO_INDEX || r.state->is_prepared;
  *ready = is_whole || (could_be && kernels_are_built(&r, r.b->root));
  return NULL;
}
