/* A session's state: its sizes, its first values, and reading and writing it from outside. It gets
 * memory when it is first needed. */
#include "interp/run/state.h"

#include <stdlib.h>
#include <string.h>

#include "interp/scalar.h"

/* ---------------------------------------------------------------- sizes */

static const ir_int_or_vids *shape_of(const session *s, uint32_t i) {
  return &s->prog->ir.tensors.items[first_state(s->prog) + i].shape;
}

/* The dimension of state tensor i that is a value; IR_NONE: none. */
static uint32_t open_axis(const session *s, uint32_t i) {
  const ir_int_or_vids *shape = shape_of(s, i);
  for (uint32_t k = 0; k < shape->count; k++)
    if (shape->items[k].vid != IR_NONE) return k;
  return IR_NONE;
}

static uint32_t open_value(const session *s, uint32_t i) {
  uint32_t axis = open_axis(s, i);
  return axis == IR_NONE ? IR_NONE : shape_of(s, i)->items[axis].vid;
}

static tensor type_of(const session *s, uint32_t i) {
  tensor t = s->prog->types[first_state(s->prog) + i];
  uint32_t axis = open_axis(s, i);
  if (axis != IR_NONE) t.dims[axis] = s->sizes[open_value(s, i)].i;
  tensor_set_contiguous(&t);
  return t;
}

static uint64_t bytes_of(const session *s) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < s->prog->ir.n_state; i++) {
    const tensor t = type_of(s, i);
    size_t bytes = 0;
    if (tensor_bytes(&t, &bytes)) sum += bytes; /* the verifier has seen to that */
  }
  return sum;
}

clave_status init_sizes(session *s) {
  const ir_values *values = &s->prog->ir.values;
  s->sizes = mem_pool_alloc(s->pool, (size_t)values->count + 1, sizeof *s->sizes);
  s->bound = mem_pool_alloc(s->pool, (size_t)values->count + 1, sizeof *s->bound);
  s->state = mem_pool_alloc(s->pool, (size_t)s->prog->ir.n_state + 1, sizeof *s->state);
  if (!s->sizes || !s->bound || !s->state) return status_no_memory();
  for (uint32_t i = 0; i < s->prog->ir.n_state; i++) {
    uint32_t v = open_value(s, i);
    if (v == IR_NONE) continue;
    s->sizes[v] = (scalar_value){.known = true, .type = IR_VALUE_TYPE_INT};
    s->sizes[v].i = values->items[v].max.value;
  }
  s->state_bytes = bytes_of(s);
  return NULL;
}

/* ---------------------------------------------------------------- memory */

static const backend_vtable *table_of(const session *s, uint32_t i) {
  return s->devices.backends[s->x->state_home[i]]->vt;
}

static stream *stream_of(const session *s, uint32_t i) { return s->streams[s->x->state_home[i]]; }

/* With anything in it. */
static clave_status make_buffer(const session *s, uint32_t i, buffer **out) {
  const tensor t = type_of(s, i);
  size_t bytes;
  TRY(known_bytes(&t, &bytes));
  return table_of(s, i)->buffer_create(s->devices.backends[s->x->state_home[i]], bytes, out);
}

static void drop_buffers(const session *s, buffer **buffers) {
  for (uint32_t i = 0; i < s->prog->ir.n_state; i++) {
    table_of(s, i)->buffer_destroy(s->devices.backends[s->x->state_home[i]], buffers[i]);
    buffers[i] = NULL;
  }
}

void destroy_state(session *s) {
  if (s->state) drop_buffers(s, s->state);
}

/* The constant that state tensor i begins as; IR_NONE: zeros. */
static uint32_t initial_constant(const session *s, uint32_t i) {
  const ir_program *p = &s->prog->ir;
  for (uint32_t k = 0; k < p->state_inits.count; k++)
    if (p->state_inits.items[k].state == first_state(s->prog) + i)
      return p->state_inits.items[k].constant;
  return IR_NONE;
}

/* Its first values. */
static clave_status write_initial(const session *s, uint32_t i) {
  uint32_t initial = initial_constant(s, i);
  size_t bytes = s->state[i]->bytes;
  if (!bytes) return NULL;
  if (initial == IR_NONE) return table_of(s, i)->fill_zero(stream_of(s, i), s->state[i], 0, bytes);
  return table_of(s, i)->write(stream_of(s, i), s->state[i], 0, s->prog->constants[initial], bytes);
}

clave_status need_state(session *s) {
  clave_status st = NULL;
  if (s->has_state) return NULL;
  for (uint32_t i = 0; i < s->prog->ir.n_state && !st; i++) {
    st = make_buffer(s, i, &s->state[i]);
    if (!st) st = write_initial(s, i);
  }
  if (st) {
    destroy_state(s);
    return status_while(st, "state");
  }
  s->has_state = true;
  return NULL;
}

clave_status session_reset(session *s) {
  s->random = (random_key){.seed = s->options.seed};
  for (uint32_t i = 0; s->has_state && i < s->prog->ir.n_state; i++) TRY(write_initial(s, i));
  return NULL;
}

/* ---------------------------------------------------------------- other sizes */

/* Rows along the open axis, as many as both have; zeros behind them. */
static clave_status copy_rows(const session *s, uint32_t i, int64_t before, int64_t now,
                              buffer *to) {
  const tensor t = type_of(s, i);
  const backend_vtable *vt = table_of(s, i);
  uint32_t axis = open_axis(s, i);
  int64_t outer = 1, inner = (int64_t)dtype_size(t.type);
  for (uint32_t k = 0; k < axis; k++) outer *= t.dims[k];
  for (int k = (int)axis + 1; k < t.rank; k++) inner *= t.dims[k];
  size_t row = (size_t)inner, from_bytes = row * (size_t)before, to_bytes = row * (size_t)now;
  size_t kept = from_bytes < to_bytes ? from_bytes : to_bytes;
  for (size_t o = 0; o < (size_t)outer && row; o++) {
    TRY(vt->copy(stream_of(s, i), to, o * to_bytes, s->state[i], o * from_bytes, kept));
    if (kept < to_bytes)
      TRY(vt->fill_zero(stream_of(s, i), to, o * to_bytes + kept, to_bytes - kept));
  }
  return NULL;
}

/* Buffers of the new size with what the old ones hold. */
static clave_status resized(const session *s, uint32_t value, int64_t before, buffer **made) {
  for (uint32_t i = 0; i < s->prog->ir.n_state; i++) {
    if (open_value(s, i) != value) continue;
    TRY(make_buffer(s, i, &made[i]));
    TRY(copy_rows(s, i, before, s->sizes[value].i, made[i]));
  }
  for (int b = 0; b < s->devices.count; b++) {
    device_fault none; /* copies meet no bad data */
    TRY(s->devices.backends[b]->vt->finish(s->streams[b], &none));
  }
  return NULL;
}

static clave_status resize_buffers(session *s, uint32_t value, int64_t before) {
  uint32_t n = s->prog->ir.n_state;
  buffer **made = calloc((size_t)n + 1, sizeof *made);
  if (!made) return status_no_memory();
  clave_status st = resized(s, value, before, made);
  for (uint32_t i = 0; i < n && !st; i++) {
    if (!made[i]) continue;
    buffer *old = s->state[i];
    s->state[i] = made[i];
    made[i] = old;
  }
  drop_buffers(s, made);
  free(made);
  return st;
}

clave_status session_resize(session *s, uint32_t value, int64_t n) {
  int64_t before = s->sizes[value].i;
  if (!s->sizes[value].known)
    return INVALID("'%s' is no size of state", s->prog->ir.values.items[value].name);
  if (n == before) return NULL;
  TRY(scalar_set(&s->prog->ir, value, (scalar_value){.i = n}, s->sizes, "a size of state"));
  clave_status st = s->has_state ? resize_buffers(s, value, before) : NULL;
  if (st) s->sizes[value].i = before;
  s->state_bytes = bytes_of(s);
  s->generation++; /* bindings have addresses of before */
  return st;
}

clave_status session_match_sizes(session *to, const session *from) {
  for (uint32_t v = 0; v < to->prog->ir.values.count; v++)
    if (from->sizes[v].known) TRY(session_resize(to, v, from->sizes[v].i));
  return NULL;
}

/* ---------------------------------------------------------------- from outside */

/* Memory for it, and bytes that it has. */
static clave_status need_bytes(session *s, uint32_t index, size_t from, size_t size) {
  TRY(need_state(s));
  if (index >= s->prog->ir.n_state)
    return INVALID("state %u of a program with %u", index, s->prog->ir.n_state);
  size_t bytes = s->state[index]->bytes;
  if (from <= bytes && size <= bytes - from) return NULL;
  return INVALID("bytes [%zu, %zu + %zu) of state %u, which has %zu", from, from, size, index,
                 bytes);
}

/* All of it. */
static clave_status check_size(session *s, uint32_t index, size_t size) {
  TRY(need_bytes(s, index, 0, 0));
  if (size == s->state[index]->bytes) return NULL;
  return INVALID("state %u: expected %zu bytes, got %zu", index, s->state[index]->bytes, size);
}

clave_status session_read_state_part(session *s, uint32_t index, size_t from, void *data,
                                     size_t size) {
  TRY(need_bytes(s, index, from, size));
  return table_of(s, index)->read(stream_of(s, index), s->state[index], from, data, size);
}

clave_status session_write_state_part(session *s, uint32_t index, size_t from, const void *data,
                                      size_t size) {
  TRY(need_bytes(s, index, from, size));
  return table_of(s, index)->write(stream_of(s, index), s->state[index], from, data, size);
}

clave_status session_copy_state_part(session *s, uint32_t index, size_t from, size_t to,
                                     size_t size) {
  TRY(need_bytes(s, index, from, size));
  TRY(need_bytes(s, index, to, size));
  if (from < to + size && to < from + size)
    return INVALID("%zu bytes from %zu and from %zu of state %u overlap", size, from, to, index);
  buffer *b = s->state[index];
  return table_of(s, index)->copy(stream_of(s, index), b, to, b, from, size);
}

clave_status session_read_state(session *s, uint32_t index, void *data, size_t bytes) {
  TRY(check_size(s, index, bytes));
  return session_read_state_part(s, index, 0, data, bytes);
}

clave_status session_write_state(session *s, uint32_t index, const void *data, size_t bytes) {
  TRY(check_size(s, index, bytes));
  return session_write_state_part(s, index, 0, data, bytes);
}

/* Through the host, where the two live on different devices. */
static clave_status transfer_state(session *to, session *from, uint32_t index) {
  size_t bytes = from->state[index]->bytes;
  void *data = malloc(bytes + 1);
  if (!data) return status_no_memory();
  clave_status st = session_read_state(from, index, data, bytes);
  if (!st) st = session_write_state(to, index, data, bytes);
  free(data);
  return st;
}

static clave_status copy_state(const backend *be, stream *s, buffer *to, const buffer *from) {
  return be->vt->copy(s, to, 0, from, 0, to->bytes);
}

clave_status session_copy_state(session *to, session *from) {
  if (to->prog != from->prog) return INVALID("the sessions are of different programs");
  if (to == from) return NULL;
  TRY(session_match_sizes(to, from));
  TRY(need_state(to));
  TRY(need_state(from));
  for (uint32_t i = 0; i < to->prog->ir.n_state; i++) {
    int a = from->x->state_home[i], b = to->x->state_home[i];
    backend *be = to->devices.backends[b];
    TRY(from->devices.backends[a] == be
            ? copy_state(be, to->streams[b], to->state[i], from->state[i])
            : transfer_state(to, from, i));
  }
  for (int b = 0; b < to->devices.count; b++) {
    device_fault none; /* copies meet no bad data */
    TRY(to->devices.backends[b]->vt->finish(to->streams[b], &none));
  }
  to->random.run = from->random.run;
  return NULL;
}
