/* Plans: what a method does for one set of sizes. Built phase by phase, because an Item's value may
 * decide later sizes. */
#include <stdlib.h>
#include <string.h>

#include "interp/internal.h"

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

/* What later phases or the caller read must outlive this one. */
static void keep_for_later(plan *p, uint32_t instruction) {
  for (uint32_t i = 0; i < p->n_storages; i++) {
    const storage *g = &p->storages[i];
    if (g->last_use == NO_INDEX || g->last_use <= instruction) continue;
    for (int b = 0; b < MAX_BACKENDS; b++)
      if (g->block[b] != NO_INDEX && !p->blocks[g->block[b]].phase)
        p->blocks[g->block[b]].a.last = STEP_FOREVER;
  }
}

static void keep_outputs(const method *m, plan *p) {
  for (uint32_t i = 0; i < m->ir->outputs.count; i++) {
    uint32_t tid = m->ir->outputs.items[i].tensor;
    if (tid == IR_NONE) continue;
    const storage *g = &p->storages[p->at[tid].storage];
    p->blocks[g->block[g->home]].a.last = STEP_FOREVER;
  }
}

static clave_status place_phase(session *s, plan *p, phase *ph, uint32_t number) {
  arena_block **list = malloc((p->n_blocks + 1) * sizeof *list);
  if (!list) return status_no_memory();
  clave_status st = NULL;
  for (int b = 0; b < s->devices.count && !st; b++) {
    const backend_info *info = &s->devices.backends[b]->info;
    size_t n = 0;
    for (uint32_t i = 0; i < p->n_blocks; i++)
      if (!p->blocks[i].phase && p->blocks[i].kind == BLOCK_ARENA && p->blocks[i].backend == b)
        list[n++] = &p->blocks[i].a;
    st = arena_place(list, n, info->alignment ? info->alignment : 64,
                     info->max_alloc ? info->max_alloc : SIZE_MAX / 2, &ph->layout[b]);
    for (uint32_t i = 0; i < number - 1; i++) ph->first_chunk[b] += p->phases[i].layout[b].n_chunks;
    for (size_t i = 0; i < n; i++) list[i]->chunk += ph->first_chunk[b];
    for (uint32_t c = 0; c < ph->layout[b].n_chunks; c++)
      p->arena_bytes += ph->layout[b].chunk_bytes[c];
  }
  if (p->peak_bytes < p->arena_bytes) p->peak_bytes = p->arena_bytes;
  for (uint32_t i = 0; i < p->n_blocks; i++)
    if (!p->blocks[i].phase) p->blocks[i].phase = number;
  free(list);
  return st;
}

clave_status plan_next_phase(session *s, method *m, plan *p, cursor *k) {
  TRY(grow_array((void **)&p->phases, &p->cap_phases, p->n_phases, sizeof *p->phases));
  uint32_t number = p->n_phases++, item = NO_INDEX, first = k->next;
  p->phases[number] = (phase){.first_step = p->n_steps,
                              .first_control = p->n_controls,
                              .first_storage = p->n_storages,
                              .item = NO_INDEX};
  while (k->next < k->end && item == NO_INDEX) {
    uint32_t i = k->next;
    k->next = m->bodies[i][1].end;
    clave_status st = plan_instruction(s, m, p, i);
    if (st) return while_in_node(st, s, m, i);
    if (m->instructions[i].op_type == IR_OP_ITEM) item = i;
  }
  if (item != NO_INDEX) {
    keep_for_later(p, item);
  } else if (k->c) {
    TRY(plan_body_end(s, m, p, k->c, k->body));
  } else {
    TRY(plan_updates(s, m, p));
    keep_outputs(m, p);
  }
  phase *ph = &p->phases[number];
  ph->item = item;
  ph->instructions = (span){first, k->next};
  ph->n_steps = p->n_steps - ph->first_step;
  TRY(place_phase(s, p, ph, number + 1));
  return bind_phase(s, m, p, ph);
}

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
