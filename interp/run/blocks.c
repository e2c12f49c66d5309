/* The blocks of the schedule that a method ran last, for pictures of the arena. */
#include "interp/run/bindings.h"

/* Returns the schedule of the last run; NULL if none exists. */
static const schedule *last_schedule(const session *session, uint32_t index) {
  const method_state *state = &session->methods[index];
  return state->has_run && state->bindings[0] ? state->bindings[0]->schedule : NULL;
}

static bool blocks_is_placed(const block *block) {
  return block->kind == BLOCK_ARENA && block->a.bytes;
}

static bool storage_is_in_block(const schedule *schedule, uint32_t number, uint32_t at) {
  for (int b = 0; number != NO_INDEX && b < schedule->devices->count; b++)
    if (schedule->storages[number].block[b] == at) return true;
  return false;
}

/* Returns the first slot stored in a block (outputs precede temporaries); else IR_NONE. */
static uint32_t blocks_find_slot(const schedule *schedule, uint32_t at) {
  for (uint32_t tid = 0; tid < slot_count(schedule->prog); tid++)
    if (storage_is_in_block(schedule, schedule->at[tid].storage, at)) return tid;
  return IR_NONE;
}

static uint32_t node_of(const session *session, uint32_t index, const schedule *schedule,
                        uint32_t at_command) {
  const graph *graph = &session->executable->methods[index].graph;
  return node_number(graph, at_command < schedule->n_commands
                                ? schedule->commands[at_command].instruction
                                : graph->n);
}

clave_status session_count_blocks(const session *session, uint32_t index, uint32_t *blocks,
                                  uint32_t *commands) {
  const schedule *schedule = last_schedule(session, index);
  if (!schedule) return INVALID("the method has not run");
  *blocks = 0;
  *commands = schedule->n_commands;
  for (uint32_t i = 0; i < schedule->n_blocks; i++)
    *blocks += blocks_is_placed(&schedule->blocks[i]);
  return NULL;
}

clave_status session_find_block(const session *session, uint32_t index, uint32_t number,
                                session_block *out) {
  const schedule *schedule = last_schedule(session, index);
  if (!schedule) return INVALID("the method has not run");
  for (uint32_t i = 0, k = 0; i < schedule->n_blocks; i++) {
    const block *block = &schedule->blocks[i];
    if (!blocks_is_placed(block) || k++ != number) continue;
    const uint32_t last = schedule->n_commands ? schedule->n_commands - 1 : 0;
    *out = (session_block){.device = schedule->devices->backends[block->backend]->info.kind,
                           .slot = blocks_find_slot(schedule, i),
                           .chunk = block->a.chunk,
                           .first = block->a.first,
                           .last = block->a.last < last ? block->a.last : last,
                           .node = node_of(session, index, schedule, block->a.first),
                           .offset = block->a.offset,
                           .bytes = block->a.bytes};
    return NULL;
  }
  return INVALID("block %u is out of range: the plan has fewer blocks", number);
}
