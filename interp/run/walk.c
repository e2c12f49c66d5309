/* Runs the commands of a schedule in order, with the bodies of control ops, and then the following
 * schedules, as soon as their sizes are known. */
#include "interp/run/walk.h"

#include "interp/run/arguments.h"
#include "interp/run/bind.h"
#include "interp/run/commands.h"
#include "interp/run/control_flow.h"
#include "interp/run/move.h"
#include "interp/run/prepare.h"
#include "interp/run/streams.h"
#include "interp/scalar.h"

/* ---------------------------------------------------------------- commands */

static clave_status run_numbered(const running *run, uint32_t i) {
  const command *command = &run->binding->schedule->commands[i];
  if (command->kind < COMMAND_CONTROL)
    TRY(give_up_command(run, command, run_command(run, command, &run->binding->commands[i])));
  if (command->kind == COMMAND_CONTROL) {
    TRY(run_control(run, command->control));
    TRY(observe_control(run, i)); /* by index: planning a late body reallocates commands */
  }
  return run->session->options.poison ? poison_dead(run, i) : NULL;
}

clave_status run_commands(const running *run, range commands) {
  const schedule *schedule = run->binding->schedule;
  run->session->random.run++;
  for (uint32_t i = commands.first;; i++) { /* checks for cancellation even without commands */
    if (session_is_cancelled(run->session)) return CANCELLED("cancelled");
    if (i >= commands.end) return NULL;
    TRY(while_in_node(run_numbered(run, i), run->graph, schedule->commands[i].instruction));
    if (schedule->commands[i].kind == COMMAND_CONTROL)
      i = schedule->controls[schedule->commands[i].control]->end - 1;
  }
}

/* ---------------------------------------------------------------- schedules */

static clave_status read_item(const running *run, scalar_value *out) {
  const schedule *schedule = run->binding->schedule;
  const ir_item *op = run->graph->instructions[schedule->reads].op;
  location location = schedule->now[op->x];
  unsigned char raw[8] = {0};
  TRY(read_element(run, location, schedule_home(schedule, location.storage), raw));
  return scalar_from_bytes(location.t.type, raw, run->session->prog->ir.values.items[op->out].type,
                           out);
}

static clave_status keep_item(method_state *state, scalar_value value) {
  if (!array_reserve(&state->items, &state->cap_items, (size_t)state->n_items + 1,
                     sizeof *state->items))
    return status_no_memory();
  state->items[state->n_items++] = value;
  return NULL;
}

/* Continues with the schedule that depends on the value read by the Item. */
static clave_status continue_after_item(const running *run) {
  const schedule *schedule = run->binding->schedule;
  scalar_value value = {0};
  bool is_new;
  TRY(finish_all(run->session, run->graph)); /* reports bad data before its value is used */
  TRY(while_in_node(read_item(run, &value), run->graph, schedule->reads));
  value.known = true;
  if (schedule->rest.control == NO_INDEX) TRY(keep_item(run->state, value));
  TRY(bind_following(run, &value, &is_new));
  return is_new ? prepare_kernels(run) : NULL;
}

clave_status run_segments(const running *run) {
  for (;;) {
    const schedule *schedule = run->binding->schedule;
    uint64_t bytes = schedule_arena_bytes(schedule);
    if (run->session->last_arena_bytes < bytes) run->session->last_arena_bytes = bytes;
    TRY(write_inputs(run));
    TRY(run_commands(run, (range){schedule->first_command, schedule->n_commands}));
    if (schedule->reads == NO_INDEX) return NULL;
    TRY(continue_after_item(run));
  }
}
