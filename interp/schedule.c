/* Schedules as tables, which the planner fills, and the lists in which an executable keeps them. */
#include "interp/schedule.h"

#include <stdlib.h>
#include <string.h>

#include "interp/planner.h"
#include "interp/scalar.h"

/* ---------------------------------------------------------------- lifetime */

void recording_release(const executable *x, int b, recording *r) {
  backend *be = x->devices.backends[b];
  if (r && --r->holds == 0) be->vt->recording_destroy(be, r);
}

static recording *retain(recording *r) {
  if (r) r->holds++;
  return r;
}

static void control_destroy(const executable *x, control *c) {
  if (!c) return;
  for (uint32_t k = 0; c->results && k < c->n_results; k++)
    recording_release(x, c->results[k].home, c->results[k].copied);
  free(c->now);
  free(c->results);
  free(c->slices);
  free(c->rebased);
  free(c);
}

/* Those from some on. */
static void drop_commands(schedule *p, uint32_t commands, uint32_t controls) {
  for (uint32_t i = controls; p->controls && i < p->n_controls; i++)
    control_destroy(p->x, p->controls[i]);
  for (uint32_t i = commands; p->commands && i < p->n_commands; i++)
    recording_release(p->x, p->commands[i].backend, p->commands[i].recorded);
  p->n_commands = commands;
  p->n_controls = controls;
}

static void schedule_destroy(schedule *p) {
  if (!p) return;
  schedule_list_clear(&p->next);
  drop_commands(p, 0, 0);
  for (int b = 0; b < MAX_BACKENDS; b++) free(p->chunk_bytes[b]);
  void *const arrays[] = {p->key,    p->values, p->types,    p->at,       p->now,
                          p->target, p->blocks, p->storages, p->commands, p->controls};
  for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) free(arrays[i]);
  free(p);
}

static void drop(schedule *p) {
  if (p && --p->holds == 0) schedule_destroy(p);
}

void schedule_release(executable *x, schedule *p) {
  if (!p) return;
  mutex_lock(x->lock);
  drop(p);
  mutex_unlock(x->lock);
}

void schedule_list_clear(schedule_list *l) {
  for (int i = 0; i < KEPT_SCHEDULES; i++) drop(l->items[i]);
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

static control *copy_control(const executable *x, const control *from) {
  size_t n_slots = slot_count(x->prog);
  control *c = COPY_ARRAY(from, 1);
  if (!c) return NULL;
  c->now = from->now ? COPY_ARRAY(from->now, n_slots) : NULL;
  c->results = COPY_ARRAY(from->results, from->n_results);
  c->slices = COPY_ARRAY(from->slices, from->n_slices);
  c->rebased = COPY_ARRAY(from->rebased, from->n_rebased);
  for (uint32_t k = 0; c->results && k < c->n_results; k++) (void)retain(c->results[k].copied);
  if (c->results && c->slices && c->rebased && (c->now || !from->now)) return c;
  control_destroy(x, c);
  return NULL;
}

static bool copy_tables(const schedule *from, schedule *p) {
  const program *prog = p->x->prog;
  size_t n = slot_count(prog);
  p->values = COPY_ARRAY(from->values, prog->ir.values.count);
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
    p->controls[i] = copy_control(p->x, from->controls[i]);
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

/* A schedule with the tables of another, behind which it goes on. */
static clave_status extend(const executable *x, const schedule *from, schedule **out) {
  schedule *p = *out = calloc(1, sizeof *p);
  if (!p) return status_no_memory();
  p->x = x;
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

/* ---------------------------------------------------------------- making */

/* A first one, with no command yet. */
static clave_status begin_schedule(const planner *l, const scalar_value *values, schedule **out) {
  const program *prog = l->x->prog;
  size_t n = slot_count(prog);
  location *nowhere = malloc((n + 1) * sizeof *nowhere);
  uint32_t *untargeted = malloc((n + 1) * sizeof *untargeted);
  for (size_t i = 0; nowhere && i < n; i++) nowhere[i].storage = NO_INDEX;
  for (size_t i = 0; untargeted && i < n; i++) untargeted[i] = NO_INDEX;
  union {
    const scalar_value *in;
    scalar_value *out;
  } cast = {values}; /* only read */
  const schedule empty = {.values = cast.out,
                          .types = prog->types,
                          .at = nowhere,
                          .now = nowhere,
                          .target = untargeted};
  clave_status st = nowhere && untargeted ? extend(l->x, &empty, out) : status_no_memory();
  free(nowhere);
  free(untargeted);
  if (st) return st;
  (*out)->key = COPY_ARRAY(values, prog->ir.values.count);
  (*out)->from = (cursor){.end = l->g->n, .control = NO_INDEX};
  if ((*out)->key) return NULL;
  schedule_destroy(*out);
  return status_no_memory();
}

static clave_status set_input_types(const planner *l) {
  const ir_arguments *inputs = &l->g->method->inputs;
  for (uint32_t i = 0; i < inputs->count; i++)
    if (inputs->items[i].tensor != IR_NONE) TRY(resolve_type(l, inputs->items[i].tensor));
  return NULL;
}

static clave_status make_first(planner *l, const scalar_value *values) {
  TRY(begin_schedule(l, values, &l->p));
  clave_status st = set_input_types(l);
  if (!st) st = plan_part(l);
  if (st) schedule_destroy(l->p);
  return st;
}

static clave_status make_next(planner *l, const schedule *before, cursor from,
                              const scalar_value *item) {
  TRY(extend(l->x, before, &l->p));
  clave_status st = NULL;
  l->p->from = from;
  if (item) {
    l->p->item = *item;
    uint32_t out = ((const ir_item *)l->g->instructions[before->reads].op)->out;
    st =
        while_in_node(scalar_set(&l->x->prog->ir, out, *item, l->p->values, "the value of an item"),
                      l->g, before->reads);
  } else {
    const location *now = before->controls[from.control]->now;
    memcpy(l->p->now, now, slot_count(l->x->prog) * sizeof *now);
  }
  if (!st) st = plan_part(l);
  if (st) schedule_destroy(l->p);
  return st;
}

static clave_status init_planner(planner *l, executable *x, uint32_t index) {
  *l = (planner){.x = x, .m = &x->methods[index], .g = &x->methods[index].g};
  l->operands = malloc((slot_count(x->prog) + (size_t)2) * sizeof *l->operands);
  return l->operands ? NULL : status_no_memory();
}

/* ---------------------------------------------------------------- lists */

/* What a schedule is made of: the values of inputs; or the one before it, a cursor, and the value
 * that was read (NULL: none). */
typedef struct schedule_key {
  const scalar_value *values;
  schedule *before;
  cursor from;
  const scalar_value *item;
} schedule_key;

static bool is_made_of(const schedule *p, const schedule_key *k, uint32_t n_values) {
  static const scalar_value none;
  if (k->values) return scalars_equal(p->key, k->values, n_values);
  return p->from.next == k->from.next && p->from.control == k->from.control &&
         p->from.body == k->from.body && scalars_equal(&p->item, k->item ? k->item : &none, 1);
}

static clave_status make_schedule(executable *x, uint32_t index, const schedule_key *k,
                                  schedule **out) {
  planner l;
  clave_status st = init_planner(&l, x, index);
  if (!st) st = k->values ? make_first(&l, k->values) : make_next(&l, k->before, k->from, k->item);
  free(l.operands);
  if (st) return st;
  *out = l.p;
  l.p->holds = 1; /* the list's */
  return NULL;
}

/* The schedule in the list, or a new one in the place of that used longest ago; held for the
 * caller. *made: it is new. */
static clave_status find_or_make(executable *x, uint32_t index, schedule_list *list,
                                 const schedule_key *k, schedule **out, bool *made) {
  int i = 0;
  while (i < KEPT_SCHEDULES && list->items[i] &&
         !is_made_of(list->items[i], k, x->prog->ir.values.count))
    i++;
  schedule *p = i < KEPT_SCHEDULES ? list->items[i] : NULL;
  *out = NULL;
  *made = !p;
  if (!p) TRY(make_schedule(x, index, k, &p));
  if (i == KEPT_SCHEDULES) drop(list->items[--i]);
  memmove(&list->items[1], &list->items[0], (size_t)i * sizeof list->items[0]);
  list->items[0] = *out = p;
  p->holds++;
  return NULL;
}

clave_status schedule_find(executable *x, uint32_t index, const scalar_value *values,
                           schedule **out) {
  const schedule_key k = {.values = values};
  bool made;
  mutex_lock(x->lock);
  clave_status st = find_or_make(x, index, &x->methods[index].schedules, &k, out, &made);
  mutex_unlock(x->lock);
  return st;
}

clave_status schedule_find_next(executable *x, uint32_t index, schedule *p, cursor from,
                                const scalar_value *item, schedule **out, bool *made) {
  const schedule_key k = {.before = p, .from = from, .item = item};
  mutex_lock(x->lock);
  clave_status st = find_or_make(x, index, &p->next, &k, out, made);
  mutex_unlock(x->lock);
  return st;
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
    recording_release(p->x, c.backend, c.recorded);
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

static void forget_slot(const planner *l, const schedule_mark *to, range instructions,
                        uint32_t tid) {
  schedule *p = l->p;
  if (p->target[tid] != NO_INDEX && p->target[tid] >= to->storages) p->target[tid] = NO_INDEX;
  uint32_t w = l->g->writer[tid];
  bool written = w != NO_INDEX && w >= instructions.first && w < instructions.end;
  bool older = p->at[tid].storage == NO_INDEX || p->at[tid].storage < to->storages;
  if (!older || written) {
    p->at[tid].storage = p->now[tid].storage = NO_INDEX;
  } else if (p->now[tid].storage != NO_INDEX && p->now[tid].storage >= to->storages) {
    p->now[tid] = p->at[tid];
  }
}

void schedule_rewind(const planner *l, const schedule_mark *to, range instructions) {
  schedule *p = l->p;
  for (slot_iter i = slots_of(l->g, instructions); next_slot(&i);)
    forget_slot(l, to, instructions, i.tid);
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
