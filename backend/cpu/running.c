/* Runs recordings with the buffers of a session, and computes scratch sizes of commands. */
#include "backend/cpu/recorded.h"

#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels/support/features.h"

/* A stream's copy of the arguments of all commands, in order, each aligned to 16 bytes. */
typedef struct cpu_state {
  uint64_t serial; /* identifies the recording */
  _Alignas(16) char args[];
} cpu_state;

static size_t aligned(size_t bytes) { return (bytes + 15) / 16 * 16; }

size_t cpu_command_scratch(const cpu_command *command, int n_threads, const char *level) {
  const kernel_context ctx = {.n_threads = n_threads};
  size_t most = 0;
  for (int kind = KIND_PORTABLE; command->desc->scratch && kind <= KIND_ALL; kind++) {
    cpu_pretend((cpu_kind)kind);
    const bool counts = !level || strcmp(cpu_level_name(), level) == 0;
    const size_t bytes = counts ? command->desc->scratch(&ctx, command->args) : 0;
    if (bytes > most) most = bytes;
  }
  cpu_pretend(KIND_OWN);
  return most;
}

/* ---------------------------------------------------------------- running */

void cpu_state_destroy(stream *stream, void *state) {
  (void)stream;
  free(state);
}

static clave_status make_state(const recording *recording, void **state) {
  cpu_state *prepared = *state;
  int n;
  const cpu_command *command = cpu_recorded_commands(recording, &n);
  size_t bytes = 0;
  if (prepared && prepared->serial == recording->serial) return NULL;
  for (int i = 0; i < n; i++) bytes += aligned(command[i].desc->args_size);
  free(prepared);
  *state = prepared = malloc(sizeof *prepared + bytes);
  if (!prepared) return status_no_memory();
  prepared->serial = recording->serial;
  char *to = prepared->args;
  for (int i = 0; i < n; i++) {
    memcpy(to, command[i].args, command[i].desc->args_size);
    to += aligned(command[i].desc->args_size);
  }
  return NULL;
}

/* Sets the data pointers in the arguments of a command. */
static void set_data(const cpu_command *command, void *args, const run_operands *operands) {
  static char nothing; /* data of empty operands, because the pointer must not be NULL */
  for (int i = 0; i < command->n_operands; i++) {
    const cpu_operand_place *place = &command->operands[i];
    if (place->is_packed) {
      *cpu_data_at(args, place->at) =
          operands->weights[place->slot] ? cpu_buffer_data(operands->weights[place->slot]) : NULL;
      continue;
    }
    if (place->unless && operands->weights[place->unless - 1]) {
      *cpu_data_at(args, place->at) = NULL;
      continue;
    }
    const bound_tensor *tensor = &operands->tensors[place->slot];
    *cpu_data_at(args, place->at) =
        tensor->buf ? cpu_buffer_data(tensor->buf) + tensor->buffer_offset + place->offset
                    : &nothing;
  }
}

clave_status cpu_run_commands(cpu_stream *stream, const recording *recording, void **state,
                              const run_operands *operands) {
  int n;
  const cpu_command *command = cpu_recorded_commands(recording, &n);
  TRY(make_state(recording, state));
  stream->scratch = operands->scratch ? cpu_buffer_data(operands->scratch) : NULL;
  stream->scratch_size = recording->scratch_bytes;
  char *args = ((cpu_state *)*state)->args;
  for (int i = 0; i < n; i++) {
    set_data(&command[i], args, operands);
    stream->scratch_used = 0;
    stream->kernel.n_threads =
        command[i].n_threads ? command[i].n_threads : thread_pool_size(stream->threads);
    if (!command[i].desc->run(&stream->kernel, args)) return status_no_memory();
    args += aligned(command[i].desc->args_size);
  }
  return NULL;
}

clave_status cpu_pack(stream *stream, const packed_weight_request *request,
                      const bound_tensor *operands, bool clears, buffer *to) {
  void *state = NULL;
  const run_operands run_operands = {.tensors = operands, .scratch = to};
  if (clears) memset(cpu_buffer_data(to), 0, to->bytes);
  clave_status st = cpu_run_commands((cpu_stream *)stream, request->pack, &state, &run_operands);
  cpu_state_destroy(stream, state);
  return st;
}
