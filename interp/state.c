/* A session's state: its first values, and reading and writing it from outside. */
#include <stdlib.h>

#include "interp/running.h"

clave_status create_state(session *s) {
  uint32_t n = s->prog->ir.n_state;
  s->state = mem_pool_alloc(s->pool, n + 1, sizeof *s->state);
  if (!s->state) return status_no_memory();
  for (uint32_t i = 0; i < n; i++) {
    size_t bytes;
    backend *b = s->devices.backends[s->x->state_home[i]];
    TRY(known_bytes(&s->prog->types[first_state(s->prog) + i], &bytes));
    TRY(b->vt->buffer_create(b, bytes, &s->state[i]));
    s->state_bytes += bytes;
  }
  return session_reset(s);
}

/* The constant that state tensor i begins as; IR_NONE: zeros. */
static uint32_t initial_constant(const session *s, uint32_t i) {
  const ir_program *p = &s->prog->ir;
  for (uint32_t k = 0; k < p->state_inits.count; k++)
    if (p->state_inits.items[k].state == first_state(s->prog) + i)
      return p->state_inits.items[k].constant;
  return IR_NONE;
}

clave_status session_reset(session *s) {
  s->random = (random_key){.seed = s->options.seed};
  for (uint32_t i = 0; i < s->prog->ir.n_state; i++) {
    int b = s->x->state_home[i];
    const backend_vtable *vt = s->devices.backends[b]->vt;
    uint32_t initial = initial_constant(s, i);
    size_t bytes = s->state[i]->bytes;
    if (!bytes) continue;
    if (initial == IR_NONE) {
      TRY(vt->fill_zero(s->streams[b], s->state[i], 0, bytes));
    } else {
      TRY(vt->write(s->streams[b], s->state[i], 0, s->prog->constants[initial], bytes));
    }
  }
  return NULL;
}

static clave_status check_state(const session *s, uint32_t index, size_t bytes) {
  if (index >= s->prog->ir.n_state)
    return INVALID("state %u of a program with %u", index, s->prog->ir.n_state);
  if (bytes == s->state[index]->bytes) return NULL;
  return INVALID("state %u has %zu bytes, not %zu", index, s->state[index]->bytes, bytes);
}

clave_status session_read_state(session *s, uint32_t index, void *data, size_t bytes) {
  TRY(check_state(s, index, bytes));
  int b = s->x->state_home[index];
  return s->devices.backends[b]->vt->read(s->streams[b], s->state[index], 0, data, bytes);
}

clave_status session_write_state(session *s, uint32_t index, const void *data, size_t bytes) {
  TRY(check_state(s, index, bytes));
  int b = s->x->state_home[index];
  return s->devices.backends[b]->vt->write(s->streams[b], s->state[index], 0, data, bytes);
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
