/* A run of a method: it binds the schedule of its inputs' sizes, prepares it, walks over its
 * commands and finishes. Or all of that but for the walk: what a run would plan and build. */
#include "interp/run/run.h"

#include <string.h>

#include "interp/run/argument_memory.h"
#include "interp/run/arguments.h"
#include "interp/run/bind.h"
#include "interp/run/move.h"
#include "interp/run/prepare.h"
#include "interp/run/state.h"
#include "interp/run/streams.h"
#include "interp/run/trace.h"
#include "interp/run/trace_work.h"
#include "interp/run/walk.h"
#include "interp/scalar.h"

/* The method as the session's executable has it. */
static void find_method(running *r) {
  r->m = &r->s->x->methods[r->index];
  r->g = &r->m->g;
}

static running begin_running(session *s, uint32_t index) {
  running r = {.s = s, .index = index, .state = &s->methods[index]};
  find_method(&r);
  return r;
}

/* After an attempt to run or to prepare the method: moves the ops that their device could not run.
 * Returns true if the attempt is to be made again with these, which would not change state twice;
 * else *st is what came of it. began: commands ran. */
static bool is_to_be_repeated(running *r, clave_status *st, bool began) {
  session *s = r->s;
  clave_status moved = replace_moved(s); /* after an attempt that failed, too */
  if (!*st || moved) {
    status_free(*st);
    *st = moved;
    return false;
  }
  if (!s->plan_again || (began && s->prog->ir.n_state)) return false;
  status_free(*st);
  find_method(r);
  return true;
}

/* ---------------------------------------------------------------- bind */

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

/* The schedule of these values, with addresses. *is_new: it has never run. */
static clave_status bind_values(running *r, const scalar_value *values, bool *is_new) {
  TRY(find_binding(r, values));
  *is_new = !r->b->p;
  clave_status st = bind_first(r);
  if (st) forget_binding(r);
  return st;
}

/* ---------------------------------------------------------------- prepare */

static clave_status prepare_current(const running *r);

/* A body that is planned when it runs, up to where it depends on data. It may never run: what is
 * wrong with its sizes is for the run to say that does. */
static clave_status prepare_late_body(const running *r, uint32_t number, int body) {
  schedule *outer;
  bool is_new;
  clave_status st = enter_late_body(r, number, body, &outer, &is_new);
  if (st) {
    status_free(st);
    return NULL;
  }
  st = prepare_current(r);
  leave_late_body(r, outer);
  return st;
}

/* The current schedule, with bodies that are schedules of their own. */
static clave_status prepare_current(const running *r) {
  const schedule *p = r->b->p;
  TRY(prepare_kernels(r));
  for (uint32_t i = p->first_control; i < p->n_controls; i++)
    for (int body = 0; body < 2; body++)
      if (p->controls[i]->late[body]) TRY(prepare_late_body(r, i, body));
  return NULL;
}

/* The current schedule and those that follow it, as far as the items are known. */
static clave_status prepare_parts(const running *r, const method_sizes *z) {
  bool is_new;
  TRY(prepare_current(r));
  for (uint32_t i = 0; i < z->n_items && r->b->p->reads != NO_INDEX; i++) {
    TRY(bind_following(r, &z->items[i], &is_new));
    TRY(prepare_current(r));
  }
  if (r->b->p->reads == NO_INDEX) r->state->is_prepared = true;
  return NULL;
}

static clave_status prepare_once(running *r, const method_sizes *z) {
  bool is_new;
  r->s->plan_again = false;
  TRY(bind_values(r, z->values, &is_new));
  clave_status st = prepare_parts(r, z);
  if (st) forget_binding(r);
  return st;
}

static clave_status prepare_method(running *r, const method_sizes *z) {
  clave_status st;
  TRY(need_state(r->s));
  do {
    st = prepare_once(r, z);
  } while (is_to_be_repeated(r, &st, false));
  return st;
}

clave_status session_prepare(session *s, uint32_t index, const method_sizes *z) {
  running r = begin_running(s, index);
  clave_status st = prepare_method(&r, z);
  return status_while(st, "method '%s'", s->prog->ir.methods.items[index].name);
}

clave_status session_values(session *s, uint32_t index, scalar_value *values) {
  const running r = begin_running(s, index);
  return bind_inputs(&r, values);
}

clave_status session_is_ready(session *s, uint32_t index, const scalar_value *values, bool *ready) {
  running r = begin_running(s, index);
  TRY(find_binding(&r, values));
  bool is_whole = r.b->p && r.b->p->reads == NO_INDEX;
  bool could_be = r.b->root->reads == NO_INDEX || r.state->is_prepared;
  *ready = is_whole || (could_be && kernels_are_built(&r, r.b->root));
  return NULL;
}

/* ---------------------------------------------------------------- walk */

static clave_status walk(const running *r) {
  TRY(begin_streams(r->s));
  TRY(acquire_arguments(r));
  TRY(run_parts(r));
  return read_outputs(r);
}

/* ---------------------------------------------------------------- finish */

/* Returns `st`, or what else fails. */
static clave_status finish(const running *r, clave_status st) {
  st = status_first(st, release_arguments(r));
  st = status_first(st, finish_all(r->s, r->g));
  st = status_first(st, end_arguments(r));
  if (!st && r->s->options.profile) st = trace_finish(r->s);
  restore_slots(r, (range){0, r->b->p->n_commands});
  return st;
}

/* ---------------------------------------------------------------- a run */

/* Times are of one run. */
static clave_status begin_profile(session *s) {
  trace_clear(s);
  for (int b = 0; b < s->devices.count && s->options.profile; b++) {
    const backend_vtable *vt = s->devices.backends[b]->vt;
    if (vt->profile) TRY(vt->profile->enable(s->streams[b], true));
  }
  return NULL;
}

static clave_status run_once(running *r, bool *began) {
  session *s = r->s;
  bool is_new;
  *began = false;
  s->last_arena_bytes = 0;
  s->plan_again = false;
  r->state->n_items = 0;
  TRY(begin_profile(s));
  TRY(bind_values(r, s->bound, &is_new));
  clave_status st = is_new ? prepare_kernels(r) : NULL;
  *began = !st;
  if (!st) st = finish(r, walk(r));
  if (st) forget_binding(r);
  return st;
}

static clave_status run_method(running *r) {
  session *s = r->s;
  const uint64_t random_run = s->random.run;
  clave_status st;
  bool began;
  TRY(bind_inputs(r, s->bound));
  TRY(gather_inputs(r));
  TRY(need_state(s));
  do {
    s->random.run = random_run;
    st = run_once(r, &began);
  } while (is_to_be_repeated(r, &st, began));
  return st;
}

clave_status session_run(session *s, uint32_t index) {
  running r = begin_running(s, index);
  r.state->has_run = false;
  clave_status st = run_method(&r);
  r.state->has_run = st == NULL;
  r.state->has_failed = st != NULL;
  return status_while(st, "method '%s'", s->prog->ir.methods.items[index].name);
}
