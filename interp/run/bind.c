/* Selects the current schedule, and resolves the addresses of its blocks and slots. */
#include "interp/run/bind.h"

#include <string.h>

#include "interp/plan/schedule_cache.h"
#include "interp/run/arenas.h"
#include "interp/run/arguments.h"

/* ---------------------------------------------------------------- slots */

bound_tensor bind_location(const binding *binding, location location, int on) {
  const address *address =
      &binding->blocks[binding->schedule->storages[location.storage].block[on]];
  return (bound_tensor){
      .tensor = location.t, .buf = address->buf, .buffer_offset = address->offset};
}

void rebind_slot(const running *run, uint32_t slot, location location) {
  const storage *storage = &run->binding->schedule->storages[location.storage];
  for (int b = 0; b < run->session->devices.count; b++)
    if (storage->block[b] != NO_INDEX)
      run->binding->bound[b][slot] = bind_location(run->binding, location, b);
}

void restore_slots(const running *run, range commands) {
  const schedule *schedule = run->binding->schedule;
  for (uint32_t i = commands.first; i < commands.end; i++)
    if (schedule->commands[i].kind == COMMAND_COPY && schedule->commands[i].rebind != NO_INDEX)
      rebind_slot(run, schedule->commands[i].rebind, schedule->at[schedule->commands[i].rebind]);
}

/* ---------------------------------------------------------------- rebased blocks */

static void set_rebased_address(binding *binding, uint32_t rebased, uint8_t home,
                                const bound_tensor *to, int64_t bytes) {
  int64_t offset =
      (int64_t)to->buffer_offset + to->tensor.offset * (int64_t)dtype_size(to->tensor.type);
  binding->blocks[binding->schedule->storages[rebased].block[home]] =
      (address){to->buf, (size_t)(offset + bytes)};
}

static void rebase_onto(const running *run, uint32_t rebased, uint8_t home, uint32_t onto) {
  bound_tensor to = bind_location(run->binding, (location){.storage = onto}, home);
  set_rebased_address(run->binding, rebased, home, &to, 0);
}

void begin_carried(const running *run, uint32_t control_index) {
  const control *control = run->binding->schedule->controls[control_index];
  for (uint32_t k = 0; k < control->n_results; k++)
    run->binding->carried[control_index].items[k].storage = control->results[k].first;
}

/* Rebases carried values before slices: a carried value may be in the previous slice. */
void rebase_blocks(const running *run, uint32_t control_index, int64_t i) {
  const control *control = run->binding->schedule->controls[control_index];
  for (uint32_t k = 0; k < control->n_results; k++) {
    const body_result *result = &control->results[k];
    uint32_t in = run->binding->carried[control_index].items[k].storage;
    if (!result->is_carried) continue;
    rebase_onto(run, result->arg, result->home, in);
    if (in == result->spare || in == result->result)
      rebase_onto(run, result->target, result->home,
                  in == result->spare ? result->result : result->spare);
  }
  for (uint32_t k = 0; k < control->n_slices; k++) {
    const slices *slices = &control->slices[k];
    bound_tensor whole = bind_location(run->binding, slices->whole, slices->home);
    set_rebased_address(run->binding, slices->storage, slices->home, &whole, i * slices->stride);
  }
  for (uint32_t k = 0; k < control->n_rebased; k++)
    rebind_slot(run, control->rebased[k], run->binding->schedule->at[control->rebased[k]]);
}

/* ---------------------------------------------------------------- schedules */

static clave_status bind_blocks(const running *run) {
  const session *session = run->session;
  const schedule *schedule = run->binding->schedule;
  for (uint32_t i = schedule->first_block; i < schedule->n_blocks; i++) {
    const block *block = &schedule->blocks[i];
    address *at = &run->binding->blocks[i];
    *at = (address){0};
    if (block->kind == BLOCK_ARENA)
      *at = (address){session->arenas[block->backend].chunks[block->a.chunk], block->a.offset};
    if (block->kind == BLOCK_STATE)
      at->buf = session->state[block->slot - first_state(session->prog)];
    if (block->kind == BLOCK_CONSTANT)
      TRY(constant_store_get(session->stores[block->backend], block->slot, &at->buf));
  }
  return NULL;
}

static void place_rebased(const running *run) {
  const schedule *schedule = run->binding->schedule;
  for (uint32_t i = schedule->first_control; i < schedule->n_controls; i++) {
    begin_carried(run, i);
    rebase_blocks(run, i, 0);
  }
}

/* Binds a slot on the backends on which it is not bound yet. A slot of an earlier schedule is bound
 * to its current location, because copies may have moved it. */
static void bind_new_slot(const running *run, uint32_t tid) {
  const schedule *schedule = run->binding->schedule;
  bool moved = schedule->now[tid].storage < schedule->first_storage;
  const location *location = moved ? &schedule->now[tid] : &schedule->at[tid];
  if (location->storage == NO_INDEX) return;
  for (int b = 0; b < run->session->devices.count; b++)
    if (schedule->storages[location->storage].block[b] != NO_INDEX &&
        !run->binding->bound[b][tid].buf)
      run->binding->bound[b][tid] = bind_location(run->binding, *location, b);
}

/* Resolves the addresses of the blocks and slots that the current schedule added. */
static clave_status bind_own(const running *run) {
  binding *binding = run->binding;
  const schedule *schedule = binding->schedule;
  TRY(reserve_binding(run));
  TRY(grow_arenas(run->session, schedule));
  TRY(bind_blocks(run));
  TRY(place_arguments(run));
  place_rebased(run);
  for (slot_iter i = slots_of(run->graph, schedule->instructions); next_slot(&i);)
    bind_new_slot(run, i.tid);
  return NULL;
}

clave_status bind_first(const running *run) {
  binding *binding = run->binding;
  if (binding->schedule == binding->root && binding->generation == run->session->generation)
    return NULL;
  if (binding->schedule != binding->root)
    schedule_release(run->session->executable, binding->schedule);
  binding->schedule = binding->root;
  binding->generation = 0;
  for (int i = 0; i < run->session->devices.count; i++)
    memset(binding->bound[i], 0, slot_count(run->session->prog) * sizeof *binding->bound[i]);
  TRY(bind_own(run));
  binding->generation = run->session->generation;
  return NULL;
}

/* Replaces the current schedule by `plan`, which extends it. Takes ownership of `plan`. */
static clave_status continue_with(const running *run, schedule *plan) {
  binding *binding = run->binding;
  schedule *before = binding->schedule;
  binding->schedule = plan;
  clave_status st = bind_own(run);
  if (!st) return NULL;
  binding->schedule = before;
  binding->generation = 0;
  schedule_release(run->session->executable, plan);
  return st;
}

clave_status bind_following(const running *run, const scalar_value *item, bool *is_new) {
  schedule *before = run->binding->schedule, *next;
  TRY(schedule_find_next(run->session->executable, run->index, before, before->rest, item, &next,
                         is_new));
  TRY(continue_with(run, next));
  if (before != run->binding->root) schedule_release(run->session->executable, before);
  return NULL;
}

clave_status enter_late_body(const running *run, uint32_t number, int body, schedule **outer,
                             bool *is_new) {
  schedule *before = *outer = run->binding->schedule, *next;
  range instructions = run->graph->bodies[before->controls[number]->instruction][body];
  cursor from = {
      .next = instructions.first, .end = instructions.end, .control = number, .body = body};
  TRY(schedule_find_next(run->session->executable, run->index, before, from, NULL, &next, is_new));
  return continue_with(run, next);
}

void leave_late_body(const running *run, schedule *outer) {
  binding *binding = run->binding;
  schedule *schedule = binding->schedule;
  const cursor rest = schedule->rest;
  const uint32_t first =
      run->graph->bodies[outer->controls[rest.control]->instruction][rest.body].first;
  /* slots of all segments of the body, because its carried values move in every iteration */
  restore_slots(run, (range){outer->n_commands, schedule->n_commands});
  for (slot_iter i = slots_of(run->graph, (range){first, schedule->instructions.end});
       next_slot(&i);) {
    const location *location = &outer->at[i.tid];
    for (int k = 0; k < run->session->devices.count; k++)
      if (location->storage == NO_INDEX || outer->storages[location->storage].block[k] == NO_INDEX)
        binding->bound[k][i.tid] = (bound_tensor){0};
  }
  binding->schedule = outer;
  schedule_release(run->session->executable, schedule);
}
