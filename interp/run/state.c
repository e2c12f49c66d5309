/* A session's state tensors: sizes, initial values, resizing, and access by the caller. They are
 * allocated at their first use. */
#include "interp/run/state.h"

#include <stdlib.h>
#include <string.h>

#include "interp/run/move.h"
#include "interp/scalar.h"

/* ---------------------------------------------------------------- sizes */

static const ir_int_or_vids *state_shape_of(const session *session, uint32_t i) {
  return &session->prog->ir.tensors.items[first_state(session->prog) + i].shape;
}

/* Returns the dimension of state tensor i whose size is a value; IR_NONE if none exists. */
static uint32_t open_axis(const session *session, uint32_t i) {
  const ir_int_or_vids *shape = state_shape_of(session, i);
  for (uint32_t k = 0; k < shape->count; k++)
    if (shape->items[k].vid != IR_NONE) return k;
  return IR_NONE;
}

static uint32_t state_open_value(const session *session, uint32_t i) {
  uint32_t axis = open_axis(session, i);
  return axis == IR_NONE ? IR_NONE : state_shape_of(session, i)->items[axis].vid;
}

static tensor state_type_of(const session *session, uint32_t i) {
  tensor tensor = session->prog->types[first_state(session->prog) + i];
  uint32_t axis = open_axis(session, i);
  if (axis != IR_NONE) tensor.dims[axis] = session->sizes[state_open_value(session, i)].i;
  tensor_set_contiguous(&tensor);
  return tensor;
}

static uint64_t state_bytes_of(const session *session) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < session->prog->ir.n_state; i++) {
    const tensor tensor = state_type_of(session, i);
    size_t bytes = 0;
    if (tensor_bytes(&tensor, &bytes)) sum += bytes; /* never overflows: verified */
  }
  return sum;
}

clave_status init_sizes(session *session) {
  const ir_values *values = &session->prog->ir.values;
  session->sizes = mem_pool_alloc(session->pool, (size_t)values->count + 1, sizeof *session->sizes);
  session->bound = mem_pool_alloc(session->pool, (size_t)values->count + 1, sizeof *session->bound);
  session->state =
      mem_pool_alloc(session->pool, (size_t)session->prog->ir.n_state + 1, sizeof *session->state);
  if (!session->sizes || !session->bound || !session->state) return status_no_memory();
  for (uint32_t i = 0; i < session->prog->ir.n_state; i++) {
    uint32_t v = state_open_value(session, i);
    if (v == IR_NONE) continue;
    session->sizes[v] = (scalar_value){.known = true, .type = IR_VALUE_TYPE_INT};
    session->sizes[v].i = values->items[v].max.value;
  }
  session->state_bytes = state_bytes_of(session);
  return NULL;
}

/* ---------------------------------------------------------------- memory */

static const backend_vtable *state_vtable_of(const session *session, uint32_t i) {
  return session->devices.backends[session->executable->state_home[i]]->vt;
}

static stream *stream_of(const session *session, uint32_t i) {
  return session->streams[session->executable->state_home[i]];
}

/* Creates the buffer of a state tensor, uninitialised. */
static clave_status make_buffer(const session *session, uint32_t i, buffer **out) {
  const tensor tensor = state_type_of(session, i);
  size_t bytes;
  TRY(known_bytes(&tensor, &bytes));
  return state_vtable_of(session, i)
      ->buffer_create(session->devices.backends[session->executable->state_home[i]], bytes, out);
}

static void drop_buffers(const session *session, buffer **buffers) {
  for (uint32_t i = 0; i < session->prog->ir.n_state; i++) {
    state_vtable_of(session, i)
        ->buffer_destroy(session->devices.backends[session->executable->state_home[i]], buffers[i]);
    buffers[i] = NULL;
  }
}

void destroy_state(session *session) {
  if (session->state) drop_buffers(session, session->state);
}

/* Returns the constant that initialises state tensor i; IR_NONE for zeros. */
static uint32_t initial_constant(const session *session, uint32_t i) {
  const ir_program *program = &session->prog->ir;
  for (uint32_t k = 0; k < program->state_inits.count; k++)
    if (program->state_inits.items[k].state == first_state(session->prog) + i)
      return program->state_inits.items[k].constant;
  return IR_NONE;
}

/* Writes the initial value of a state tensor. */
static clave_status write_initial(const session *session, uint32_t i) {
  uint32_t initial = initial_constant(session, i);
  size_t bytes = session->state[i]->bytes;
  if (!bytes) return NULL;
  if (initial == IR_NONE)
    return state_vtable_of(session, i)
        ->fill_zero(stream_of(session, i), session->state[i], 0, bytes);
  return state_vtable_of(session, i)
      ->write(stream_of(session, i), session->state[i], 0, session->prog->constants[initial],
              bytes);
}

static bool is_too_large(const session *session, uint32_t i) {
  const tensor tensor = state_type_of(session, i);
  size_t bytes;
  return tensor_bytes(&tensor, &bytes) &&
         !backend_holds(&session->devices.backends[session->executable->state_home[i]]->info,
                        bytes);
}

/* Places state that exceeds its device's largest buffer on the CPU backend, in an executable of the
 * session's own, since other sessions may choose other sizes. */
static clave_status place_large_state(session *session) {
  const int fallback = device_set_fallback(&session->devices);
  const uint32_t n = session->prog->ir.n_state;
  uint32_t large = 0;
  while (large < n && !is_too_large(session, large)) large++;
  if (large == n || fallback < 0) return NULL;
  session->record_again = true;
  TRY(replace_moved(session));
  for (uint32_t i = large; i < n; i++)
    if (is_too_large(session, i)) session->own->state_home[i] = (uint8_t)fallback;
  return NULL;
}

clave_status need_state(session *session) {
  clave_status st = NULL;
  if (session->has_state) return NULL;
  TRY(place_large_state(session));
  for (uint32_t i = 0; i < session->prog->ir.n_state && !st; i++) {
    st = make_buffer(session, i, &session->state[i]);
    if (!st) st = write_initial(session, i);
  }
  if (st) {
    destroy_state(session);
    return status_while(st, "state");
  }
  session->has_state = true;
  return NULL;
}

clave_status session_reset(session *session) {
  session->random = (random_key){.seed = session->options.seed};
  for (uint32_t i = 0; session->has_state && i < session->prog->ir.n_state; i++)
    TRY(write_initial(session, i));
  return NULL;
}

/* ---------------------------------------------------------------- resizing */

/* Copies rows along the open axis, as many as both have, and fills the rest with zeros. */
static clave_status state_copy_rows(const session *session, uint32_t i, int64_t before, int64_t now,
                                    buffer *to) {
  const tensor tensor = state_type_of(session, i);
  const backend_vtable *vt = state_vtable_of(session, i);
  uint32_t axis = open_axis(session, i);
  int64_t outer = 1, inner = (int64_t)dtype_size(tensor.type);
  for (uint32_t k = 0; k < axis; k++) outer *= tensor.dims[k];
  for (int k = (int)axis + 1; k < tensor.rank; k++) inner *= tensor.dims[k];
  size_t row = (size_t)inner, from_bytes = row * (size_t)before, to_bytes = row * (size_t)now;
  size_t kept = from_bytes < to_bytes ? from_bytes : to_bytes;
  for (size_t o = 0; o < (size_t)outer && row; o++) {
    TRY(vt->copy(stream_of(session, i), to, o * to_bytes, session->state[i], o * from_bytes, kept));
    if (kept < to_bytes)
      TRY(vt->fill_zero(stream_of(session, i), to, o * to_bytes + kept, to_bytes - kept));
  }
  return NULL;
}

/* Makes buffers of the new size with the contents of the old ones. */
static clave_status resized(const session *session, uint32_t value, int64_t before, buffer **made) {
  for (uint32_t i = 0; i < session->prog->ir.n_state; i++) {
    if (state_open_value(session, i) != value) continue;
    TRY(make_buffer(session, i, &made[i]));
    TRY(state_copy_rows(session, i, before, session->sizes[value].i, made[i]));
  }
  for (int b = 0; b < session->devices.count; b++) {
    device_fault none; /* copies cause no data faults */
    TRY(session->devices.backends[b]->vt->finish(session->streams[b], &none));
  }
  return NULL;
}

static clave_status resize_buffers(session *session, uint32_t value, int64_t before) {
  uint32_t n = session->prog->ir.n_state;
  buffer **made = calloc((size_t)n + 1, sizeof *made);
  if (!made) return status_no_memory();
  clave_status st = resized(session, value, before, made);
  for (uint32_t i = 0; i < n && !st; i++) {
    if (!made[i]) continue;
    buffer *old = session->state[i];
    session->state[i] = made[i];
    made[i] = old;
  }
  drop_buffers(session, made);
  free(made);
  return st;
}

clave_status session_resize(session *session, uint32_t value, int64_t n) {
  int64_t before = session->sizes[value].i;
  if (!session->sizes[value].known)
    return INVALID("'%s' is not a dimension of state", session->prog->ir.values.items[value].name);
  if (n == before) return NULL;
  TRY(scalar_set(&session->prog->ir, value, (scalar_value){.i = n}, session->sizes,
                 "a dimension of state"));
  clave_status st = session->has_state ? resize_buffers(session, value, before) : NULL;
  if (st) session->sizes[value].i = before;
  session->state_bytes = state_bytes_of(session);
  session->generation++; /* addresses in bindings are stale */
  return st;
}

clave_status session_match_sizes(session *to, const session *from) {
  for (uint32_t v = 0; v < to->prog->ir.values.count; v++)
    if (from->sizes[v].known) TRY(session_resize(to, v, from->sizes[v].i));
  return NULL;
}

/* ---------------------------------------------------------------- access by the caller */

/* Allocates the state and checks that the range is within the state tensor. */
static clave_status need_bytes(session *session, uint32_t index, size_t from, size_t size) {
  TRY(need_state(session));
  if (index >= session->prog->ir.n_state)
    return INVALID("state %u is out of range: the program has %u", index,
                   session->prog->ir.n_state);
  size_t bytes = session->state[index]->bytes;
  if (from <= bytes && size <= bytes - from) return NULL;
  return INVALID("bytes [%zu, %zu + %zu) are outside of state %u, which has %zu bytes", from, from,
                 size, index, bytes);
}

/* Checks that `size` is that of the whole tensor. */
static clave_status check_size(session *session, uint32_t index, size_t size) {
  TRY(need_bytes(session, index, 0, 0));
  if (size == session->state[index]->bytes) return NULL;
  return INVALID("state %u: expected %zu bytes, got %zu", index, session->state[index]->bytes,
                 size);
}

clave_status session_read_state_part(session *session, uint32_t index, size_t from, void *data,
                                     size_t size) {
  TRY(need_bytes(session, index, from, size));
  return state_vtable_of(session, index)
      ->read(stream_of(session, index), session->state[index], from, data, size);
}

clave_status session_write_state_part(session *session, uint32_t index, size_t from,
                                      const void *data, size_t size) {
  TRY(need_bytes(session, index, from, size));
  return state_vtable_of(session, index)
      ->write(stream_of(session, index), session->state[index], from, data, size);
}

clave_status session_copy_state_part(session *session, uint32_t index, size_t from, size_t to,
                                     size_t size) {
  TRY(need_bytes(session, index, from, size));
  TRY(need_bytes(session, index, to, size));
  if (from < to + size && to < from + size)
    return INVALID("the ranges of %zu bytes at %zu and at %zu of state %u overlap", size, from, to,
                   index);
  buffer *buffer = session->state[index];
  return state_vtable_of(session, index)
      ->copy(stream_of(session, index), buffer, to, buffer, from, size);
}

clave_status session_read_state(session *session, uint32_t index, void *data, size_t bytes) {
  TRY(check_size(session, index, bytes));
  return session_read_state_part(session, index, 0, data, bytes);
}

clave_status session_write_state(session *session, uint32_t index, const void *data, size_t bytes) {
  TRY(check_size(session, index, bytes));
  return session_write_state_part(session, index, 0, data, bytes);
}

/* Copies through the host, for sessions on different devices. */
static clave_status transfer_state(session *to, session *from, uint32_t index) {
  size_t bytes = from->state[index]->bytes;
  void *data = malloc(bytes + 1);
  if (!data) return status_no_memory();
  clave_status st = session_read_state(from, index, data, bytes);
  if (!st) st = session_write_state(to, index, data, bytes);
  free(data);
  return st;
}

static clave_status copy_state(const backend *be, stream *stream, buffer *to, const buffer *from) {
  return be->vt->copy(stream, to, 0, from, 0, to->bytes);
}

clave_status session_copy_state(session *to, session *from) {
  if (to->prog != from->prog) return INVALID("the sessions belong to different programs");
  if (to == from) return NULL;
  TRY(session_match_sizes(to, from));
  TRY(need_state(to));
  TRY(need_state(from));
  for (uint32_t i = 0; i < to->prog->ir.n_state; i++) {
    int a = from->executable->state_home[i], b = to->executable->state_home[i];
    backend *be = to->devices.backends[b];
    TRY(from->devices.backends[a] == be
            ? copy_state(be, to->streams[b], to->state[i], from->state[i])
            : transfer_state(to, from, i));
  }
  for (int b = 0; b < to->devices.count; b++) {
    device_fault none; /* copies cause no data faults */
    TRY(to->devices.backends[b]->vt->finish(to->streams[b], &none));
  }
  to->random.run = from->random.run;
  return NULL;
}
