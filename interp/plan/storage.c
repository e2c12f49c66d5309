/* Storages at their first use: constants, inputs, state and results; transfers between devices. */
#include "interp/plan/storage.h"

bool holds_constant(const planner *planner, const storage *storage) {
  return storage->home == NO_HOME && !is_slot(planner->executable->prog, storage->slot, SLOT_INPUT);
}

/* Makes a storage readable on a backend. Constants and inputs come from the host; data that a
 * device wrote is transferred. */
static clave_status make_readable(planner *planner, uint32_t index, int b, uint32_t instruction) {
  schedule *schedule = planner->schedule;
  storage *storage = &schedule->storages[index];
  uint32_t made;
  bool is_constant = holds_constant(planner, storage);
  TRY(add_block(schedule, is_constant ? BLOCK_CONSTANT : BLOCK_ARENA, (uint8_t)b, storage->bytes,
                storage->slot, &made));
  storage->block[b] = made;
  if (is_constant) return NULL;
  if (storage->home == NO_HOME) {
    schedule->blocks[made].a.first = 0; /* written before the first command */
    return NULL;
  }
  block *from = &schedule->blocks[storage->block[storage->home]];
  if (!from->segment) from->a.last = schedule->n_commands;
  return add_command(schedule, (command){.kind = COMMAND_TRANSFER,
                                         .backend = (uint8_t)b,
                                         .instruction = instruction,
                                         .x.storage = index,
                                         .rebind = NO_INDEX});
}

clave_status materialize(planner *planner, uint32_t index, int b, uint32_t instruction) {
  schedule *schedule = planner->schedule;
  if (schedule->storages[index].block[b] == NO_INDEX)
    TRY(make_readable(planner, index, b, instruction));
  block *block = &schedule->blocks[schedule->storages[index].block[b]];
  if (!block->segment && block->a.last < schedule->n_commands) block->a.last = schedule->n_commands;
  return NULL;
}

clave_status import_slot(planner *planner, uint32_t tid) {
  schedule *schedule = planner->schedule;
  location *at = &schedule->now[tid];
  if (at->storage != NO_INDEX) return NULL;
  at->t = schedule->types[tid];
  tensor_set_contiguous(&at->t);
  size_t bytes;
  TRY(known_bytes(&at->t, &bytes));
  bool is_state = is_slot(planner->executable->prog, tid, SLOT_STATE);
  uint8_t home = is_state
                     ? planner->executable->state_home[tid - first_state(planner->executable->prog)]
                     : NO_HOME;
  TRY(add_storage(schedule, bytes, home, tid, &at->storage));
  schedule->storages[at->storage].last_use = planner->graph->last_use[tid];
  if (is_state) {
    uint32_t made;
    TRY(add_block(schedule, BLOCK_STATE, home, bytes, tid, &made));
    schedule->storages[at->storage].block[home] = made;
  }
  schedule->at[tid] = *at;
  return NULL;
}

clave_status new_place(schedule *schedule, const tensor *tensor, int b, uint32_t last_use,
                       location *out) {
  size_t bytes;
  uint32_t made;
  out->t = *tensor;
  tensor_set_contiguous(&out->t);
  TRY(known_bytes(tensor, &bytes));
  TRY(add_storage(schedule, bytes, (uint8_t)b, NO_INDEX, &out->storage));
  TRY(add_block(schedule, BLOCK_ARENA, (uint8_t)b, bytes, NO_INDEX, &made));
  schedule->storages[out->storage].block[b] = made;
  schedule->storages[out->storage].last_use = last_use;
  return NULL;
}

void set_location(schedule *schedule, uint32_t tid, location location) {
  schedule->at[tid] = schedule->now[tid] = location;
}

uint32_t later_use(uint32_t a, uint32_t b) {
  if (a == NO_INDEX) return b;
  return b != NO_INDEX && b > a ? b : a;
}
