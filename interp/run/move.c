/* Moves ops to the CPU backend if a device cannot run their kernels or computed wrong results. An
 * executable is immutable, so the session gets its own. */
#include "interp/run/move.h"

#include <stdlib.h>
#include <string.h>
#include "interp/run/bindings.h"
#include "interp/run/trace_work.h"

bool can_move(const running *run, uint32_t instruction, int from) {
  const session *session = run->session;
  int to = device_set_fallback(&session->devices);
  if (session->options.strict_check || instruction >= run->graph->n ||
      run->method->where[instruction] != from)
    return false;
  return run->graph->instructions[instruction].op_type == IR_OP_CUSTOM || (to >= 0 && to != from);
}

clave_status move_later(const running *run, uint32_t instruction, const char *reason) {
  const char **moved = &run->state->moved[instruction];
  if (!*moved) *moved = mem_pool_strdup(run->session->pool, reason, strlen(reason));
  if (!*moved) return status_no_memory();
  run->state->has_moved = true;
  return NULL;
}

static ir_op move_op_of(const running *run, uint32_t instruction) {
  return run->graph->instructions[instruction].op_type;
}

const char *place_of_moved(const ir_instruction *ins) {
  return ins->op_type == IR_OP_CUSTOM ? "its reference runs instead" : "it runs on the CPU backend";
}

/* Sends a message for the first instruction of each op type that moves. */
static void note_move(const running *run, const command *command, const char *why) {
  const session_options *options = &run->session->options;
  for (uint32_t i = 0; i < run->graph->n; i++)
    if (i != command->instruction && run->state->moved[i] &&
        move_op_of(run, i) == move_op_of(run, command->instruction))
      return;
  text note = {0};
  const ir_instruction *ins = &run->graph->instructions[command->instruction];
  text_printf(&note, "%s cannot run on %s (%s); %s", name_of_op(ins),
              run->session->devices.backends[command->backend]->info.name, why,
              place_of_moved(ins));
  if (options->message && note.data) options->message(options->message_ctx, note.data);
  text_free(&note);
}

/* True if the device may have another kernel for the command. */
static bool may_record_again(const running *run, const command *command) {
  enum { MAX_AGAIN = 64 };
  stream *stream = run->session->streams[command->backend];
  const backend_building *building = stream->owner->vt->building;
  return command->recorded && !command->recorded->is_refused && run->session->n_again < MAX_AGAIN &&
         building && building->was_refused && building->was_refused(stream, command->recorded);
}

clave_status give_up_command(const running *run, const command *command, clave_status why) {
  session *session = run->session;
  if (status_code_of(why) != STATUS_UNSUPPORTED || command->kind != COMMAND_RUN) return why;
  if (may_record_again(run, command)) {
    if (!session->record_again) session->n_again++;
    session->record_again = session->plan_again = true;
    return why;
  }
  if (!can_move(run, command->instruction, command->backend)) return why;
  const bool is_known = run->state->moved[command->instruction];
  clave_status st = move_later(run, command->instruction, status_message(why));
  if (st) {
    status_free(why);
    return st;
  }
  if (!is_known) note_move(run, command, status_message(why));
  session->plan_again = true;
  return why;
}

bool is_to_be_replaced(const running *run, const command *command, const struct clave_error *st) {
  const session *session = run->session;
  return run->is_final && command->kind == COMMAND_RUN &&
         status_code_of(st) == STATUS_UNSUPPORTED && !session->options.strict_check &&
         !session->devices.no_fallback;
}

/* Reports the first refused kernel of a session; give_up_command reports each op that moves. */
static void note_refused(const running *run, const command *command,
                         const struct clave_error *why) {
  session *session = run->session;
  const session_options *options = &session->options;
  text note = {0};
  if (session->has_reported_refusal) return;
  session->has_reported_refusal = true;
  text_printf(&note, "%s refuses a kernel of %s (%s); the CPU backend computes this run's results",
              session->devices.backends[command->backend]->info.name,
              name_of_op(&run->graph->instructions[command->instruction]), status_message(why));
  if (options->message && note.data) options->message(options->message_ctx, note.data);
  text_free(&note);
}

void replace_command(const running *run, const command *command, clave_status why) {
  const bool plan_again = run->session->plan_again;
  note_refused(run, command, why);
  status_free(give_up_command(run, command, why));
  run->session->plan_again = plan_again;
}

clave_status replace_moved(session *session) {
  uint32_t n = session->prog->ir.methods.count, found = 0;
  for (uint32_t k = 0; k < n; k++) found += session->methods[k].has_moved;
  if (!found && !session->record_again) return NULL;
  const char *const **reasons = calloc(n, sizeof *reasons);
  if (!reasons) return status_no_memory();
  for (uint32_t k = 0; k < n; k++) reasons[k] = session->methods[k].moved;
  executable *executable = NULL;
  clave_status st = trace_compute_work(session);
  if (!st)
    st = executable_move(session->executable, reasons, (uint8_t)device_set_cpu(&session->devices),
                         &executable);
  free(reasons);
  if (st) return st;
  forget_bindings(session);
  executable_destroy(session->own);
  session->executable = session->own = executable;
  for (uint32_t k = 0; k < n; k++) session->methods[k].has_moved = false;
  session->record_again = false;
  return NULL;
}

bool host_may_copy(const session *session, const command *command, const struct clave_error *st) {
  return command->kind == COMMAND_COPY && status_code_of(st) == STATUS_UNSUPPORTED &&
         !session->options.strict_check && !session->devices.no_fallback;
}
