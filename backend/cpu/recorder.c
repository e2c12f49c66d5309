/* The recorder, which each op function receives. It collects the node's commands in a recording and
 * has the properties of the device. */
#include "backend/cpu/recorder.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "ops/epilogue.h"

/* ---------------------------------------------------------------- operands */

static void *name_place(cpu_recorder *recorder, place place) {
  if (!array_reserve(&recorder->places, &recorder->cap_places, (size_t)recorder->n_places + 1,
                     sizeof *recorder->places)) {
    recorder->failed = true;
    return NULL;
  }
  recorder->places[recorder->n_places++] = place;
  return (void *)(uintptr_t)recorder->n_places;
}

klayout cpu_layout(const tensor *tensor) {
  klayout klayout = {.rank = tensor->rank};
  memcpy(klayout.dims, tensor->dims, (size_t)tensor->rank * sizeof *klayout.dims);
  memcpy(klayout.strides, tensor->strides, (size_t)tensor->rank * sizeof *klayout.strides);
  return klayout;
}

ktensor cpu_view(cpu_recorder *recorder, const bound_tensor *operand, const tensor *tensor) {
  int64_t offset = operand->tensor.offset * (int64_t)dtype_size(operand->tensor.type);
  ktensor ktensor = {.data = name_place(recorder, (place){.slot = operand->slot, .offset = offset}),
                     .type = operand->tensor.type,
                     .rank = tensor->rank};
  memcpy(ktensor.dims, tensor->dims, (size_t)tensor->rank * sizeof *ktensor.dims);
  memcpy(ktensor.strides, tensor->strides, (size_t)tensor->rank * sizeof *ktensor.strides);
  return ktensor;
}

ktensor cpu_operand(cpu_recorder *recorder, const bound_tensor *tensor) {
  return tensor ? cpu_view(recorder, tensor, &tensor->tensor) : (ktensor){0};
}

/* Replaces the placeholders in a command's arguments by NULL, and stores their operands in `out`.
 * Returns their number. */
static int extract_operands(const cpu_recorder *recorder, const cpu_command *command,
                            cpu_operand_place *out) {
  int n = 0;
  for (const uint16_t *at = command->desc->operands; *at; at++) {
    void **data = cpu_data_at(command->args, (uint16_t)(*at - 1));
    uintptr_t number = (uintptr_t)*data;
    *data = NULL;
    if (number == 0) continue;
    const place *place = &recorder->places[number - 1];
    out[n++] = (cpu_operand_place){.slot = place->slot,
                                   .at = (uint16_t)(*at - 1),
                                   .is_packed = place->is_packed,
                                   .unless = place->unless,
                                   .offset = place->offset};
  }
  return n;
}

/* ---------------------------------------------------------------- recording */

static clave_status cpu_recorder_add_command(cpu_recording *recording, cpu_command **out) {
  if (!array_reserve(&recording->commands, &recording->capacity, (size_t)recording->n + 1,
                     sizeof *recording->commands))
    return status_no_memory();
  *out = &recording->commands[recording->n];
  **out = (cpu_command){0};
  return NULL;
}

static void free_command(const cpu_command *command) {
  free(command->args);
  free(command->operands);
}

kernel_context cpu_kernel_context(const backend *backend) {
  return (kernel_context){.n_threads = (int)backend->info.compute_units};
}

/* Returns the context that the node's kernels will run with. */
static kernel_context context_of(const cpu_recorder *recorder) {
  kernel_context ctx = cpu_kernel_context(recorder->backend);
  if (recorder->n_threads) ctx.n_threads = recorder->n_threads;
  return ctx;
}

clave_status cpu_record_kernel(cpu_recorder *recorder, const kernel_desc *desc, const void *args) {
  cpu_command *command;
  cpu_operand_place operands[KERNEL_MAX_OPERANDS];
  if (recorder->failed) return status_no_memory();
  TRY(cpu_recorder_add_command(recorder->out, &command));
  command->desc = desc;
  command->args = malloc(desc->args_size);
  if (!command->args) return status_no_memory();
  memcpy(command->args, args, desc->args_size);
  command->n_operands = extract_operands(recorder, command, operands);
  command->operands = malloc(sizeof *operands * (size_t)command->n_operands + 1);
  if (!command->operands) {
    free_command(command);
    return status_no_memory();
  }
  memcpy(command->operands, operands, sizeof *operands * (size_t)command->n_operands);
  recorder->out->n++;
  const kernel_context ctx = context_of(recorder);
  command->n_threads = recorder->n_threads;
  size_t scratch = desc->scratch ? desc->scratch(&ctx, command->args) : 0;
  if (scratch > recorder->out->base.scratch_bytes) recorder->out->base.scratch_bytes = scratch;
  return NULL;
}

bool cpu_is_fast(const cpu_recorder *recorder) { return recorder->fast; }
void cpu_accepts_epilogue(cpu_recorder *recorder) { recorder->has_epilogue = true; }
bool cpu_has_own_epilogue(const cpu_recorder *recorder, const node *node) {
  return recorder->has_epilogue || !epilogue_of(node->instruction);
}
void cpu_rounds(cpu_recorder *recorder, rounding how) { recorder->out->base.rounds = how; }

bool cpu_may_pack(const cpu_recorder *recorder, const bound_tensor *tensor) {
  return tensor->is_constant && recorder->out->base.n_weights < MAX_PACKED_WEIGHTS;
}

/* Adds a request for a packed weight and returns its placeholder. Takes ownership of `pack`, the
 * recording that packs, which may be NULL. */
static const void *cpu_recorder_request_weight(cpu_recorder *recorder,
                                               const cpu_packed_request *request,
                                               cpu_recording *pack) {
  recording *out = &recorder->out->base;
  assert(out->n_weights < MAX_PACKED_WEIGHTS);
  const void *data =
      name_place(recorder, (place){.slot = (uint32_t)out->n_weights, .is_packed = true});
  out->weights[out->n_weights++] =
      (packed_weight_request){.constant = request->x->constant,
                              .view = request->x->tensor,
                              .kind = (int)request->kind,
                              .size = {request->size[0], request->size[1], request->size[2]},
                              .bytes = pack ? pack->base.scratch_bytes : 0,
                              .pack = pack ? &pack->base : NULL};
  return data;
}

cpu_packed_or_plain cpu_packed_by_others(cpu_recorder *recorder, const cpu_packed_request *request,
                                         const bound_tensor *tensor) {
  const void *packed = cpu_recorder_request_weight(recorder, request, NULL);
  const place plain = {.slot = tensor->slot,
                       .unless = (uint16_t)recorder->out->base.n_weights,
                       .offset = tensor->tensor.offset * (int64_t)dtype_size(tensor->tensor.type)};
  return (cpu_packed_or_plain){.packed = packed, .plain = name_place(recorder, plain)};
}

clave_status cpu_packed(cpu_recorder *recorder, const cpu_packed_request *request,
                        const void **data) {
  cpu_recording *pack = calloc(1, sizeof *pack);
  if (!pack) return status_no_memory();
  cpu_recorder own = *recorder; /* its placeholders refer to the places of `recorder` */
  own.out = pack;
  own.n_threads = 0;
  clave_status st = cpu_record_kernel(&own, request->desc, request->args);
  if (st) {
    cpu_recording_destroy(recorder->backend, &pack->base);
    return st;
  }
  *data = cpu_recorder_request_weight(recorder, request, pack);
  return NULL;
}

/* ---------------------------------------------------------------- choosing */

tuning_key cpu_key(const cpu_recorder *recorder) {
  tuning_key key = tuning_key_begin(recorder->backend->tuning, recorder->choices);
  if (recorder->fast) tuning_key_int(&key, "fast", 1);
  return key;
}

const kernel_variant *cpu_choose(cpu_recorder *recorder, const variants *all,
                                 const tuning_key *key) {
  return tuning_choose(recorder->backend->tuning, recorder->choices, all, key);
}

void cpu_recording_destroy(backend *backend, recording *base) {
  cpu_recording *recorded = (cpu_recording *)base;
  if (!recorded) return;
  for (int i = 0; i < recorded->base.n_weights; i++)
    cpu_recording_destroy(backend, recorded->base.weights[i].pack);
  for (int i = 0; i < recorded->n; i++) free_command(&recorded->commands[i]);
  free(recorded->commands);
  free(recorded);
}

const cpu_command *cpu_recorded_commands(const recording *base, int *count) {
  const cpu_recording *recorded = (const cpu_recording *)base;
  *count = recorded->n;
  return recorded->commands;
}
