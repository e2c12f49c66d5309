/* Planning a phase: the instructions up to the next Item, whose value may decide later sizes, or to
 * the end; then its arena and the addresses of its slots. */
#include <stdlib.h>

#include "interp/internal.h"

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
