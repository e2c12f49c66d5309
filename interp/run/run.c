/* Runs a method: binds the schedule for its inputs' sizes, prepares it, walks its commands and
 * finishes. Also prepares a method without walking: it plans and builds what a run would. */
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

/* Looks up the method in the session's current executable. */
static void look_up_method(running *run) {
  run->method = &run->session->executable->methods[run->index];
  run->graph = &run->method->graph;
}

static running begin_running(session *session, uint32_t index) {
  running run = {.session = session, .index = index, .state = &session->methods[index]};
  look_up_method(&run);
  return run;
}

/* Call after an attempt to run or prepare, with its status: moves the ops that their device could
 * not run. Returns true if the attempt must be repeated for that reason, but never if repeating it
 * would change state twice. Otherwise *st is the outcome. */
static bool is_to_be_repeated(running *run, clave_status *st) {
  session *session = run->session;
  clave_status moved = replace_moved(session); /* even if the attempt failed */
  if (!*st || moved) {
    status_free(*st);
    *st = moved;
    return false;
  }
  if (!session->plan_again || (run->is_final && session->prog->ir.n_state)) return false;
  status_free(*st);
  look_up_method(run);
  return true;
}

/* ---------------------------------------------------------------- bind */

static clave_status bind_input_value(const running *run, uint32_t index, scalar_value *values) {
  const ir_program *program = &run->session->prog->ir;
  const ir_argument *arg = &run->graph->method->inputs.items[index];
  const argument *argument = &run->state->inputs[index];
  return arg->tensor != IR_NONE ? scalar_bind_dims(program, arg, argument->t.dims, values)
                                : scalar_bind(program, arg, argument->scalar, values);
}

static clave_status bind_input_values(const running *run, scalar_value *values) {
  const ir_method *method = run->graph->method;
  memcpy(values, run->session->sizes, run->session->prog->ir.values.count * sizeof *values);
  for (uint32_t i = 0; i < method->inputs.count; i++) {
    const ir_argument *argument = &method->inputs.items[i];
    if (!run->state->inputs[i].set)
      return INVALID("input %u ('%s') of method '%s' was not given", i, argument->name,
                     method->name);
    TRY(bind_input_value(run, i, values));
  }
  return NULL;
}

/* Binds the schedule for these values. Sets *is_new if its binding is new. */
static clave_status bind_values(running *run, const scalar_value *values, bool *is_new) {
  TRY(find_binding(run, values));
  *is_new = !run->binding->schedule;
  clave_status st = bind_first(run);
  if (st) forget_binding(run);
  return st;
}

/* ---------------------------------------------------------------- prepare */

static clave_status prepare_current(const running *run);

/* Prepares a late body, up to the first instruction that depends on data. Errors in its sizes are
 * ignored, because the body may never run; if it does, the run reports them. */
static clave_status prepare_late_body(const running *run, uint32_t number, int body) {
  schedule *outer;
  bool is_new;
  clave_status st = enter_late_body(run, number, body, &outer, &is_new);
  if (st) {
    status_free(st);
    return NULL;
  }
  st = prepare_current(run);
  leave_late_body(run, outer);
  return st;
}

/* Prepares the current schedule and its late bodies. */
static clave_status prepare_current(const running *run) {
  const schedule *schedule = run->binding->schedule;
  TRY(prepare_kernels(run));
  for (uint32_t i = schedule->first_control; i < schedule->n_controls; i++)
    for (int body = 0; body < 2; body++)
      if (schedule->controls[i]->late[body]) TRY(prepare_late_body(run, i, body));
  return NULL;
}

/* Prepares the current schedule and the following schedules whose items are known. */
static clave_status prepare_segments(const running *run, const method_sizes *sizes) {
  bool is_new;
  TRY(prepare_current(run));
  for (uint32_t i = 0; i < sizes->n_items && run->binding->schedule->reads != NO_INDEX; i++) {
    TRY(bind_following(run, &sizes->items[i], &is_new));
    TRY(prepare_current(run));
  }
  if (run->binding->schedule->reads == NO_INDEX) run->state->is_prepared = true;
  return NULL;
}

static clave_status prepare_once(running *run, const method_sizes *sizes) {
  bool is_new;
  run->session->plan_again = false;
  TRY(bind_values(run, sizes->values, &is_new));
  clave_status st = prepare_segments(run, sizes);
  if (st) forget_binding(run);
  return st;
}

static clave_status prepare_method(running *run, const method_sizes *sizes) {
  clave_status st;
  TRY(need_state(run->session));
  look_up_method(run); /* a large state may have moved */
  do {
    st = prepare_once(run, sizes);
  } while (is_to_be_repeated(run, &st));
  return st;
}

clave_status session_prepare(session *session, uint32_t index, const method_sizes *sizes) {
  running run = begin_running(session, index);
  clave_status st = prepare_method(&run, sizes);
  return status_while(st, "method '%s'", session->prog->ir.methods.items[index].name);
}

clave_status session_values(session *session, uint32_t index, scalar_value *values) {
  const running run = begin_running(session, index);
  return bind_input_values(&run, values);
}

clave_status session_is_ready(session *session, uint32_t index, const scalar_value *values,
                              bool *ready) {
  running run = begin_running(session, index);
  TRY(find_binding(&run, values));
  bool is_whole = run.binding->schedule && run.binding->schedule->reads == NO_INDEX;
  bool could_be = run.binding->root->reads == NO_INDEX || run.state->is_prepared;
  *ready = is_whole || (could_be && kernels_are_built(&run, run.binding->root));
  return NULL;
}

/* ---------------------------------------------------------------- walk */

static clave_status walk(const running *run) {
  TRY(begin_streams(run->session));
  TRY(acquire_arguments(run));
  TRY(run_segments(run));
  return read_outputs(run);
}

/* ---------------------------------------------------------------- finish */

/* Finishes all devices. Returns `st`, or the first error of finishing. */
static clave_status end_run(const running *run, clave_status st) {
  st = status_first(st, release_arguments(run));
  st = status_first(st, finish_all(run->session, run->graph));
  st = status_first(st, end_arguments(run));
  if (!st && run->session->options.profile) st = trace_finish(run->session);
  restore_slots(run, (range){0, run->binding->schedule->n_commands});
  return st;
}

/* ---------------------------------------------------------------- a run */

/* Drops the timings of the last run. */
static clave_status begin_profile(session *session) {
  trace_clear(session);
  for (int b = 0; b < session->devices.count && session->options.profile; b++) {
    const backend_vtable *vt = session->devices.backends[b]->vt;
    if (vt->profile) TRY(vt->profile->enable(session->streams[b], true));
  }
  return NULL;
}

static clave_status run_attempt(running *run) {
  session *session = run->session;
  bool is_new;
  run->is_final = false;
  session->last_arena_bytes = 0;
  session->plan_again = false;
  run->state->n_items = 0;
  TRY(begin_profile(session));
  TRY(bind_values(run, session->bound, &is_new));
  clave_status st = is_new ? prepare_kernels(run) : NULL;
  run->is_final = !st;
  if (!st) st = end_run(run, walk(run));
  if (st) forget_binding(run);
  return st;
}

static clave_status run_until_settled(running *run) {
  session *session = run->session;
  const uint64_t random_run = session->random.run;
  clave_status st;
  TRY(bind_input_values(run, session->bound));
  TRY(gather_inputs(run));
  TRY(need_state(session));
  look_up_method(run);
  do {
    session->random.run = random_run;
    st = run_attempt(run);
  } while (is_to_be_repeated(run, &st));
  return st;
}

clave_status session_run(session *session, uint32_t index) {
  running run = begin_running(session, index);
  run.state->has_run = false;
  clave_status st = run_until_settled(&run);
  run.state->has_run = st == NULL;
  run.state->has_failed = st != NULL;
  return status_while(st, "method '%s'", session->prog->ir.methods.items[index].name);
}
