/* Compares a node's results with the CPU backend's. The operands are copied before the node runs,
 * the CPU backend runs it on the copies, and both results are compared.
 *
 * A launch is proven if one launch of its class was right (the backend's is_unproven). Sizes
 * determine the class, so each command queries it once. Only a part of a large node is compared
 * (operands.c); if even the part is too large, the node stays unproven and a message says so. */
#include "interp/check/self_check.h"

#include <stdlib.h>
#include <string.h>

#include "interp/check/bounds.h"
#include "interp/check/operands.h"
#include "interp/check/results.h"
#include "interp/host_copy.h"
#include "interp/run/move.h"
#include "interp/run/packed_weights.h"

static const char distrust_reason[] =
    "the kernels of this op computed wrong numbers on this device";

void oracle_destroy(oracle *oracle) {
  if (!oracle) return;
  if (oracle->queue) oracle->cpu->vt->stream_destroy(oracle->cpu, oracle->queue);
  if (oracle->owner) oracle->owner->vt->destroy(oracle->owner);
  free(oracle);
}

static clave_status oracle_of(session *session) {
  if (session->oracle && session->oracle->queue) return NULL;
  oracle_destroy(session->oracle); /* left over from a failed attempt */
  oracle *oracle = session->oracle = calloc(1, sizeof *oracle);
  if (!oracle) return status_no_memory();
  int own = cpu_of(session);
  if (own < 0) TRY(cpu_backend_create(0, &oracle->owner));
  oracle->cpu = own < 0 ? oracle->owner : session->devices.backends[own];
  return oracle->cpu->vt->stream_create(oracle->cpu, &oracle->queue);
}

static const char *self_check_op_of(const checking *checking) {
  return name_of_op(checking->nd->instruction);
}
static const char *device_of(const checking *checking) {
  return checking->session->devices.backends[checking->backend]->info.name;
}

static void send(const checking *checking, const text *note) {
  if (checking->session->options.message && note->data)
    checking->session->options.message(checking->session->options.message_ctx, note->data);
}

/* ---------------------------------------------------------------- wrong results */

/* Replaces one result of the device by the CPU backend's. */
static clave_status correct_result(const checking *checking, uint32_t tid) {
  const bound_tensor *to = &checking->view[tid], *from = &checking->copy[tid];
  if (tensor_numel(&to->tensor) == 0) return NULL;
  size_t bytes, size = dtype_size(from->tensor.type), to_size = dtype_size(to->tensor.type);
  TRY(known_bytes(&from->tensor, &bytes));
  void *right = malloc(bytes);
  if (!right) return status_no_memory();
  const oracle *oracle = checking->session->oracle;
  clave_status st = oracle->cpu->vt->read(oracle->queue, from->buf,
                                          (size_t)from->tensor.offset * size, right, bytes);
  if (!st)
    st = checking->session->devices.backends[checking->backend]->vt->write(
        checking->session->streams[checking->backend], to->buf,
        to->buffer_offset + (size_t)to->tensor.offset * to_size, right,
        (size_t)tensor_numel(&to->tensor) * to_size);
  free(right);
  return st;
}

static clave_status correct_extent(const checking *checking) {
  for (operand_iter i = operands_of(checking->nd->instruction); next_operand(&i);)
    if (i.operand.flags & IR_OUT) TRY(correct_result(checking, i.operand.tid));
  return NULL;
}

static clave_status correct_part(const checking *whole, int64_t from) {
  checking piece = {
      .session = whole->session, .backend = whole->backend, .nd = whole->nd, .part = whole->part};
  int64_t left = piece.part.rows - from;
  piece.number = whole->number;
  piece.part.from = from;
  if (left < piece.part.count) piece.part.count = left;
  bool fits, faulty;
  clave_status st = copy_operands(&piece, &fits);
  if (!st) st = run_oracle(&piece, &faulty);
  if (!st) st = correct_extent(&piece);
  free_copies(&piece);
  return st;
}

static bool is_in_place(const checking *checking) {
  for (uint32_t i = 0; i < checking->n_regions; i++)
    if (checking->regions[i].is_read && checking->regions[i].is_written) return true;
  return false;
}

/* Replaces all results, part by part. Fails if an op checked in part overwrote its operands. */
static clave_status correct_results(checking *checking) {
  if (checking->part.axis < 0) {
    TRY(restore_copies(checking)); /* the last run of the oracle may have had changed operands */
    bool faulty;
    TRY(run_oracle(checking, &faulty));
    return correct_extent(checking);
  }
  if (is_in_place(checking))
    return status_new(STATUS_DEVICE, "the kernels of %s compute wrong numbers on %s: %s",
                      self_check_op_of(checking), device_of(checking), checking->verdict.data);
  for (int64_t from = 0; from < checking->part.rows; from += checking->part.count)
    TRY(correct_part(checking, from));
  return NULL;
}

static clave_status distrust(checking *checking, const running *run, uint32_t instruction) {
  if (!can_move(run, instruction, checking->backend))
    return status_new(STATUS_DEVICE, "the kernels of %s compute wrong numbers on %s: %s",
                      self_check_op_of(checking), device_of(checking), checking->verdict.data);
  bool is_known = run->state->moved[instruction];
  TRY(move_later(run, instruction, distrust_reason));
  TRY(correct_results(checking));
  if (is_known) return NULL;
  text note = {0};
  text_printf(&note, "%s computes wrong numbers on %s (%s); %s", self_check_op_of(checking),
              device_of(checking), checking->verdict.data,
              place_of_moved(checking->nd->instruction));
  send(checking, &note);
  text_free(&note);
  return NULL;
}

/* ---------------------------------------------------------------- refused kernels */

/* Reports the first refused kernel of a session; give_up_command reports each op that moves. */
static void note_refused(const checking *checking, const struct clave_error *why) {
  oracle *oracle = checking->session->oracle;
  if (oracle->noted_refusal) return;
  oracle->noted_refusal = true;
  text note = {0};
  text_printf(&note, "%s refuses a kernel of %s (%s); the CPU backend computes this run's results",
              device_of(checking), self_check_op_of(checking), status_message(why));
  send(checking, &note);
  text_free(&note);
}

/* Computes the results on the CPU backend, after the device refused a launch. Launches before it
 * may have overwritten operands, of which there are copies. The run goes on; the next one has
 * another kernel, or the CPU backend. Returns `why` if that cannot be. */
static clave_status replace_refused(checking *checking, const running *run, const command *command,
                                    clave_status why) {
  session *session = checking->session;
  const bool in_parts = checking->part.axis >= 0;
  if (session->devices.no_fallback || session->options.strict_check || in_parts) return why;
  bool faulty;
  clave_status st = restore_copies(checking);
  if (!st) st = run_oracle(checking, &faulty);
  if (!st && faulty) return why; /* a run on the CPU backend reports it */
  if (!st) st = correct_extent(checking);
  if (!st) note_refused(checking, why);
  why = give_up_command(run, command, why);
  session->plan_again = false; /* this run has its results */
  status_free(why);
  return st;
}

/* ---------------------------------------------------------------- the check */

/* Reports once per session that a node is not checked. */
static void note_unchecked(const checking *checking) {
  oracle *oracle = checking->session->oracle;
  if (oracle->noted) return;
  oracle->noted = true;
  text note = {0};
  text_printf(
      &note,
      "%s is too large to be compared with the CPU backend, so its kernels on %s run unchecked",
      self_check_op_of(checking), device_of(checking));
  send(checking, &note);
  text_free(&note);
}

static run_operands operands_now(const running *run, const command *command,
                                 const command_state *state) {
  return (run_operands){run->binding->bound[command->backend],
                        run->session->scratch[command->backend], state->weights,
                        run->session->random};
}

static clave_status self_check_node(checking *checking, const running *run, const command *command,
                                    command_state *state) {
  const backend_vtable *vt = checking->session->devices.backends[checking->backend]->vt;
  stream *queue = checking->session->streams[checking->backend];
  const run_operands operands = operands_now(run, command, state);
  bool fits, faulty;
  checking->rounds = command->recorded->rounds;
  TRY(oracle_of(checking->session));
  TRY(copy_operands(checking, &fits));
  clave_status st =
      checking->nd->instruction->op_type == IR_OP_CUSTOM
          ? run_guarded(checking, command->recorded, &state->state, &operands)
          : vt->run(queue, command->recorded, &state->state, &operands, checking->number);
  if (status_code_of(st) == STATUS_UNSUPPORTED && command->kind == COMMAND_RUN && fits)
    return replace_refused(checking, run, command, st);
  if (st) return st;
  if (!fits) {
    note_unchecked(checking);
    state->checked = true;
    return NULL;
  }
  TRY(run_oracle(checking, &faulty));
  if (faulty) return NULL; /* bad indices, which the device reports as well */
  TRY(compare_results(checking));
  if (checking->verdict.size)
    return distrust(checking, run, command->instruction); /* in a loop, once per iteration */
  state->checked = true;
  return vt->proof->prove(queue, command->recorded, state->packs);
}

clave_status check_recording(session *session, int on, const node *node, const recording *recording,
                             void **state, const run_operands *operands, text *verdict) {
  checking checking = {.session = session, .backend = on, .nd = node, .rounds = recording->rounds};
  const backend_vtable *vt = session->devices.backends[on]->vt;
  bool fits = false, faulty = false;
  clave_status st = oracle_of(session);
  if (!st) st = copy_operands(&checking, &fits);
  if (!st) st = vt->run(session->streams[on], recording, state, operands, 0);
  if (!st && fits) st = run_oracle(&checking, &faulty);
  if (!st && fits && !faulty) st = compare_results(&checking);
  if (!st && faulty) text_puts(verdict, "the measured inputs are invalid data for this op");
  if (!st && checking.verdict.size)
    text_append(verdict, checking.verdict.data, checking.verdict.size);
  if (!st && fits && !faulty && !checking.verdict.size && vt->proof)
    st = vt->proof->prove(session->streams[on], recording, recording->n_weights > 0);
  free_results(&checking);
  free_copies(&checking);
  return st ? st : text_status(verdict);
}

static clave_status run_checked(const running *run, const command *command, command_state *state,
                                uint32_t number) {
  const ir_instruction *ins = command->kind == COMMAND_COPY
                                  ? &run->session->executable->copy_instruction
                                  : &run->graph->instructions[command->instruction];
  const node node = {.instruction = ins,
                     .tensors = run->binding->bound[command->backend],
                     .values = run->binding->schedule->values};
  checking checking = {
      .session = run->session, .backend = command->backend, .nd = &node, .number = number};
  clave_status st = self_check_node(&checking, run, command, state);
  free_results(&checking);
  free_copies(&checking);
  return st;
}

clave_status run_recorded(const running *run, const command *command, command_state *state,
                          uint32_t number) {
  const session *session = run->session;
  const backend_vtable *vt = session->devices.backends[command->backend]->vt;
  stream *queue = session->streams[command->backend];
  TRY(take_packed_weights(run, command, state));
  if (!state->checked) {
    bool unproven = false;
    clave_status st =
        !session->options.unchecked && vt->proof
            ? vt->proof->is_unproven(queue, command->recorded, state->packs, &unproven)
            : NULL;
    if (st && (status_code_of(st) != STATUS_UNSUPPORTED || command->kind != COMMAND_RUN)) return st;
    unproven = unproven || st; /* refused: the check computes the results in its place */
    status_free(st);
    state->checked = !unproven;
    if (unproven) return run_checked(run, command, state, number);
  }
  const run_operands operands = operands_now(run, command, state);
  return vt->run(queue, command->recorded, &state->state, &operands, number);
}
