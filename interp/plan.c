/* Plans: what a method does for one set of sizes, as tables that phase.c and layout.c fill: blocks
 * of memory, storages (versions of bytes in blocks), steps, phases, control ops. */
#include <stdlib.h>
#include <string.h>

#include "interp/internal.h"

static void control_destroy(control *c) {
  if (!c) return;
  free(c->ties);
  free(c->slices);
  free(c->moved);
  free(c);
}

void plan_destroy(plan *p) {
  if (!p) return;
  for (uint32_t i = 0; p->phases && i < p->n_phases; i++)
    for (int b = 0; b < MAX_BACKENDS; b++) arena_layout_free(&p->phases[i].layout[b]);
  for (int b = 0; b < MAX_BACKENDS; b++) free(p->bound[b]);
  free(p->key);
  free(p->values);
  free(p->types);
  free(p->at);
  free(p->now);
  free(p->blocks);
  free(p->storages);
  for (uint32_t i = 0; p->controls && i < p->n_controls; i++) control_destroy(p->controls[i]);
  free(p->controls);
  free(p->target);
  free(p->steps);
  free(p->phases);
  free(p);
}

static void set_input_types(const session *s, const method *m, plan *p) {
  for (uint32_t i = 0; i < m->ir->inputs.count; i++) {
    const ir_argument *a = &m->ir->inputs.items[i];
    if (a->tensor == IR_NONE) continue;
    p->types[a->tensor] = m->inputs[i].t;
  }
  (void)s;
}

clave_status plan_create(session *s, const method *m, const scalar_value *key, plan **out) {
  *out = NULL;
  size_t n = slot_count(s), n_values = s->prog->ir.values.count + 1;
  plan *p = calloc(1, sizeof *p);
  if (!p) return status_no_memory();
  p->key = malloc(n_values * sizeof *p->key);
  p->values = malloc(n_values * sizeof *p->values);
  p->types = malloc((n + 1) * sizeof *p->types);
  p->at = malloc((n + 1) * sizeof *p->at);
  p->now = malloc((n + 1) * sizeof *p->now);
  p->target = malloc((n + 1) * sizeof *p->target);
  bool good = p->key && p->values && p->types && p->at && p->now && p->target;
  for (int b = 0; b < s->devices.count; b++)
    good = (p->bound[b] = calloc(n + 2, sizeof **p->bound)) && good;
  if (!good) {
    plan_destroy(p);
    return status_no_memory();
  }
  memcpy(p->key, key, (n_values - 1) * sizeof *key);
  memcpy(p->values, key, (n_values - 1) * sizeof *key);
  memcpy(p->types, s->prog->types, n * sizeof *p->types);
  for (size_t i = 0; i < n; i++) p->at[i].storage = p->now[i].storage = p->target[i] = NO_INDEX;
  set_input_types(s, m, p);
  *out = p;
  return NULL;
}

/* ---------------------------------------------------------------- growth */

clave_status grow_array(void **array, uint32_t *capacity, uint32_t count, size_t size) {
  if (count < *capacity) return NULL;
  uint32_t more = *capacity ? *capacity * 2 : 64;
  void *p = realloc(*array, (size_t)more * size);
  if (!p) return status_no_memory();
  *array = p;
  *capacity = more;
  return NULL;
}

clave_status add_block(plan *p, uint8_t kind, uint8_t on, size_t bytes, uint32_t *out) {
  TRY(grow_array((void **)&p->blocks, &p->cap_blocks, p->n_blocks, sizeof *p->blocks));
  p->blocks[p->n_blocks] = (block){
      .a = {.bytes = bytes, .first = p->n_steps, .last = p->n_steps}, .kind = kind, .backend = on};
  *out = p->n_blocks++;
  return NULL;
}

clave_status add_storage(plan *p, size_t bytes, uint8_t home, uint32_t slot, uint32_t *out) {
  TRY(grow_array((void **)&p->storages, &p->cap_storages, p->n_storages, sizeof *p->storages));
  storage *g = &p->storages[p->n_storages];
  *g = (storage){.home = home, .slot = slot, .bytes = bytes, .last_use = NO_INDEX};
  for (int b = 0; b < MAX_BACKENDS; b++) g->block[b] = NO_INDEX;
  *out = p->n_storages++;
  return NULL;
}

clave_status add_step(plan *p, step st) {
  TRY(grow_array((void **)&p->steps, &p->cap_steps, p->n_steps, sizeof *p->steps));
  p->steps[p->n_steps++] = st;
  return NULL;
}

/* ---------------------------------------------------------------- forgetting */

plan_mark mark_plan(const plan *p) {
  return (plan_mark){.blocks = p->n_blocks,
                     .storages = p->n_storages,
                     .steps = p->n_steps,
                     .phases = p->n_phases,
                     .controls = p->n_controls,
                     .arena_bytes = p->arena_bytes};
}

typedef struct forgetting {
  const session *s;
  plan *p;
  const plan_mark *to;
  const method *m;
  span instructions;
} forgetting;

static void forget_slot(void *ctx, uint32_t tid) {
  const forgetting *f = ctx;
  plan *p = f->p;
  if (p->target[tid] != NO_INDEX && p->target[tid] >= f->to->storages) p->target[tid] = NO_INDEX;
  uint32_t w = f->m->writer[tid];
  bool written = w != NO_INDEX && w >= f->instructions.first && w < f->instructions.end;
  bool older = p->at[tid].storage == NO_INDEX || p->at[tid].storage < f->to->storages;
  if (older && !written) {
    if (p->now[tid].storage != NO_INDEX && p->now[tid].storage >= f->to->storages)
      p->now[tid] = p->at[tid];
    return;
  }
  p->at[tid].storage = p->now[tid].storage = NO_INDEX;
  for (int b = 0; b < f->s->devices.count; b++) p->bound[b][tid] = (bound_tensor){0};
}

void rewind_plan(const session *s, const method *m, plan *p, const plan_mark *to,
                 span instructions) {
  forgetting f = {s, p, to, m, instructions};
  for_each_slot(s, m, instructions, forget_slot, &f);
  for (uint32_t i = to->phases; i < p->n_phases; i++)
    for (int b = 0; b < MAX_BACKENDS; b++) arena_layout_free(&p->phases[i].layout[b]);
  for (uint32_t i = to->controls; i < p->n_controls; i++) control_destroy(p->controls[i]);
  for (uint32_t i = 0; i < to->storages; i++)
    for (int b = 0; b < MAX_BACKENDS; b++)
      if (p->storages[i].block[b] != NO_INDEX && p->storages[i].block[b] >= to->blocks)
        p->storages[i].block[b] = NO_INDEX;
  p->n_blocks = to->blocks;
  p->n_storages = to->storages;
  p->n_steps = to->steps;
  p->n_phases = to->phases;
  p->n_controls = to->controls;
  p->arena_bytes = to->arena_bytes;
}
