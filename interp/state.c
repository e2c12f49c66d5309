/* A session's state: where each tensor lives, its first values, and reading and writing it from
 * outside. */
#include <stdlib.h>

#include "interp/internal.h"

/* count: (n_state, MAX_BACKENDS) operands of the ops that run on each backend. */
static void count_touches(const session *s, const method *m, uint32_t *count) {
  for (uint32_t i = 0; i < m->n; i++) {
    if (m->where[i] >= MAX_BACKENDS) continue;
    for (operand_iter k = operands_of(&m->instructions[i]); next_operand(&k);)
      if (is_state_slot(s, k.o.tid))
        count[(k.o.tid - first_state(s)) * MAX_BACKENDS + m->where[i]]++;
  }
}

/* A state lives where most ops that touch it run. */
static clave_status choose_state_homes(session *s) {
  uint32_t n = s->prog->ir.n_state;
  uint32_t *count = calloc((size_t)n * MAX_BACKENDS + 1, sizeof *count);
  if (!count) return status_no_memory();
  for (uint32_t k = 0; k < s->prog->ir.methods.count; k++) count_touches(s, &s->methods[k], count);
  for (uint32_t i = 0; i < n; i++)
    for (uint8_t b = 1; b < s->devices.count; b++)
      if (count[i * MAX_BACKENDS + b] > count[i * MAX_BACKENDS + s->state_home[i]])
        s->state_home[i] = b;
  free(count);
  return NULL;
}

clave_status create_state(session *s) {
  uint32_t n = s->prog->ir.n_state;
  s->state = mem_pool_alloc(s->pool, n + 1, sizeof *s->state);
  s->state_home = mem_pool_alloc(s->pool, n + 1, sizeof *s->state_home);
  if (!s->state || !s->state_home) return status_no_memory();
  TRY(choose_state_homes(s));
  for (uint32_t i = 0; i < n; i++) {
    size_t bytes;
    backend *b = s->devices.backends[s->state_home[i]];
    TRY(known_bytes(&s->prog->types[first_state(s) + i], &bytes));
    TRY(b->vt->buffer_create(b, bytes, &s->state[i]));
    s->state_bytes += bytes;
  }
  return session_reset(s);
}

/* The constant that state tensor i begins as; IR_NONE: zeros. */
static uint32_t initial_constant(const session *s, uint32_t i) {
  const ir_program *p = &s->prog->ir;
  for (uint32_t k = 0; k < p->state_inits.count; k++)
    if (p->state_inits.items[k].state == first_state(s) + i)
      return p->state_inits.items[k].constant;
  return IR_NONE;
}

clave_status session_reset(session *s) {
  s->random = (random_key){.seed = s->options.seed};
  for (uint32_t i = 0; i < s->prog->ir.n_state; i++) {
    int b = s->state_home[i];
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
  int b = s->state_home[index];
  return s->devices.backends[b]->vt->read(s->streams[b], s->state[index], 0, data, bytes);
}

clave_status session_write_state(session *s, uint32_t index, const void *data, size_t bytes) {
  TRY(check_state(s, index, bytes));
  int b = s->state_home[index];
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

clave_status session_copy_state(session *to, session *from) {
  if (to->prog != from->prog) return INVALID("the sessions are of different programs");
  if (to == from) return NULL;
  for (uint32_t i = 0; i < to->prog->ir.n_state; i++) {
    int a = from->state_home[i], b = to->state_home[i];
    backend *be = to->devices.backends[b];
    TRY(from->devices.backends[a] == be ? be->vt->copy(to->streams[b], to->state[i], from->state[i])
                                        : transfer_state(to, from, i));
  }
  for (int b = 0; b < to->devices.count; b++) {
    device_fault none; /* copies meet no bad data */
    TRY(to->devices.backends[b]->vt->finish(to->streams[b], &none));
  }
  to->random.run = from->random.run;
  return NULL;
}
