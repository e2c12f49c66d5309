/* A method's inputs and outputs: sets and binds them, uses them in place, writes and reads them in
 * a run. argument_memory.c manages their memory. */
#include "interp/run/arguments.h"

#include <stdlib.h>
#include <string.h>

#include "interp/host_copy.h"
#include "interp/run/argument_memory.h"
#include "interp/run/bindings.h"
#include "interp/run/streams.h"
#include "interp/scalar.h"

/* ---------------------------------------------------------------- setting */

static clave_status run_arguments_check_input(const session *session, const ir_argument *argument,
                                              const tensor *value) {
  if (argument->tensor == IR_NONE) {
    ir_value_type type = session->prog->ir.values.items[argument->value].type;
    bool fits =
        value->rank == 0 && (type == IR_VALUE_TYPE_FLOAT || !dtype_has_fractions(value->type));
    return fits ? NULL
                : INVALID("expected a %s scalar, got %s of rank %d",
                          type == IR_VALUE_TYPE_FLOAT ? "float" : "integer",
                          dtype_name(value->type), value->rank);
  }
  const tensor *want = &session->prog->types[argument->tensor];
  char have_text[128], want_text[128];
  bool fits = value->type == want->type && value->rank == want->rank;
  for (int i = 0; fits && i < want->rank; i++)
    fits = dim_matches(value->dims[i], want->dims[i]) && value->dims[i] >= 0;
  if (fits) return NULL;
  return INVALID("expected %s %s, got %s %s", dtype_name(want->type),
                 tensor_shape_text(want, want_text, sizeof want_text), dtype_name(value->type),
                 tensor_shape_text(value, have_text, sizeof have_text));
}

static const char *first_element(const host_tensor *tensor) {
  return (const char *)tensor->data + tensor->t.offset * (int64_t)dtype_size(tensor->t.type);
}

static clave_status copy_in(session *session, argument *in, const host_tensor *value) {
  size_t bytes;
  TRY(known_bytes(&value->t, &bytes));
  TRY(argument_use_own(session, in, bytes));
  copy_to_contiguous(&value->t, value->data, in->data);
  return NULL;
}

/* Binds the caller's tensor: it is used in place if contiguous, else each run copies it. */
static clave_status refer_to(session *session, argument *in, const host_tensor *value) {
  size_t bytes;
  TRY(known_bytes(&value->t, &bytes));
  in->is_gathered = !tensor_is_contiguous(&value->t);
  in->source = *value;
  if (!in->is_gathered)
    argument_use_memory(session, in, (void *)(uintptr_t)first_element(value), bytes);
  return NULL;
}

static clave_status store_input(session *session, const ir_argument *arg, argument *in,
                                const host_tensor *value, bool refers) {
  TRY(run_arguments_check_input(session, arg, &value->t));
  in->is_gathered = false;
  in->source = (host_tensor){0};
  if (arg->tensor == IR_NONE)
    return scalar_from_bytes(value->t.type, (const unsigned char *)first_element(value),
                             session->prog->ir.values.items[arg->value].type, &in->scalar);
  TRY(refers ? refer_to(session, in, value) : copy_in(session, in, value));
  in->t = value->t;
  tensor_set_contiguous(&in->t);
  return NULL;
}

static clave_status run_arguments_find_argument(const ir_method *method, const ir_arguments *all,
                                                const char *what, uint32_t index) {
  if (index < all->count) return NULL;
  return INVALID("%s %u is out of range: method '%s' has %u of them", what, index, method->name,
                 all->count);
}

static clave_status store_or_refer_input(session *session, uint32_t number, uint32_t index,
                                         const host_tensor *value, bool refers) {
  const ir_method *method = &session->prog->ir.methods.items[number];
  TRY(run_arguments_find_argument(method, &method->inputs, "input", index));
  const ir_argument *arg = &method->inputs.items[index];
  argument *in = &session->methods[number].inputs[index];
  clave_status st = value ? store_input(session, arg, in, value, refers) : NULL;
  if (!value && (in->is_on_device || in->shared.is_open)) argument_use_memory(session, in, NULL, 0);
  in->set = value && !st;
  return status_while(st, "input %u ('%s') of method '%s'", index, arg->name, method->name);
}

clave_status session_set_input(session *session, uint32_t number, uint32_t index,
                               const host_tensor *value) {
  return store_or_refer_input(session, number, index, value, false);
}

clave_status session_bind_input(session *session, uint32_t number, uint32_t index,
                                const host_tensor *value) {
  return store_or_refer_input(session, number, index, value, true);
}

static clave_status check_offset(size_t offset, dtype type) {
  if (offset % dtype_size(type) == 0) return NULL;
  return INVALID("offset %zu is not a multiple of %zu, the size of an element (%s)", offset,
                 dtype_size(type), dtype_name(type));
}

static clave_status store_device_input(session *session, const ir_argument *arg, argument *in,
                                       const tensor *tensor, device_memory at) {
  size_t bytes;
  TRY(run_arguments_check_input(session, arg, tensor));
  if (arg->tensor == IR_NONE)
    return INVALID("a scalar cannot be bound to device memory: set it from host memory");
  if (!tensor_is_contiguous(tensor)) return INVALID("a tensor in device memory must be contiguous");
  TRY(check_offset(at.offset, tensor->type));
  TRY(known_bytes(tensor, &bytes));
  TRY(argument_use_callers(session, in, at, bytes, false));
  in->is_gathered = false;
  in->t = *tensor;
  tensor_set_contiguous(&in->t);
  return NULL;
}

clave_status session_bind_input_memory(session *session, uint32_t number, uint32_t index,
                                       const tensor *tensor, device_memory at) {
  const ir_method *method = &session->prog->ir.methods.items[number];
  TRY(run_arguments_find_argument(method, &method->inputs, "input", index));
  const ir_argument *arg = &method->inputs.items[index];
  argument *in = &session->methods[number].inputs[index];
  clave_status st = store_device_input(session, arg, in, tensor, at);
  in->set = !st;
  return status_while(st, "input %u ('%s') of method '%s'", index, arg->name, method->name);
}

/* Rejects an output in the memory of a constant, which is read in place. */
static clave_status check_constants(const session *session, const ir_argument *argument,
                                    const void *data, size_t bytes) {
  const uintptr_t begin = (uintptr_t)data;
  for (uint32_t i = 0; i < session->prog->ir.constants.count; i++) {
    const uintptr_t at = (uintptr_t)session->prog->constants[i];
    size_t size;
    TRY(known_bytes(&session->prog->types[i], &size));
    if (at && begin < at + size && at < begin + bytes)
      return INVALID("output '%s': expected separate memory, got the memory of constant '%s'",
                     argument->name, session->prog->ir.constants.items[i].name);
  }
  return NULL;
}

static clave_status check_apart(const session *session, uint32_t number, uint32_t index) {
  const ir_method *method = &session->prog->ir.methods.items[number];
  const argument *outputs = session->methods[number].outputs;
  for (uint32_t i = 0; i < method->outputs.count; i++)
    if (i != index && outputs[i].is_bound && arguments_overlap(&outputs[i], &outputs[index]))
      return INVALID("the memory of outputs %u ('%s') and %u ('%s') of method '%s' overlaps", i,
                     method->outputs.items[i].name, index, method->outputs.items[index].name,
                     method->name);
  return NULL;
}

/* Finds an output that is about to be bound, and invalidates its last result. */
static clave_status begin_output(session *session, uint32_t number, uint32_t index,
                                 argument **out) {
  const ir_method *method = &session->prog->ir.methods.items[number];
  TRY(run_arguments_find_argument(method, &method->outputs, "output", index));
  *out = &session->methods[number].outputs[index];
  session->methods[number].has_run = false; /* the last result may be stored in the old memory */
  return NULL;
}

/* Completes binding an output. On failure the output uses the session's own memory. */
static clave_status end_output(session *session, uint32_t number, uint32_t index, clave_status st) {
  argument *out = &session->methods[number].outputs[index];
  out->is_bound = !st;
  if (!st) st = check_apart(session, number, index);
  if (!st) return NULL;
  argument_use_memory(session, out, NULL, 0);
  out->is_bound = false;
  return st;
}

clave_status session_bind_output(session *session, uint32_t number, uint32_t index, void *data,
                                 size_t bytes) {
  argument *out;
  TRY(begin_output(session, number, index, &out));
  const ir_method *method = &session->prog->ir.methods.items[number];
  TRY(status_while(check_constants(session, &method->outputs.items[index], data, data ? bytes : 0),
                   "method '%s'", method->name));
  argument_use_memory(session, out, data, data ? bytes : 0);
  out->is_bound = false;
  return data ? end_output(session, number, index, NULL) : NULL;
}

clave_status session_bind_output_memory(session *session, uint32_t number, uint32_t index,
                                        device_memory at, size_t bytes) {
  argument *out;
  TRY(begin_output(session, number, index, &out));
  const ir_method *method = &session->prog->ir.methods.items[number];
  const ir_argument *arg = &method->outputs.items[index];
  clave_status st = arg->tensor == IR_NONE
                        ? NULL
                        : check_offset(at.offset, session->prog->types[arg->tensor].type);
  if (!st) st = argument_use_callers(session, out, at, bytes, true);
  st = status_while(st, "output %u ('%s') of method '%s'", index, arg->name, method->name);
  return end_output(session, number, index, st);
}

clave_status session_output(session *session, uint32_t number, uint32_t index, host_tensor *out) {
  const ir_method *method = &session->prog->ir.methods.items[number];
  TRY(run_arguments_find_argument(method, &method->outputs, "output", index));
  const argument *argument = &session->methods[number].outputs[index];
  if (!session->methods[number].has_run) return INVALID("method '%s' has not run", method->name);
  *out = (host_tensor){argument->t, argument->shared.is_open ? NULL : argument->data};
  return NULL;
}

/* ---------------------------------------------------------------- arguments used in place */

static bool is_in_arena(const running *run, uint32_t block_index) {
  const block *block = &run->binding->schedule->blocks[block_index];
  return block->kind == BLOCK_ARENA &&
         run->binding->blocks[block_index].buf ==
             run->session->arenas[block->backend].chunks[block->a.chunk];
}

/* Places a block of the current schedule in the argument's memory, if the device can use it. */
static clave_status run_arguments_place(const running *run, argument *argument,
                                        uint32_t block_index, bool writable) {
  session *session = run->session;
  const block *block = &run->binding->schedule->blocks[block_index];
  backend *be = session->devices.backends[block->backend];
  if (!is_in_arena(run, block_index) || block->segment != run->binding->schedule->number)
    return NULL;
  if (argument->is_on_device && argument->device == block->backend)
    run->binding->blocks[block_index] = argument_on_device(argument);
  if (!argument_can_wrap(be, argument)) return NULL;
  if (!argument->wrapped[block->backend])
    TRY(be->vt->buffer_wrap(be, argument->data, argument->available, writable,
                            &argument->wrapped[block->backend]));
  run->binding->blocks[block_index] = (address){.buf = argument->wrapped[block->backend]};
  return NULL;
}

static clave_status place_input(const running *run, uint32_t i) {
  const schedule *schedule = run->binding->schedule;
  uint32_t tid = run->graph->method->inputs.items[i].tensor;
  if (tid == IR_NONE || schedule->at[tid].storage == NO_INDEX) return NULL;
  const storage *storage = &schedule->storages[schedule->at[tid].storage];
  for (int b = 0; b < run->session->devices.count; b++)
    if (storage->block[b] != NO_INDEX && storage->bytes)
      TRY(run_arguments_place(run, &run->state->inputs[i], storage->block[b], false));
  return NULL;
}

static bool overlaps_input(const running *run, const argument *out) {
  for (uint32_t i = 0; i < run->graph->method->inputs.count; i++)
    if (arguments_overlap(out, &run->state->inputs[i])) return true;
  return false;
}

/* Sets the output's type and provides memory for the result. */
static clave_status run_arguments_reserve_output(const running *run, uint32_t i) {
  const ir_argument *arg = &run->graph->method->outputs.items[i];
  argument *out = &run->state->outputs[i];
  size_t bytes = 8;
  if (arg->tensor != IR_NONE) {
    out->t = run->binding->schedule->types[arg->tensor];
    TRY(known_bytes(&out->t, &bytes));
  }
  tensor_set_contiguous(&out->t);
  if (!out->is_bound) return argument_use_own(run->session, out, bytes);
  if (bytes <= out->available) return NULL;
  return INVALID("output %u ('%s') has %zu bytes, and the given memory has %zu", i, arg->name,
                 bytes, out->available);
}

/* True if the storage holds this contiguous tensor and nothing else. */
static bool run_arguments_is_whole(const location *location, const storage *storage) {
  return storage->slot == NO_INDEX && tensor_is_contiguous(&location->t) &&
         location->t.offset == 0 &&
         (size_t)tensor_numel(&location->t) * dtype_size(location->t.type) == storage->bytes;
}

/* Places an output in its argument's memory, unless that overlaps an input or slots share it. */
static clave_status place_output(const running *run, uint32_t i) {
  const schedule *schedule = run->binding->schedule;
  uint32_t tid = run->graph->method->outputs.items[i].tensor;
  const location *location = tid == IR_NONE ? NULL : &schedule->at[tid];
  if (!location || location->storage == NO_INDEX || location->storage < schedule->first_storage)
    return NULL;
  const storage *storage = &schedule->storages[location->storage];
  if (!run_arguments_is_whole(location, storage)) return NULL;
  TRY(run_arguments_reserve_output(run, i));
  argument *out = &run->state->outputs[i];
  return overlaps_input(run, out)
             ? NULL
             : run_arguments_place(run, out, storage->block[storage->home], true);
}

clave_status place_arguments(const running *run) {
  const ir_method *method = run->graph->method;
  for (uint32_t i = 0; i < method->inputs.count; i++) TRY(place_input(run, i));
  for (uint32_t i = 0; i < method->outputs.count; i++) TRY(place_output(run, i));
  return NULL;
}

/* ---------------------------------------------------------------- a run */

/* True if a bound input is a result of the last run, in memory that this run may replace. */
static bool is_last_result(const running *run, const argument *in) {
  const uintptr_t at = in->source.data ? (uintptr_t)first_element(&in->source) : 0;
  for (uint32_t i = 0; at && i < run->graph->method->outputs.count; i++) {
    const argument *out = &run->state->outputs[i];
    const uintptr_t own = (uintptr_t)out->own;
    if (own && at >= own && at < own + out->capacity) return true;
  }
  return false;
}

clave_status gather_inputs(const running *run) {
  const ir_arguments *inputs = &run->graph->method->inputs;
  for (uint32_t i = 0; i < inputs->count; i++) {
    argument *in = &run->state->inputs[i];
    if (in->set && (in->is_gathered || is_last_result(run, in)))
      TRY(copy_in(run->session, in, &in->source));
  }
  return NULL;
}

/* Writes an input to a device. An input in another device's memory is copied from that device. */
static clave_status write_input(const running *run, const argument *in, const storage *storage,
                                int b) {
  const address to = run->binding->blocks[storage->block[b]];
  if (in->is_on_device)
    return in->device == b
               ? NULL
               : copy_bytes(run, in->device, argument_on_device(in), b, to, storage->bytes);
  return enqueue_write(run->session->streams[b], to.buf, to.offset, in->data, storage->bytes);
}

clave_status write_inputs(const running *run) {
  const session *session = run->session;
  const schedule *schedule = run->binding->schedule;
  const ir_arguments *inputs = &run->graph->method->inputs;
  for (uint32_t i = 0; i < inputs->count; i++) {
    uint32_t tid = inputs->items[i].tensor;
    if (tid == IR_NONE || schedule->at[tid].storage == NO_INDEX) continue;
    const storage *storage = &schedule->storages[schedule->at[tid].storage];
    for (int b = 0; b < session->devices.count; b++) {
      if (storage->block[b] == NO_INDEX || !storage->bytes ||
          schedule->blocks[storage->block[b]].segment != schedule->number)
        continue;
      TRY(write_input(run, &run->state->inputs[i], storage, b));
    }
  }
  return NULL;
}

static clave_status run_arguments_read_scalar(const running *run, const scalar_value *value,
                                              argument *argument) {
  unsigned char element[8];
  scalar_to_bytes(value, &argument->t, argument->is_on_device ? element : argument->data);
  if (!argument->is_on_device) return NULL;
  stream *stream = run->session->streams[argument->device];
  const address to = argument_on_device(argument);
  return stream->owner->vt->write(stream, to.buf, to.offset, element, dtype_size(argument->t.type));
}

static clave_status read_output(const running *run, uint32_t i) {
  const schedule *schedule = run->binding->schedule;
  const ir_argument *arg = &run->graph->method->outputs.items[i];
  argument *argument = &run->state->outputs[i];
  TRY(run_arguments_reserve_output(run, i));
  if (arg->tensor == IR_NONE)
    return run_arguments_read_scalar(run, &schedule->values[arg->value], argument);
  size_t bytes;
  TRY(known_bytes(&argument->t, &bytes));
  const storage *storage = &schedule->storages[schedule->at[arg->tensor].storage];
  const address from = run->binding->blocks[storage->block[storage->home]];
  if (!argument->is_on_device)
    return enqueue_read(run->session->streams[storage->home], from.buf, from.offset, argument->data,
                        bytes);
  if (from.buf == argument->wrapped[storage->home]) return NULL; /* already in place */
  return copy_bytes(run, storage->home, from, argument->device, argument_on_device(argument),
                    bytes);
}

/* Waits for all devices if a result overlaps an input, which another device may still read. */
static clave_status wait_for_inputs(const running *run) {
  const argument *outputs = run->state->outputs;
  for (uint32_t i = 0; i < run->graph->method->outputs.count && run->session->devices.count > 1;
       i++)
    if (outputs[i].is_bound && overlaps_input(run, &outputs[i]))
      return finish_all(run->session, run->graph);
  return NULL;
}

clave_status read_outputs(const running *run) {
  TRY(wait_for_inputs(run));
  for (uint32_t i = 0; i < run->graph->method->outputs.count; i++) TRY(read_output(run, i));
  return NULL;
}
