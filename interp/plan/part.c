/* Planning a part of a method: the instructions up to the next Item, whose value may decide later
 * sizes, or to the end; then the places of their blocks in the arena. */
#include "interp/plan/part.h"

#include <stdlib.h>

#include "interp/plan/control.h"
#include "interp/plan/op.h"
#include "interp/plan/precision.h"

/* What later parts or the caller read must outlive this one. */
static void keep_for_later(schedule *p, uint32_t instruction) {
  for (uint32_t i = 0; i < p->n_storages; i++) {
    const storage *g = &p->storages[i];
    if (g->last_use == NO_INDEX || g->last_use <= instruction) continue;
    for (int b = 0; b < MAX_BACKENDS; b++)
      if (g->block[b] != NO_INDEX && !p->blocks[g->block[b]].part)
        p->blocks[g->block[b]].a.last = FOREVER;
  }
}

static void keep_outputs(planner *l) {
  const ir_arguments *outputs = &l->g->method->outputs;
  for (uint32_t i = 0; i < outputs->count; i++) {
    uint32_t tid = outputs->items[i].tensor;
    if (tid == IR_NONE) continue;
    const storage *g = &l->p->storages[l->p->at[tid].storage];
    l->p->blocks[g->block[g->home]].a.last = FOREVER;
  }
}

static clave_status append_chunks(schedule *p, int b, const arena_layout *more) {
  size_t n = p->n_chunks[b] + (size_t)more->n_chunks;
  size_t *all = realloc(p->chunk_bytes[b], (n + 1) * sizeof *all);
  if (!all) return status_no_memory();
  p->chunk_bytes[b] = all;
  for (uint32_t c = 0; c < more->n_chunks; c++) all[p->n_chunks[b]++] = more->chunk_bytes[c];
  return NULL;
}

/* Returns bytes, limited to what this process addresses: a device may allocate more. */
static size_t most_of_a_buffer(const backend_info *info) {
  const size_t most = SIZE_MAX / 2;
  return info->max_alloc && info->max_alloc < most ? (size_t)info->max_alloc : most;
}

/* list: room for all blocks. */
static clave_status place_blocks(planner *l, int b, arena_block **list) {
  schedule *p = l->p;
  const backend_info *info = &l->x->devices.backends[b]->info;
  arena_layout layout;
  size_t n = 0;
  for (uint32_t i = 0; i < p->n_blocks; i++)
    if (!p->blocks[i].part && p->blocks[i].kind == BLOCK_ARENA && p->blocks[i].backend == b)
      list[n++] = &p->blocks[i].a;
  TRY(arena_place(list, n, info->alignment ? info->alignment : 64, most_of_a_buffer(info),
                  &layout));
  for (size_t i = 0; i < n; i++) list[i]->chunk += p->first_chunk[b];
  clave_status st = append_chunks(p, b, &layout);
  arena_layout_free(&layout);
  return st;
}

static clave_status place_all(planner *l) {
  schedule *p = l->p;
  arena_block **list = malloc((p->n_blocks + 1) * sizeof *list);
  clave_status st = list ? NULL : status_no_memory();
  for (int b = 0; b < l->x->devices.count && !st; b++) st = place_blocks(l, b, list);
  free(list);
  for (uint32_t i = 0; i < p->n_blocks; i++)
    if (!p->blocks[i].part) p->blocks[i].part = p->number;
  return st;
}

clave_status plan_part(planner *l) {
  schedule *p = l->p;
  cursor k = p->from;
  uint32_t undecided = k.control == NO_INDEX && assigns_precision(l) ? k.next : k.end;
  p->reads = NO_INDEX;
  while (k.next < k.end && p->reads == NO_INDEX) {
    uint32_t i = k.next;
    if (i == undecided) TRY(assign_precision(l, i, k.end, &undecided));
    k.next = l->g->bodies[i][1].end;
    TRY(while_in_node(plan_instruction(l, i), l->g, i));
    if (l->g->instructions[i].op_type == IR_OP_ITEM) p->reads = i;
  }
  if (p->reads != NO_INDEX) {
    keep_for_later(p, p->reads);
  } else if (k.control != NO_INDEX) {
    TRY(plan_body_end(l, k.control, k.body));
  } else {
    TRY(plan_updates(l));
    keep_outputs(l);
  }
  p->instructions = (range){p->from.next, k.next};
  p->rest = k;
  return place_all(l);
}
