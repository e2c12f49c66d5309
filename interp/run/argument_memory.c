/* The memory of inputs and outputs. Host memory belongs to the session or to the caller. Devices
 * that share host memory use large arguments in place; other devices get copies. Device memory of
 * the caller is always used in place. A dma-buf is mapped as host memory if the session's device
 * runs on the host; else the device imports it. */
#include "interp/run/argument_memory.h"

#include <stdalign.h>
#include <stddef.h>

/* Copying smaller arguments is cheaper than wrapping them in a buffer. */
#ifndef CLAVE_IN_PLACE_BYTES
#define CLAVE_IN_PLACE_BYTES (64 << 10)
#endif
enum { IN_PLACE_FROM = CLAVE_IN_PLACE_BYTES, PAGE = 4096 /* at least any device's alignment */ };

/* ---------------------------------------------------------------- releasing */

static void drop_wrapped(session *session, argument *argument) {
  for (int b = 0; b < session->devices.count; b++) {
    backend *be = session->devices.backends[b];
    if (!argument->wrapped[b]) continue;
    be->vt->buffer_destroy(be, argument->wrapped[b]);
    argument->wrapped[b] = NULL;
    session->generation++;
  }
}

/* Destroys the devices' buffers, then closes the dma-buf. */
static void drop_memory(session *session, argument *argument) {
  drop_wrapped(session, argument);
  dma_buf_close(&argument->shared);
}

void argument_clear(session *session, argument *own) {
  drop_memory(session, own);
  memory_free(own->own);
  *own = (argument){0};
}

static void move_list(session *to, session *from, argument *own, argument *other, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    drop_wrapped(from, &other[i]);
    argument_clear(to, &own[i]);
    own[i] = other[i];
    other[i] = (argument){0};
  }
}

void move_arguments(session *to, session *from) {
  for (uint32_t i = 0; i < to->prog->ir.methods.count; i++) {
    const ir_method *method = &to->prog->ir.methods.items[i];
    method_state *state = &to->methods[i], *other_state = &from->methods[i];
    move_list(to, from, state->inputs, other_state->inputs, method->inputs.count);
    move_list(to, from, state->outputs, other_state->outputs, method->outputs.count);
    state->has_run = other_state->has_run;
    other_state->has_run = false;
  }
  to->generation++; /* makes bindings stale, because none uses these arguments in place yet */
}

/* ---------------------------------------------------------------- host memory */

bool argument_can_wrap(const backend *backend, const argument *argument) {
  return argument->data && argument->available >= IN_PLACE_FROM &&
         (uintptr_t)argument->data % backend->info.alignment == 0 &&
         backend_wraps_in_place(&backend->info, argument->data, argument->available, true);
}

void argument_use_memory(session *session, argument *argument, void *data, size_t available) {
  bool is_other = argument->is_on_device || argument->shared.is_open;
  if (!is_other && argument->data == data && argument->available == available) return;
  drop_memory(session, argument);
  argument->is_on_device = false;
  argument->data = data;
  argument->available = available;
  argument->start = (memory_start){.from = (uintptr_t)data};
  for (int b = 0; b < session->devices.count; b++)
    if (argument_can_wrap(session->devices.backends[b], argument)) session->generation++;
}

clave_status argument_use_own(session *session, argument *argument, size_t bytes) {
  if (!argument->own || argument->capacity < bytes) {
    drop_wrapped(session, argument);
    memory_free(argument->own);
    argument->capacity = bytes < IN_PLACE_FROM ? bytes + 1 : (bytes + PAGE - 1) / PAGE * PAGE;
    argument->own = memory_alloc_aligned(bytes < IN_PLACE_FROM ? alignof(max_align_t) : PAGE,
                                         argument->capacity);
    argument->data = NULL;
    if (!argument->own) {
      argument->capacity = 0;
      return status_no_memory();
    }
  }
  argument_use_memory(session, argument, argument->own, argument->capacity);
  return NULL;
}

/* ---------------------------------------------------------------- device memory */

/* Returns the session's first device that can adopt memory; -1 if none exists. */
static int device_that_adopts(const session *session) {
  for (int b = 0; b < session->devices.count; b++)
    if (session->devices.backends[b]->vt->sharing) return b;
  return -1;
}

static void use_buffer(session *session, argument *argument, int device, buffer *on_it,
                       device_memory memory, size_t bytes) {
  drop_memory(session, argument);
  argument->is_on_device = true;
  argument->device = (uint8_t)device;
  argument->given = memory;
  argument->wrapped[device] = on_it;
  argument->data = NULL;
  argument->available = bytes;
  session->generation++;
}

static clave_status adopt(session *session, argument *argument, device_memory memory, size_t bytes,
                          bool writable) {
  bool is_same = argument->is_on_device && argument->given.handle == memory.handle &&
                 argument->given.offset == memory.offset;
  if (is_same && argument->available == bytes) return NULL;
  int b = device_that_adopts(session);
  if (b < 0) return INVALID("the session has no OpenCL device to which this memory could belong");
  backend *be = session->devices.backends[b];
  buffer *adopted;
  memory_start start;
  TRY(be->vt->sharing->adopt(be, memory.handle, memory.offset, bytes, writable, &start, &adopted));
  use_buffer(session, argument, b, adopted, memory, bytes);
  argument->start = start;
  return NULL;
}

/* ---------------------------------------------------------------- a dma-buf */

static clave_status map(session *session, argument *argument, dma_buf *shared, device_memory memory,
                        size_t bytes, bool writable) {
  TRY(dma_buf_map(shared, writable));
  argument_use_memory(session, argument, (char *)shared->data + memory.offset, bytes);
  return NULL;
}

static clave_status argument_memory_import(session *session, argument *argument,
                                           const dma_buf *shared, device_memory memory,
                                           size_t bytes, bool writable) {
  backend *be = session->devices.backends[0];
  buffer *imported;
  TRY(be->vt->sharing->import(be, shared->fd, shared->size, writable, &imported));
  use_buffer(session, argument, 0, imported, memory, bytes);
  return NULL;
}

static clave_status use_shared(session *session, argument *argument, dma_buf *shared,
                               device_memory memory, size_t bytes, bool writable) {
  if (memory.offset > shared->size || bytes > shared->size - memory.offset)
    return INVALID("%zu bytes at offset %zu are not inside the dma-buf of %zu bytes", bytes,
                   memory.offset, shared->size);
  if (session->devices.backends[0]->info.runs_on_host)
    TRY(map(session, argument, shared, memory, bytes, writable));
  else
    TRY(argument_memory_import(session, argument, shared, memory, bytes, writable));
  argument->given = memory;
  argument->shared = *shared;
  argument->start = (memory_start){.file = {shared->id[0], shared->id[1]}, .from = memory.offset};
  return NULL;
}

static bool is_there(const argument *argument, const dma_buf *shared, size_t offset, size_t bytes) {
  return argument->shared.is_open && shared->is_distinct &&
         argument->shared.id[0] == shared->id[0] && argument->shared.id[1] == shared->id[1] &&
         argument->given.offset == offset && argument->available == bytes;
}

static clave_status use_dma_buf(session *session, argument *argument, device_memory memory,
                                size_t bytes, bool writable) {
  dma_buf shared;
  TRY(dma_buf_open(memory.fd, &shared));
  if (is_there(argument, &shared, memory.offset, bytes)) {
    dma_buf_close(&shared);
    return NULL;
  }
  clave_status st = use_shared(session, argument, &shared, memory, bytes, writable);
  if (st) dma_buf_close(&shared);
  return st;
}

clave_status argument_use_callers(session *session, argument *argument, device_memory memory,
                                  size_t bytes, bool writable) {
  return (memory.is_dma_buf ? use_dma_buf : adopt)(session, argument, memory, bytes, writable);
}

/* ---------------------------------------------------------------- in a run */

address argument_on_device(const argument *argument) {
  return (address){argument->wrapped[argument->device], argument->given.offset};
}

static bool has_memory(const argument *argument) {
  return argument->data || argument->is_on_device;
}

bool arguments_overlap(const argument *left, const argument *right) {
  const memory_start *a = &left->start, *b = &right->start;
  return has_memory(left) && has_memory(right) && a->object == b->object &&
         a->file[0] == b->file[0] && a->file[1] == b->file[1] &&
         a->from < b->from + right->available && b->from < a->from + left->available;
}

static clave_status acquire(const session *session, argument *argument) {
  if (!argument->shared.is_open) return NULL;
  backend *be = session->devices.backends[0];
  TRY(argument->is_on_device ? be->vt->sharing->acquire(session->streams[0], argument->wrapped[0])
                             : dma_buf_begin(&argument->shared));
  argument->is_acquired = true;
  return NULL;
}

/* Returns argument `i` of the method, counting inputs and then outputs; NULL at the end. */
static argument *argument_at(const running *run, uint32_t i) {
  const ir_method *method = run->graph->method;
  if (i < method->inputs.count) return &run->state->inputs[i];
  return i - method->inputs.count < method->outputs.count
             ? &run->state->outputs[i - method->inputs.count]
             : NULL;
}

clave_status acquire_arguments(const running *run) {
  argument *argument;
  for (uint32_t i = 0; (argument = argument_at(run, i)); i++) TRY(acquire(run->session, argument));
  return NULL;
}

clave_status release_arguments(const running *run) {
  const backend *be = run->session->devices.backends[0];
  clave_status first = NULL;
  argument *argument;
  for (uint32_t i = 0; (argument = argument_at(run, i)); i++) {
    if (!argument->is_acquired || !argument->is_on_device) continue;
    first = status_first(first,
                         be->vt->sharing->release(run->session->streams[0], argument->wrapped[0]));
    argument->is_acquired = false;
  }
  return first;
}

clave_status end_arguments(const running *run) {
  clave_status first = NULL;
  argument *argument;
  for (uint32_t i = 0; (argument = argument_at(run, i)); i++) {
    if (!argument->is_acquired) continue;
    first = status_first(first, dma_buf_end(&argument->shared));
    argument->is_acquired = false;
  }
  return first;
}
