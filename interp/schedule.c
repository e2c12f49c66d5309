/* The tables of a schedule: creates, copies, fills in and rewinds them when planning fails. */
#include "interp/schedule.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- lifetime */

void hold_first(recording *recording) {
  static uint64_t serial;
  recording->serial = __atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED);
  recording->holds = 1;
}

static void interp_schedule_release(const device_set *set, int b, recording *recording) {
  backend *be = set->backends[b];
  if (recording && --recording->holds == 0) be->vt->recording_destroy(be, recording);
}

static recording *retain(recording *recording) {
  if (recording) recording->holds++;
  return recording;
}

static void control_destroy(const device_set *set, control *control) {
  if (!control) return;
  for (uint32_t k = 0; control->results && k < control->n_results; k++)
    interp_schedule_release(set, control->results[k].home, control->results[k].copied);
  free(control->now);
  free(control->results);
  free(control->slices);
  free(control->rebased);
  free(control);
}

/* Removes the commands and controls from the given indices on. */
static void drop_commands(schedule *schedule, uint32_t commands, uint32_t controls) {
  for (uint32_t i = controls; schedule->controls && i < schedule->n_controls; i++)
    control_destroy(schedule->devices, schedule->controls[i]);
  for (uint32_t i = commands; schedule->commands && i < schedule->n_commands; i++)
    interp_schedule_release(schedule->devices, schedule->commands[i].backend,
                            schedule->commands[i].recorded);
  schedule->n_commands = commands;
  schedule->n_controls = controls;
}

void schedule_destroy(schedule *schedule) {
  if (!schedule) return;
  schedule_list_clear(&schedule->next);
  drop_commands(schedule, 0, 0);
  for (int b = 0; b < MAX_BACKENDS; b++) free(schedule->chunk_bytes[b]);
  void *const arrays[] = {schedule->key,     schedule->values,   schedule->types,
                          schedule->at,      schedule->now,      schedule->target,
                          schedule->blocks,  schedule->storages, schedule->commands,
                          schedule->controls};
  for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) free(arrays[i]);
  free(schedule);
}

void schedule_drop(schedule *schedule) {
  if (schedule && --schedule->holds == 0) schedule_destroy(schedule);
}

void schedule_list_clear(schedule_list *list) {
  for (int i = 0; i < KEPT_SCHEDULES; i++) schedule_drop(list->items[i]);
  *list = (schedule_list){0};
}

/* ---------------------------------------------------------------- copies */

/* Copies an array, which may be empty. Returns NULL only if memory runs out. */
static void *copy_array(const void *from, size_t count, size_t size) {
  void *to = malloc(count * size + 1);
  if (to && count) memcpy(to, from, count * size);
  return to;
}

#define COPY_ARRAY(from, count) copy_array((from), (count), sizeof *(from))

clave_status schedule_create(const program *prog, const device_set *devices,
                             const scalar_value *values, schedule **out) {
  size_t n = slot_count(prog);
  schedule *schedule = *out = calloc(1, sizeof *schedule);
  if (!schedule) return status_no_memory();
  schedule->prog = prog;
  schedule->devices = devices;
  schedule->number = 1;
  schedule->key = COPY_ARRAY(values, prog->ir.values.count);
  schedule->values = COPY_ARRAY(values, prog->ir.values.count);
  schedule->types = COPY_ARRAY(prog->types, n);
  schedule->at = calloc(n + 1, sizeof *schedule->at);
  schedule->now = calloc(n + 1, sizeof *schedule->now);
  schedule->target = calloc(n + 1, sizeof *schedule->target);
  if (!schedule->key || !schedule->values || !schedule->types || !schedule->at || !schedule->now ||
      !schedule->target) {
    schedule_destroy(schedule);
    *out = NULL;
    return status_no_memory();
  }
  for (size_t i = 0; i < n; i++)
    schedule->at[i].storage = schedule->now[i].storage = schedule->target[i] = NO_INDEX;
  return NULL;
}

static control *copy_control(const schedule *schedule, const control *from) {
  size_t n_slots = slot_count(schedule->prog);
  control *copy = COPY_ARRAY(from, 1);
  if (!copy) return NULL;
  copy->now = from->now ? COPY_ARRAY(from->now, n_slots) : NULL;
  copy->results = COPY_ARRAY(from->results, from->n_results);
  copy->slices = COPY_ARRAY(from->slices, from->n_slices);
  copy->rebased = COPY_ARRAY(from->rebased, from->n_rebased);
  for (uint32_t k = 0; copy->results && k < copy->n_results; k++)
    (void)retain(copy->results[k].copied);
  if (copy->results && copy->slices && copy->rebased && (copy->now || !from->now)) return copy;
  control_destroy(schedule->devices, copy);
  return NULL;
}

static bool copy_tables(const schedule *from, schedule *to) {
  size_t n = slot_count(to->prog);
  to->values = COPY_ARRAY(from->values, to->prog->ir.values.count);
  to->types = COPY_ARRAY(from->types, n);
  to->at = COPY_ARRAY(from->at, n);
  to->now = COPY_ARRAY(from->now, n);
  to->target = COPY_ARRAY(from->target, n);
  to->blocks = COPY_ARRAY(from->blocks, from->n_blocks);
  to->storages = COPY_ARRAY(from->storages, from->n_storages);
  to->commands = COPY_ARRAY(from->commands, from->n_commands);
  to->cap_blocks = to->n_blocks = from->n_blocks;
  to->cap_storages = to->n_storages = from->n_storages;
  to->cap_commands = to->n_commands = from->n_commands;
  for (uint32_t i = 0; to->commands && i < to->n_commands; i++)
    (void)retain(to->commands[i].recorded);
  return to->values && to->types && to->at && to->now && to->target && to->blocks && to->storages &&
         to->commands;
}

static bool copy_controls(const schedule *from, schedule *to) {
  if (!array_reserve(&to->controls, &to->cap_controls, from->n_controls, sizeof *to->controls))
    return false;
  for (uint32_t i = 0; i < from->n_controls; i++) {
    to->controls[i] = copy_control(to, from->controls[i]);
    if (!to->controls[i]) return false;
    to->n_controls++;
  }
  return true;
}

static bool copy_chunks(const schedule *from, schedule *to) {
  bool good = true;
  for (int b = 0; b < MAX_BACKENDS; b++) {
    to->chunk_bytes[b] = COPY_ARRAY(from->chunk_bytes[b], from->n_chunks[b]);
    to->n_chunks[b] = to->first_chunk[b] = from->n_chunks[b];
    to->scratch_bytes[b] = from->scratch_bytes[b];
    good = good && to->chunk_bytes[b];
  }
  return good;
}

clave_status schedule_extend(const schedule *from, schedule **out) {
  schedule *extended = *out = calloc(1, sizeof *extended);
  if (!extended) return status_no_memory();
  extended->prog = from->prog;
  extended->devices = from->devices;
  bool good = copy_tables(from, extended);
  good = copy_controls(from, extended) && good;
  good = copy_chunks(from, extended) && good;
  if (!good) {
    schedule_destroy(extended);
    *out = NULL;
    return status_no_memory();
  }
  extended->number = from->number + 1;
  extended->first_command = from->n_commands;
  extended->first_control = from->n_controls;
  extended->first_storage = from->n_storages;
  extended->first_block = from->n_blocks;
  return NULL;
}

/* ---------------------------------------------------------------- growth */

clave_status add_block(schedule *schedule, uint8_t kind, uint8_t on, size_t bytes, uint32_t slot,
                       uint32_t *out) {
  if (!array_reserve(&schedule->blocks, &schedule->cap_blocks, (size_t)schedule->n_blocks + 1,
                     sizeof *schedule->blocks))
    return status_no_memory();
  schedule->blocks[schedule->n_blocks] =
      (block){.a = {.bytes = bytes, .first = schedule->n_commands, .last = schedule->n_commands},
              .kind = kind,
              .backend = on,
              .slot = slot};
  *out = schedule->n_blocks++;
  return NULL;
}

clave_status add_storage(schedule *schedule, size_t bytes, uint8_t home, uint32_t slot,
                         uint32_t *out) {
  if (!array_reserve(&schedule->storages, &schedule->cap_storages, (size_t)schedule->n_storages + 1,
                     sizeof *schedule->storages))
    return status_no_memory();
  storage *added = &schedule->storages[schedule->n_storages];
  *added = (storage){.home = home, .slot = slot, .bytes = bytes, .last_use = NO_INDEX};
  for (int b = 0; b < MAX_BACKENDS; b++) added->block[b] = NO_INDEX;
  *out = schedule->n_storages++;
  return NULL;
}

clave_status add_command(schedule *schedule, command command) {
  if (!array_reserve(&schedule->commands, &schedule->cap_commands, (size_t)schedule->n_commands + 1,
                     sizeof *schedule->commands)) {
    interp_schedule_release(schedule->devices, command.backend, command.recorded);
    return status_no_memory();
  }
  schedule->commands[schedule->n_commands++] = command;
  return NULL;
}

clave_status add_control(schedule *schedule, uint32_t instruction, uint32_t n_results,
                         uint32_t n_slices, uint32_t *out) {
  bool reserved = array_reserve(&schedule->controls, &schedule->cap_controls,
                                (size_t)schedule->n_controls + 1, sizeof *schedule->controls);
  control *control = reserved ? calloc(1, sizeof *control) : NULL;
  if (!control) return status_no_memory();
  *out = schedule->n_controls;
  schedule->controls[schedule->n_controls++] = control;
  control->instruction = instruction;
  control->known = -1;
  control->results = calloc(n_results + 1, sizeof *control->results);
  control->slices = calloc(n_slices + 1, sizeof *control->slices);
  return control->results && control->slices ? NULL : status_no_memory();
}

/* ---------------------------------------------------------------- rewinding */

schedule_mark schedule_marked(const schedule *schedule) {
  return (schedule_mark){schedule->n_blocks, schedule->n_storages, schedule->n_commands,
                         schedule->n_controls};
}

static void forget_slot(schedule *schedule, const graph *graph, const schedule_mark *to,
                        range instructions, uint32_t tid) {
  if (schedule->target[tid] != NO_INDEX && schedule->target[tid] >= to->storages)
    schedule->target[tid] = NO_INDEX;
  uint32_t w = graph->writer[tid];
  bool written = w != NO_INDEX && w >= instructions.first && w < instructions.end;
  bool older = schedule->at[tid].storage == NO_INDEX || schedule->at[tid].storage < to->storages;
  if (!older || written) {
    schedule->at[tid].storage = schedule->now[tid].storage = NO_INDEX;
  } else if (schedule->now[tid].storage != NO_INDEX && schedule->now[tid].storage >= to->storages) {
    schedule->now[tid] = schedule->at[tid];
  }
}

void schedule_rewind(schedule *schedule, const graph *graph, const schedule_mark *to,
                     range instructions) {
  for (slot_iter i = slots_of(graph, instructions); next_slot(&i);)
    forget_slot(schedule, graph, to, instructions, i.tid);
  drop_commands(schedule, to->commands, to->controls);
  for (uint32_t i = 0; i < to->storages; i++)
    for (int b = 0; b < MAX_BACKENDS; b++)
      if (schedule->storages[i].block[b] != NO_INDEX &&
          schedule->storages[i].block[b] >= to->blocks)
        schedule->storages[i].block[b] = NO_INDEX;
  schedule->n_blocks = to->blocks;
  schedule->n_storages = to->storages;
}

/* ---------------------------------------------------------------- queries */

uint64_t schedule_arena_bytes(const schedule *schedule) {
  uint64_t sum = 0;
  for (int b = 0; b < MAX_BACKENDS; b++) {
    sum += schedule->scratch_bytes[b];
    for (uint32_t c = 0; c < schedule->n_chunks[b]; c++) sum += schedule->chunk_bytes[b][c];
  }
  return sum;
}

int device_set_cpu(const device_set *devices) {
  for (int b = 0; b < devices->count; b++)
    if (strcmp(devices->backends[b]->info.kind, "cpu") == 0) return b;
  return -1;
}

int device_set_fallback(const device_set *devices) {
  return devices->no_fallback ? -1 : device_set_cpu(devices);
}

int schedule_home(const schedule *schedule, uint32_t index) {
  return schedule->storages[index].home == NO_HOME ? 0 : schedule->storages[index].home;
}
