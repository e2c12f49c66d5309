/* Schedules as tables: made, copied, filled, and forgotten again where planning failed. */
#include "interp/schedule.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- lifetime */

void hold_first(recording *r) {
  static uint64_t serial;
  r->serial = __atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED);
  r->holds = 1;
}

static void release(const device_set *d, int b, recording *r) {
  backend *be = d->backends[b];
  if (r && --r->holds == 0) be->vt->recording_destroy(be, r);
}

static recording *retain(recording *r) {
  if (r) r->holds++;
  return r;
}

static void control_destroy(const device_set *d, control *c) {
  if (!c) return;
  for (uint32_t k = 0; c->results && k < c->n_results; k++)
    release(d, c->results[k].home, c->results[k].copied);
  free(c->now);
  free(c->results);
  free(c->slices);
  free(c->rebased);
  free(c);
}

/* Those from some on. */
static void drop_commands(schedule *p, uint32_t commands, uint32_t controls) {
  for (uint32_t i = controls; p->controls && i < p->n_controls; i++)
    control_destroy(p->devices, p->controls[i]);
  for (uint32_t i = commands; p->commands && i < p->n_commands; i++)
    release(p->devices, p->commands[i].backend, p->commands[i].recorded);
  p->n_commands = commands;
  p->n_controls = controls;
}

void schedule_destroy(schedule *p) {
  if (!p) return;
  schedule_list_clear(&p->next);
  drop_commands(p, 0, 0);
  for (int b = 0; b < MAX_BACKENDS; b++) free(p->chunk_bytes[b]);
  void *const arrays[] = {p->key,    p->values, p->types,    p->at,       p->now,
                          p->target, p->blocks, p->storages, p->commands, p->controls};
  for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) free(arrays[i]);
  free(p);
}

void schedule_drop(schedule *p) {
  if (p && --p->holds == 0) schedule_destroy(p);
}

void schedule_list_clear(schedule_list *l) {
  for (int i = 0; i < KEPT_SCHEDULES; i++) schedule_drop(l->items[i]);
  *l = (schedule_list){0};
}

/* ---------------------------------------------------------------- copies */

/* Memory is never NULL for none, so that NULL says that there was too little. */
static void *copy_array(const void *from, size_t count, size_t size) {
  void *to = malloc(count * size + 1);
  if (to && count) memcpy(to, from, count * size);
  return to;
}

#define COPY_ARRAY(from, count) copy_array((from), (count), sizeof *(from))

clave_status schedule_create(const program *prog, const device_set *devices,
                             const scalar_value *values, schedule **out) {
  size_t n = slot_count(prog);
  schedule *p = *out = calloc(1, sizeof *p);
  if (!p) return status_no_memory();
  p->prog = prog;
  p->devices = devices;
  p->number = 1;
  p->key = COPY_ARRAY(values, prog->ir.values.count);
  p->values = COPY_ARRAY(values, prog->ir.values.count);
  p->types = COPY_ARRAY(prog->types, n);
  p->at = calloc(n + 1, sizeof *p->at);
  p->now = calloc(n + 1, sizeof *p->now);
  p->target = calloc(n + 1, sizeof *p->target);
  if (!p->key || !p->values || !p->types || !p->at || !p->now || !p->target) {
    schedule_destroy(p);
    *out = NULL;
    return status_no_memory();
  }
  for (size_t i = 0; i < n; i++) p->at[i].storage = p->now[i].storage = p->target[i] = NO_INDEX;
  return NULL;
}

static control *copy_control(const schedule *p, const control *from) {
  size_t n_slots = slot_count(p->prog);
  control *c = COPY_ARRAY(from, 1);
  if (!c) return NULL;
  c->now = from->now ? COPY_ARRAY(from->now, n_slots) : NULL;
  c->results = COPY_ARRAY(from->results, from->n_results);
  c->slices = COPY_ARRAY(from->slices, from->n_slices);
  c->rebased = COPY_ARRAY(from->rebased, from->n_rebased);
  for (uint32_t k = 0; c->results && k < c->n_results; k++) (void)retain(c->results[k].copied);
  if (c->results && c->slices && c->rebased && (c->now || !from->now)) return c;
  control_destroy(p->devices, c);
  return NULL;
}

static bool copy_tables(const schedule *from, schedule *p) {
  size_t n = slot_count(p->prog);
  p->values = COPY_ARRAY(from->values, p->prog->ir.values.count);
  p->types = COPY_ARRAY(from->types, n);
  p->at = COPY_ARRAY(from->at, n);
  p->now = COPY_ARRAY(from->now, n);
  p->target = COPY_ARRAY(from->target, n);
  p->blocks = COPY_ARRAY(from->blocks, from->n_blocks);
  p->storages = COPY_ARRAY(from->storages, from->n_storages);
  p->commands = COPY_ARRAY(from->commands, from->n_commands);
  p->cap_blocks = p->n_blocks = from->n_blocks;
  p->cap_storages = p->n_storages = from->n_storages;
  p->cap_commands = p->n_commands = from->n_commands;
  for (uint32_t i = 0; p->commands && i < p->n_commands; i++) (void)retain(p->commands[i].recorded);
  return p->values && p->types && p->at && p->now && p->target && p->blocks && p->storages &&
         p->commands;
}

static bool copy_controls(const schedule *from, schedule *p) {
  if (!array_reserve(&p->controls, &p->cap_controls, from->n_controls, sizeof *p->controls))
    return false;
  for (uint32_t i = 0; i < from->n_controls; i++) {
    p->controls[i] = copy_control(p, from->controls[i]);
    if (!p->controls[i]) return false;
    p->n_controls++;
  }
  return true;
}

static bool copy_chunks(const schedule *from, schedule *p) {
  bool good = true;
  for (int b = 0; b < MAX_BACKENDS; b++) {
    p->chunk_bytes[b] = COPY_ARRAY(from->chunk_bytes[b], from->n_chunks[b]);
    p->n_chunks[b] = p->first_chunk[b] = from->n_chunks[b];
    p->scratch_bytes[b] = from->scratch_bytes[b];
    good = good && p->chunk_bytes[b];
  }
  return good;
}

clave_status schedule_extend(const schedule *from, schedule **out) {
  schedule *p = *out = calloc(1, sizeof *p);
  if (!p) return status_no_memory();
  p->prog = from->prog;
  p->devices = from->devices;
  bool good = copy_tables(from, p);
  good = copy_controls(from, p) && good;
  good = copy_chunks(from, p) && good;
  if (!good) {
    schedule_destroy(p);
    *out = NULL;
    return status_no_memory();
  }
  p->number = from->number + 1;
  p->first_command = from->n_commands;
  p->first_control = from->n_controls;
  p->first_storage = from->n_storages;
  p->first_block = from->n_blocks;
  return NULL;
}

/* ---------------------------------------------------------------- growth */

clave_status add_block(schedule *p, uint8_t kind, uint8_t on, size_t bytes, uint32_t slot,
                       uint32_t *out) {
  if (!array_reserve(&p->blocks, &p->cap_blocks, (size_t)p->n_blocks + 1, sizeof *p->blocks))
    return status_no_memory();
  p->blocks[p->n_blocks] =
      (block){.a = {.bytes = bytes, .first = p->n_commands, .last = p->n_commands},
              .kind = kind,
              .backend = on,
              .slot = slot};
  *out = p->n_blocks++;
  return NULL;
}

clave_status add_storage(schedule *p, size_t bytes, uint8_t home, uint32_t slot, uint32_t *out) {
  if (!array_reserve(&p->storages, &p->cap_storages, (size_t)p->n_storages + 1,
                     sizeof *p->storages))
    return status_no_memory();
  storage *g = &p->storages[p->n_storages];
  *g = (storage){.home = home, .slot = slot, .bytes = bytes, .last_use = NO_INDEX};
  for (int b = 0; b < MAX_BACKENDS; b++) g->block[b] = NO_INDEX;
  *out = p->n_storages++;
  return NULL;
}

clave_status add_command(schedule *p, command c) {
  if (!array_reserve(&p->commands, &p->cap_commands, (size_t)p->n_commands + 1,
                     sizeof *p->commands)) {
    release(p->devices, c.backend, c.recorded);
    return status_no_memory();
  }
  p->commands[p->n_commands++] = c;
  return NULL;
}

clave_status add_control(schedule *p, uint32_t instruction, uint32_t n_results, uint32_t n_slices,
                         uint32_t *out) {
  bool room =
      array_reserve(&p->controls, &p->cap_controls, (size_t)p->n_controls + 1, sizeof *p->controls);
  control *c = room ? calloc(1, sizeof *c) : NULL;
  if (!c) return status_no_memory();
  *out = p->n_controls;
  p->controls[p->n_controls++] = c;
  c->instruction = instruction;
  c->known = -1;
  c->results = calloc(n_results + 1, sizeof *c->results);
  c->slices = calloc(n_slices + 1, sizeof *c->slices);
  return c->results && c->slices ? NULL : status_no_memory();
}

/* ---------------------------------------------------------------- forgetting */

schedule_mark schedule_marked(const schedule *p) {
  return (schedule_mark){p->n_blocks, p->n_storages, p->n_commands, p->n_controls};
}

static void forget_slot(schedule *p, const graph *g, const schedule_mark *to, range instructions,
                        uint32_t tid) {
  if (p->target[tid] != NO_INDEX && p->target[tid] >= to->storages) p->target[tid] = NO_INDEX;
  uint32_t w = g->writer[tid];
  bool written = w != NO_INDEX && w >= instructions.first && w < instructions.end;
  bool older = p->at[tid].storage == NO_INDEX || p->at[tid].storage < to->storages;
  if (!older || written) {
    p->at[tid].storage = p->now[tid].storage = NO_INDEX;
  } else if (p->now[tid].storage != NO_INDEX && p->now[tid].storage >= to->storages) {
    p->now[tid] = p->at[tid];
  }
}

void schedule_rewind(schedule *p, const graph *g, const schedule_mark *to, range instructions) {
  for (slot_iter i = slots_of(g, instructions); next_slot(&i);)
    forget_slot(p, g, to, instructions, i.tid);
  drop_commands(p, to->commands, to->controls);
  for (uint32_t i = 0; i < to->storages; i++)
    for (int b = 0; b < MAX_BACKENDS; b++)
      if (p->storages[i].block[b] != NO_INDEX && p->storages[i].block[b] >= to->blocks)
        p->storages[i].block[b] = NO_INDEX;
  p->n_blocks = to->blocks;
  p->n_storages = to->storages;
}

/* ---------------------------------------------------------------- use */

uint64_t schedule_arena_bytes(const schedule *p) {
  uint64_t sum = 0;
  for (int b = 0; b < MAX_BACKENDS; b++) {
    sum += p->scratch_bytes[b];
    for (uint32_t c = 0; c < p->n_chunks[b]; c++) sum += p->chunk_bytes[b][c];
  }
  return sum;
}

int schedule_home(const schedule *p, uint32_t index) {
  return p->storages[index].home == NO_HOME ? 0 : p->storages[index].home;
}
