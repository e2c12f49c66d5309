/* Prepares the commands of a schedule: kernels, which are built together, the states of the
 * streams, and packed weights. */
#include "interp/run/prepare.h"

#include "interp/run/move.h"
#include "interp/run/packed_weights.h"

typedef struct progress_relay {
  const session *session;
  int done;          /* the last number reported */
  bool is_cancelled; /* true once `cancel` has returned true, so that it is not called again */
} progress_relay;

static bool relay_progress(void *ctx, int done, int total) {
  progress_relay *relay = ctx;
  const session_options *options = &relay->session->options;
  if (options->progress && done > relay->done)
    options->progress(options->progress_ctx, "building kernels", done, total);
  relay->done = done;
  relay->is_cancelled = relay->is_cancelled || session_is_cancelled(relay->session);
  return !relay->is_cancelled;
}

static clave_status prepare_build_kernels(session *session) {
  for (int b = 0; b < session->devices.count; b++) {
    const backend_vtable *vt = session->devices.backends[b]->vt;
    if (!vt->building) continue;
    progress_relay relay = {.session = session};
    TRY(vt->building->build_all(session->streams[b], relay_progress, &relay));
    if (relay.is_cancelled) return CANCELLED("cancelled");
  }
  return NULL;
}

/* Returns the error of the first command that its device cannot run; marks all such commands. */
static clave_status prepare_commands(const running *run) {
  const schedule *schedule = run->binding->schedule;
  clave_status first = NULL;
  packing_progress packing = begin_packing(run);
  pack_largest(run, &packing);
  for (uint32_t i = schedule->first_command; i < schedule->n_commands; i++) {
    const command *command = &schedule->commands[i];
    const backend_vtable *vt = run->session->devices.backends[command->backend]->vt;
    command_state *state = &run->binding->commands[i];
    if (!command->recorded) continue;
    if (session_is_cancelled(run->session)) {
      status_free(first);
      return CANCELLED("cancelled");
    }
    clave_status st = NULL;
    if (vt->building)
      st = vt->building->prepare(run->session->streams[command->backend], command->recorded,
                                 &state->state);
    if (!st) st = prepare_packed_weights(run, command, state, &packing);
    if (is_to_be_replaced(run, command, st)) {
      state->is_refused = true;
      replace_command(run, command, st);
      st = NULL;
    }
    st = while_in_node(give_up_command(run, command, st), run->graph, command->instruction);
    if (first || host_may_copy(run->session, command, st)) {
      status_free(st);
    } else {
      first = st;
    }
    if (first && !run->session->plan_again) return first;
  }
  end_packing(run, &packing);
  return first;
}

bool kernels_are_built(const running *run, const schedule *schedule) {
  for (uint32_t i = schedule->first_command; i < schedule->n_commands; i++) {
    const command *command = &schedule->commands[i];
    stream *stream = run->session->streams[command->backend];
    if (command->recorded && stream->owner->vt->building &&
        !stream->owner->vt->building->is_built(stream, command->recorded))
      return false;
  }
  return true;
}

clave_status prepare_kernels(const running *run) {
  const schedule *schedule = run->binding->schedule;
  bool has_kernels = false;
  for (uint32_t i = schedule->first_command; i < schedule->n_commands; i++) {
    const command *command = &schedule->commands[i];
    const backend_vtable *vt = run->session->devices.backends[command->backend]->vt;
    if (!command->recorded || !vt->building) continue;
    TRY(vt->building->request(run->session->streams[command->backend], command->recorded));
    has_kernels = true;
  }
  if (has_kernels) TRY(prepare_build_kernels(run->session));
  return prepare_commands(run);
}
