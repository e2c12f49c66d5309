/* Plans a segment of a method: the instructions up to the next Item, whose value may determine
 * later sizes, or to the end. Then places the segment's blocks in the arena. */
#include "interp/plan/segment.h"

#include <stdlib.h>

#include "interp/plan/control.h"
#include "interp/plan/op.h"
#include "interp/plan/precision.h"

/* Keeps blocks beyond this schedule if a later segment or the caller reads them. */
static void keep_blocks_alive(schedule *schedule, uint32_t instruction) {
  for (uint32_t i = 0; i < schedule->n_storages; i++) {
    const storage *storage = &schedule->storages[i];
    if (storage->last_use == NO_INDEX || storage->last_use <= instruction) continue;
    for (int b = 0; b < MAX_BACKENDS; b++)
      if (storage->block[b] != NO_INDEX && !schedule->blocks[storage->block[b]].segment)
        schedule->blocks[storage->block[b]].a.last = FOREVER;
  }
}

static void segment_keep_outputs(planner *planner) {
  const ir_arguments *outputs = &planner->graph->method->outputs;
  for (uint32_t i = 0; i < outputs->count; i++) {
    uint32_t tid = outputs->items[i].tensor;
    if (tid == IR_NONE) continue;
    const storage *storage = &planner->schedule->storages[planner->schedule->at[tid].storage];
    planner->schedule->blocks[storage->block[storage->home]].a.last = FOREVER;
  }
}

static clave_status append_chunks(schedule *schedule, int b, const arena_layout *more) {
  size_t n = schedule->n_chunks[b] + (size_t)more->n_chunks;
  size_t *all = realloc(schedule->chunk_bytes[b], (n + 1) * sizeof *all);
  if (!all) return status_no_memory();
  schedule->chunk_bytes[b] = all;
  for (uint32_t c = 0; c < more->n_chunks; c++) all[schedule->n_chunks[b]++] = more->chunk_bytes[c];
  return NULL;
}

/* Returns the largest size of a buffer in bytes, limited to what this process can address. */
static size_t max_buffer_bytes(const backend_info *info) {
  const size_t most = SIZE_MAX / 2;
  return info->max_alloc && info->max_alloc < most ? (size_t)info->max_alloc : most;
}

/* Places the schedule's new blocks on backend b. list: scratch with space for all blocks. */
static clave_status place_blocks(planner *planner, int b, arena_block **list) {
  schedule *schedule = planner->schedule;
  const backend_info *info = &planner->executable->devices.backends[b]->info;
  arena_layout layout;
  size_t n = 0;
  for (uint32_t i = 0; i < schedule->n_blocks; i++)
    if (!schedule->blocks[i].segment && schedule->blocks[i].kind == BLOCK_ARENA &&
        schedule->blocks[i].backend == b)
      list[n++] = &schedule->blocks[i].a;
  TRY(arena_place(list, n, info->alignment ? info->alignment : 64, max_buffer_bytes(info),
                  &layout));
  for (size_t i = 0; i < n; i++) list[i]->chunk += schedule->first_chunk[b];
  clave_status st = append_chunks(schedule, b, &layout);
  arena_layout_free(&layout);
  return st;
}

static clave_status segment_place_all(planner *planner) {
  schedule *schedule = planner->schedule;
  arena_block **list = malloc((schedule->n_blocks + 1) * sizeof *list);
  clave_status st = list ? NULL : status_no_memory();
  for (int b = 0; b < planner->executable->devices.count && !st; b++)
    st = place_blocks(planner, b, list);
  free(list);
  for (uint32_t i = 0; i < schedule->n_blocks; i++)
    if (!schedule->blocks[i].segment) schedule->blocks[i].segment = schedule->number;
  return st;
}

clave_status plan_segment(planner *planner) {
  schedule *schedule = planner->schedule;
  cursor cursor = schedule->from;
  uint32_t undecided =
      cursor.control == NO_INDEX && assigns_precision(planner) ? cursor.next : cursor.end;
  schedule->reads = NO_INDEX;
  while (cursor.next < cursor.end && schedule->reads == NO_INDEX) {
    uint32_t i = cursor.next;
    if (i == undecided) TRY(assign_precision(planner, i, cursor.end, &undecided));
    cursor.next = planner->graph->bodies[i][1].end;
    TRY(while_in_node(plan_instruction(planner, i), planner->graph, i));
    if (planner->graph->instructions[i].op_type == IR_OP_ITEM) schedule->reads = i;
  }
  if (schedule->reads != NO_INDEX) {
    keep_blocks_alive(schedule, schedule->reads);
  } else if (cursor.control != NO_INDEX) {
    TRY(plan_body_end(planner, cursor.control, cursor.body));
  } else {
    TRY(plan_updates(planner));
    segment_keep_outputs(planner);
  }
  schedule->instructions = (range){schedule->from.next, cursor.next};
  schedule->rest = cursor;
  return segment_place_all(planner);
}
