/* Compares a node's results with the CPU backend's. The operands are copied before the node runs,
 * the CPU backend runs it on the copies, and both results are compared.
 *
 * A launch is proven if one launch of its class had right results (the backend's is_unproven).
 * Sizes determine the class, so each command queries it once. Of a large node only some rows are
 * compared (operands.c); if even these are too large, the node stays unproven and a message says
 * so. */
#include "interp/check/self_check.h"

#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
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
  oracle_destroy(session->oracle); /* exists if an earlier attempt failed */
  oracle *oracle = session->oracle = calloc(1, sizeof *oracle);
  if (!oracle) return status_no_memory();
  int own = device_set_cpu(&session->devices);
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

static clave_status correct_rows(const checking *whole, int64_t from) {
  checking subset = {.session = whole->session,
                     .backend = whole->backend,
                     .nd = whole->nd,
                     .compared = whole->compared};
  int64_t left = subset.compared.rows - from;
  subset.number = whole->number;
  subset.compared.from = from;
  if (left < subset.compared.count) subset.compared.count = left;
  bool fits;
  device_fault fault;
  clave_status st = copy_operands(&subset, &fits);
  if (!st) st = run_oracle(&subset, &fault);
  if (!st) st = correct_extent(&subset);
  free_copies(&subset);
  return st;
}

static bool is_in_place(const checking *checking) {
  for (uint32_t i = 0; i < checking->n_regions; i++)
    if (checking->regions[i].is_read && checking->regions[i].is_written) return true;
  return false;
}

/* Replaces all results, one range of rows after the other. Fails if only some rows were checked and
 * the op overwrote its operands. */
static clave_status correct_results(checking *checking) {
  if (checking->compared.axis < 0) {
    TRY(restore_copies(checking)); /* they may have been changed to measure the sensitivity */
    device_fault fault;
    TRY(run_oracle(checking, &fault));
    return correct_extent(checking);
  }
  if (is_in_place(checking))
    return status_new(STATUS_DEVICE, "the kernels of %s compute wrong numbers on %s: %s",
                      self_check_op_of(checking), device_of(checking), checking->verdict.data);
  for (int64_t from = 0; from < checking->compared.rows; from += checking->compared.count)
    TRY(correct_rows(checking, from));
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

/* Runs the oracle on the copies and writes its results to the device. Invalid data are an error,
 * which the device cannot report. */
static clave_status run_instead(checking *checking) {
  device_fault fault;
  TRY(run_oracle(checking, &fault));
  return fault.present ? fault_status(&fault.fault) : correct_extent(checking);
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
  bool fits;
  device_fault fault;
  checking->rounds = command->recorded->rounds;
  TRY(oracle_of(checking->session));
  TRY(copy_operands(checking, &fits));
  clave_status st =
      checking->nd->instruction->op_type == IR_OP_CUSTOM
          ? run_guarded(checking, command->recorded, &state->state, &operands)
          : vt->run(queue, command->recorded, &state->state, &operands, checking->number);
  if (st) return st;
  if (!fits) {
    note_unchecked(checking);
    state->checked = true;
    return NULL;
  }
  TRY(run_oracle(checking, &fault));
  if (fault.present) return NULL; /* invalid data, which the device reports as well */
  TRY(compare_results(checking));
  if (checking->verdict.size)
    return distrust(checking, run, command->instruction); /* in a loop, in each iteration */
  state->checked = true;
  return vt->proof->prove(queue, command->recorded, state->packs);
}

clave_status check_recording(session *session, int on, const node *node, const recording *recording,
                             void **state, const run_operands *operands, text *verdict) {
  checking checking = {.session = session, .backend = on, .nd = node, .rounds = recording->rounds};
  const backend_vtable *vt = session->devices.backends[on]->vt;
  bool fits = false;
  device_fault fault = {0};
  clave_status st = oracle_of(session);
  if (!st) st = copy_operands(&checking, &fits);
  if (!st) st = vt->run(session->streams[on], recording, state, operands, 0);
  if (!st && fits) st = run_oracle(&checking, &fault);
  if (!st && fits && !fault.present) st = compare_results(&checking);
  if (!st && fault.present) text_puts(verdict, "the measured inputs are invalid data for this op");
  if (!st && checking.verdict.size)
    text_append(verdict, checking.verdict.data, checking.verdict.size);
  if (!st && fits && !fault.present && !checking.verdict.size && vt->proof)
    st = vt->proof->prove(session->streams[on], recording, recording->n_weights > 0);
  free_results(&checking);
  free_copies(&checking);
  return st ? st : text_status(verdict);
}

static node self_check_node_of(const running *run, const command *command) {
  const ir_instruction *ins = command->kind == COMMAND_COPY
                                  ? &run->session->executable->copy_instruction
                                  : &run->graph->instructions[command->instruction];
  return (node){.instruction = ins,
                .tensors = run->binding->bound[command->backend],
                .values = run->binding->schedule->values};
}

static clave_status run_checked(const running *run, const command *command, command_state *state,
                                uint32_t number) {
  const node node = self_check_node_of(run, command);
  checking checking = {
      .session = run->session, .backend = command->backend, .nd = &node, .number = number};
  clave_status st = self_check_node(&checking, run, command, state);
  free_results(&checking);
  free_copies(&checking);
  return st;
}

static clave_status run_on_device(const running *run, const command *command, command_state *state,
                                  uint32_t number) {
  const session *session = run->session;
  const backend_vtable *vt = session->devices.backends[command->backend]->vt;
  stream *queue = session->streams[command->backend];
  TRY(get_packed_weights(run, command, state));
  if (!state->checked) {
    bool unproven = false;
    clave_status st =
        !session->options.unchecked && vt->proof
            ? vt->proof->is_unproven(queue, command->recorded, state->packs, &unproven)
            : NULL;
    if (st && (status_code_of(st) != STATUS_UNSUPPORTED || command->kind != COMMAND_RUN)) return st;
    unproven = unproven || st; /* if refused, the check computes the results */
    status_free(st);
    state->checked = !unproven;
    if (unproven) return run_checked(run, command, state, number);
  }
  const run_operands operands = operands_now(run, command, state);
  return vt->run(queue, command->recorded, &state->state, &operands, number);
}

/* Computes a command that its device refuses. why: the device's error, or NULL if this is known
 * from before. The next run has another kernel, or the CPU backend. */
static clave_status run_replaced(const running *run, const command *command, uint32_t number,
                                 clave_status why) {
  const node node = self_check_node_of(run, command);
  checking checking = {.session = run->session,
                       .backend = command->backend,
                       .nd = &node,
                       .number = number,
                       .is_whole = true,
                       .rounds = command->recorded->rounds};
  bool fits;
  if (why) replace_command(run, command, why);
  clave_status st = oracle_of(run->session);
  if (!st) st = copy_operands(&checking, &fits);
  if (!st) st = run_instead(&checking);
  free_copies(&checking);
  return st;
}

clave_status run_recorded(const running *run, const command *command, command_state *state,
                          uint32_t number) {
  clave_status st = state->is_refused ? NULL : run_on_device(run, command, state, number);
  if (!state->is_refused && !is_to_be_replaced(run, command, st)) return st;
  return run_replaced(run, command, number, st);
}
