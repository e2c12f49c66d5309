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
  bool good = p->key && p->values && p->types && p->at && p->now;
  for (int b = 0; b < s->devices.count; b++)
    good = (p->bound[b] = calloc(n + 2, sizeof **p->bound)) && good;
  if (!good) {
    plan_destroy(p);
    return status_no_memory();
  }
  memcpy(p->key, key, (n_values - 1) * sizeof *key);
  memcpy(p->values, key, (n_values - 1) * sizeof *key);
  memcpy(p->types, s->prog->types, n * sizeof *p->types);
  for (size_t i = 0; i < n; i++) p->at[i].storage = p->now[i].storage = NO_INDEX;
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
      if (g->block[b] != NO_INDEX) p->blocks[g->block[b]].a.last = STEP_FOREVER;
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
  for (uint32_t i = 0; i < p->n_blocks; i++)
    if (!p->blocks[i].phase) p->blocks[i].phase = number;
  free(list);
  return st;
}

clave_status plan_next_phase(session *s, method *m, plan *p) {
  TRY(grow_array((void **)&p->phases, &p->cap_phases, p->n_phases, sizeof *p->phases));
  phase *ph = &p->phases[p->n_phases++];
  *ph = (phase){.first_step = p->n_steps, .item = NO_INDEX};
  while (p->next_instruction < m->n && ph->item == NO_INDEX) {
    uint32_t i = p->next_instruction++;
    clave_status st = plan_instruction(s, m, p, i);
    if (st) return while_in_node(st, s, m, i);
    if (m->instructions[i].op_type == IR_OP_ITEM) ph->item = i;
  }
  if (ph->item == NO_INDEX) {
    TRY(plan_updates(s, m, p));
    keep_outputs(m, p);
  } else {
    keep_for_later(p, ph->item);
  }
  ph->n_steps = p->n_steps - ph->first_step;
  TRY(place_phase(s, p, ph, p->n_phases));
  return bind_plan(s, p);
}
