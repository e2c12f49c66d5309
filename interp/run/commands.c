/* Runs one command: ops and copies on their backends, and transfers. Traces and observes it. */
#include "interp/run/commands.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "interp/check/self_check.h"
#include "interp/host_copy.h"
#include "interp/run/bind.h"
#include "interp/run/move.h"
#include "interp/run/streams.h"
#include "interp/run/trace.h"
#include "interp/run/trace_work.h"

/* Returns the number under which the backend reports faults and times. In profiles it is the number
 * of the event, because loops repeat commands. */
static uint32_t launch_number(const session *session, const command *command) {
  return session->options.profile ? session->n_events : command->instruction;
}

/* ---------------------------------------------------------------- kinds of commands */

static clave_status copy_elements(const running *run, const command *command, void *stored,
                                  void *copied) {
  stream *stream = run->session->streams[command->backend];
  const backend_vtable *vt = stream->owner->vt;
  const storage *storage = &run->binding->schedule->storages[command->x.storage];
  const bound_tensor from = bind_location(run->binding, command->x, command->backend),
                     to = bind_location(run->binding, command->out, command->backend);
  const size_t size = dtype_size(to.tensor.type), n = (size_t)tensor_numel(&to.tensor);
  TRY(vt->read(stream, from.buf, from.buffer_offset, stored, storage->bytes));
  copy_to_contiguous(&from.tensor, stored, copied);
  return vt->write(stream, to.buf, to.buffer_offset + (size_t)to.tensor.offset * size, copied,
                   n * size);
}

/* Copies through host memory. The planner's copies always have contiguous destinations. */
static clave_status copy_on_host(const running *run, const command *command) {
  size_t bytes;
  TRY(known_bytes(&command->out.t, &bytes));
  void *stored = malloc(run->binding->schedule->storages[command->x.storage].bytes + 1),
       *copied = malloc(bytes + 1);
  clave_status st =
      stored && copied ? copy_elements(run, command, stored, copied) : status_no_memory();
  free(stored);
  free(copied);
  return st;
}

/* The operands of the planner's copies are the two slots after the program's own. */
static clave_status run_copy(const running *run, const command *command, command_state *state) {
  uint32_t n = slot_count(run->session->prog);
  bound_tensor *bound = run->binding->bound[command->backend];
  bound[n] = bind_location(run->binding, command->x, command->backend);
  bound[n + 1] = bind_location(run->binding, command->out, command->backend);
  clave_status st = run_recorded(run, command, state, launch_number(run->session, command));
  if (host_may_copy(run->session, command, st)) {
    status_free(st);
    st = copy_on_host(run, command);
  }
  if (st) return st;
  if (command->rebind != NO_INDEX) rebind_slot(run, command->rebind, command->out);
  return NULL;
}

static clave_status run_transfer(const running *run, const command *command) {
  const storage *storage = &run->binding->schedule->storages[command->x.storage];
  const address *blocks = run->binding->blocks;
  return copy_bytes(run, storage->home, blocks[storage->block[storage->home]], command->backend,
                    blocks[storage->block[command->backend]], storage->bytes);
}

/* ---------------------------------------------------------------- observers */

/* Passes a result to the observer in the program's dtype: as F32 if it is stored as BF16. */
static clave_status observe_result(const running *run, int b, uint32_t instruction, uint32_t tid) {
  session *session = run->session;
  const bound_tensor *tensor = &run->binding->bound[b][tid];
  const dtype type = run->binding->schedule->types[tid].type;
  const bool is_kept = tensor->tensor.type != type;
  const int64_t n = tensor_numel(&tensor->tensor);
  size_t bytes;
  TRY(known_bytes(&tensor->tensor, &bytes));
  void *host = malloc((is_kept ? 2 : 1) * bytes + 1);
  if (!host) return status_no_memory();
  stream *stream = session->streams[b];
  const size_t offset =
      tensor->buffer_offset + (size_t)tensor->tensor.offset * dtype_size(tensor->tensor.type);
  bool edited = false;
  clave_status st =
      bytes ? stream->owner->vt->read(stream, tensor->buf, offset, host, bytes) : NULL;
  host_tensor value = {.t = tensor->tensor, .data = host};
  tensor_set_contiguous(&value.t);
  value.t.type = type;
  if (!st && is_kept) widen_bf16(host, n);
  if (!st && !session->observe(session->observe_ctx, instruction, tid, &value, &edited))
    st = CANCELLED("the observer stopped the run");
  if (!st && edited && is_kept) round_to_bf16(host, n);
  if (!st && edited && bytes)
    st = stream->owner->vt->write(stream, tensor->buf, offset, host, bytes);
  free(host);
  return st;
}

static clave_status observe_command(const running *run, const command *command) {
  if (!run->session->observe || command->kind != COMMAND_RUN) return NULL;
  uint32_t source = run->graph->source[command->instruction];
  for (operand_iter i = operands_of(&run->graph->instructions[command->instruction]);
       next_operand(&i);)
    if (i.operand.flags & IR_OUT) TRY(observe_result(run, command->backend, source, i.operand.tid));
  return NULL;
}

clave_status observe_control(const running *run, uint32_t number) {
  const schedule *schedule = run->binding->schedule;
  const uint32_t instruction = schedule->commands[number].instruction;
  if (!run->session->observe) return NULL;
  for (operand_iter i = operands_of(&run->graph->instructions[instruction]); next_operand(&i);) {
    const uint32_t at = i.operand.flags & IR_OUT ? schedule->at[i.operand.tid].storage : NO_INDEX;
    const uint8_t home = at == NO_INDEX ? NO_HOME : schedule->storages[at].home;
    if (home == NO_HOME || !run->binding->bound[home][i.operand.tid].buf) continue;
    TRY(observe_result(run, home, run->graph->source[instruction], i.operand.tid));
  }
  return NULL;
}

clave_status poison_dead(const running *run, uint32_t number) {
  const schedule *schedule = run->binding->schedule;
  unsigned char pattern[4096];
  memset(pattern, 0xff, sizeof pattern);
  for (uint32_t i = 0; i < schedule->n_blocks; i++) {
    const block *block = &schedule->blocks[i];
    if (block->kind != BLOCK_ARENA || block->a.last != number) continue;
    const backend_vtable *vt = run->session->devices.backends[block->backend]->vt;
    const address *to = &run->binding->blocks[i];
    if (to->buf != run->session->arenas[block->backend].chunks[block->a.chunk])
      continue; /* in an argument's memory */
    for (size_t at = 0; at < block->a.bytes; at += sizeof pattern) {
      size_t n = block->a.bytes - at < sizeof pattern ? block->a.bytes - at : sizeof pattern;
      TRY(vt->write(run->session->streams[block->backend], to->buf, to->offset + at, pattern, n));
    }
  }
  return NULL;
}

/* ---------------------------------------------------------------- one command */

static clave_status run_one(const running *run, const command *command, command_state *state) {
  session *session = run->session;
  if (command->kind == COMMAND_RUN) {
    TRY(run_recorded(run, command, state, launch_number(session, command)));
  } else {
    TRY(command->kind == COMMAND_TRANSFER ? run_transfer(run, command)
                                          : run_copy(run, command, state));
  }
  return session->observe ? observe_command(run, command) : NULL;
}

/* Keeps the event even if the command fails, because reads into its values may be pending. */
static clave_status run_traced(const running *run, const command *command, command_state *state) {
  session *session = run->session;
  trace_event event = {.method = run->index,
                       .instruction = command->instruction,
                       .kind = command->kind,
                       .backend = command->backend};
  TRY(trace_reserve(session));
  clave_status st = trace_note(run, command, &event);
  event.start_ns = clock_ns();
  if (!st) st = run_one(run, command, state);
  event.end_ns = clock_ns();
  session->events[session->n_events++] = event; /* launch_number is the index of this event */
  return st;
}

clave_status run_command(const running *run, const command *command, command_state *state) {
  return (run->session->options.profile ? run_traced : run_one)(run, command, state);
}

clave_status read_element(const running *run, location location, int b, unsigned char *raw) {
  bound_tensor tensor = bind_location(run->binding, location, b);
  size_t size = dtype_size(tensor.tensor.type);
  return run->session->devices.backends[b]->vt->read(
      run->session->streams[b], tensor.buf,
      tensor.buffer_offset + (size_t)tensor.tensor.offset * size, raw, size);
}
