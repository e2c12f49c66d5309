/* Plans one instruction: its sizes, the locations of its operands and results, and the copies and
 * transfers that it needs. */
#include "interp/plan/op.h"

#include <stdlib.h>

#include "interp/plan/control.h"
#include "interp/plan/operands.h"
#include "interp/plan/storage.h"
#include "interp/scalar.h"

/* Extends the lifetime of the slot's block on backend b to the current command. */
static void op_extend_lifetime(schedule *schedule, uint32_t tid, int b) {
  uint32_t i = schedule->storages[schedule->now[tid].storage].block[b];
  if (i == NO_INDEX || schedule->blocks[i].segment) return;
  if (schedule->blocks[i].a.last < schedule->n_commands)
    schedule->blocks[i].a.last = schedule->n_commands;
}

/* True if a device can allocate buffers of this size. */
static bool fits(const planner *planner, int b, size_t bytes) {
  return backend_holds(&planner->executable->devices.backends[b]->info, bytes);
}

/* Returns the CPU backend; b itself if ops may not move there. */
static int fallback_of(const planner *planner, int b) {
  const int fallback = device_set_fallback(&planner->executable->devices);
  return fallback < 0 ? b : fallback;
}

/* ---------------------------------------------------------------- results */

/* Returns the location of a result that an op on backend b writes. A body's result is written to
 * its destination if backend and size match. */
static clave_status result_place(schedule *schedule, uint32_t tid, int b, uint32_t last_use,
                                 bool bf16, location *out) {
  const storage *wanted =
      schedule->target[tid] == NO_INDEX ? NULL : &schedule->storages[schedule->target[tid]];
  size_t bytes;
  TRY(known_bytes(&schedule->types[tid], &bytes));
  if (!wanted || wanted->home != b || wanted->bytes != bytes) {
    tensor kept = schedule->types[tid];
    if (bf16) kept.type = DTYPE_BF16;
    return new_place(schedule, &kept, b, last_use, out);
  }
  *out = (location){schedule->target[tid], schedule->types[tid]};
  tensor_set_contiguous(&out->t);
  return NULL;
}

/* Plans a view. It is copied if strides cannot express it; outputs are copied, too. */
static clave_status plan_view(planner *planner, uint32_t index, const rule_context *context) {
  schedule *schedule = planner->schedule;
  const ir_instruction *ins = &planner->graph->instructions[index];
  uint32_t result = first_slot(ins, true), last_use = planner->graph->last_use[result];
  location place = schedule->now[first_slot(ins, false)],
           out = {place.storage, schedule->types[result]};
  bool expressible = op_table[ins->op_type].view(context, ins->op, &place.t, &out.t);
  if (expressible && !is_slot(planner->executable->prog, result, SLOT_OUTPUT)) {
    storage *storage = &schedule->storages[place.storage];
    storage->last_use = later_use(storage->last_use, last_use);
    set_location(schedule, result, out);
    return NULL;
  }
  location from = expressible ? out : place, made, to;
  int b = schedule_home(schedule, place.storage);
  size_t bytes;
  TRY(known_bytes(&schedule->types[result], &bytes));
  if (!fits(planner, b, schedule->storages[place.storage].bytes) || !fits(planner, b, bytes))
    b = fallback_of(planner, b);
  TRY(materialize(planner, place.storage, b, index));
  TRY(new_place(schedule, &schedule->types[result], b, last_use, &made));
  to = made;
  to.t = from.t;
  tensor_set_contiguous(&to.t);
  set_location(schedule, result, made);
  return add_copy(planner, b, index, from, to, NO_INDEX);
}

static bool state_is_updated(const graph *graph, uint32_t tid) {
  for (uint32_t i = 0; i < graph->method->updates.count; i++)
    if (graph->method->updates.items[i].state == tid) return true;
  return false;
}

/* Returns how many operands of an instruction are in a storage. */
static int count_sharing(const schedule *schedule, const ir_instruction *ins, uint32_t in) {
  int n = 0;
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    n += !(i.operand.flags & IR_OUT) && schedule->now[i.operand.tid].storage == in;
  return n;
}

/* True if `out` can overwrite x in place: no other operand shares the storage, and no later
 * instruction reads the old value through any view. */
static bool can_reuse(const planner *planner, uint32_t index, uint32_t x, uint32_t out) {
  const schedule *schedule = planner->schedule;
  if (count_sharing(schedule, &planner->graph->instructions[index], schedule->now[x].storage) > 1)
    return false;
  const storage *storage = &schedule->storages[schedule->now[x].storage];
  const tensor *tensor = &schedule->now[x].t;
  if (storage->fixed || storage->home != planner->where[index] ||
      (storage->last_use != NO_INDEX && storage->last_use > index))
    return false;
  if (!tensor_is_contiguous(tensor) || tensor->offset != 0 ||
      (size_t)tensor_numel(tensor) * dtype_size(tensor->type) != storage->bytes)
    return false;
  if (schedule->blocks[storage->block[storage->home]].kind != BLOCK_STATE) return true;
  return !is_slot(planner->executable->prog, out, SLOT_OUTPUT) &&
         state_is_updated(planner->graph, storage->slot);
}

static clave_status plan_reuse(planner *planner, uint32_t index, const operand *operand) {
  schedule *schedule = planner->schedule;
  uint8_t b = planner->where[index];
  uint32_t last_use = planner->graph->last_use[operand->tid];
  location location = schedule->now[operand->reuses],
           made = {NO_INDEX, schedule->types[operand->tid]};
  tensor_set_contiguous(&made.t);
  if (!can_reuse(planner, index, operand->reuses, operand->tid)) {
    TRY(result_place(schedule, operand->tid, b, last_use, false, &made));
    TRY(add_copy(planner, b, index, location, made, NO_INDEX));
  } else {
    uint32_t in = schedule->storages[location.storage].block[b],
             slot = schedule->storages[location.storage].slot;
    TRY(add_storage(schedule, schedule->storages[location.storage].bytes, b, slot, &made.storage));
    schedule->storages[made.storage].block[b] = in;
    schedule->storages[made.storage].last_use = last_use;
  }
  set_location(schedule, operand->tid, made);
  return NULL;
}

static clave_status op_place_result(planner *planner, uint32_t index, const operand *operand) {
  if (operand->reuses != IR_NONE) return plan_reuse(planner, index, operand);
  location made;
  TRY(result_place(planner->schedule, operand->tid, planner->where[index],
                   planner->graph->last_use[operand->tid], planner->keeps_bf16[operand->tid],
                   &made));
  set_location(planner->schedule, operand->tid, made);
  return NULL;
}

/* ---------------------------------------------------------------- instructions */

static clave_status plan_on_device(planner *planner, uint32_t index) {
  const ir_instruction *ins = &planner->graph->instructions[index];
  uint8_t b = planner->where[index];
  bool all_empty = true;
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    if (!(i.operand.flags & IR_OUT)) TRY(materialize_operand(planner, index, b, &i.operand));
  for (operand_iter i = operands_of(ins); next_operand(&i);) {
    if (!(i.operand.flags & IR_OUT)) continue;
    TRY(op_place_result(planner, index, &i.operand));
    all_empty = all_empty && tensor_numel(&planner->schedule->types[i.operand.tid]) == 0;
  }
  if (all_empty) return NULL;
  command command = {.kind = COMMAND_RUN, .backend = b, .instruction = index, .rebind = NO_INDEX};
  for (operand_iter i = operands_of(ins); next_operand(&i);) {
    op_extend_lifetime(planner->schedule, i.operand.tid, b);
    const location *at = &planner->schedule->now[i.operand.tid];
    put_operand(planner, i.operand.tid, &at->t, at->storage);
  }
  TRY(record_instruction(planner, b, ins, &planner->method->cache[b][index], &command.recorded));
  return add_command(planner->schedule, command);
}

/* True if the instruction reads or writes an F32 tensor that is stored as BF16. It must then stay
 * on its device, for which this was decided. */
static bool has_bf16(const planner *planner, const ir_instruction *ins) {
  const schedule *schedule = planner->schedule;
  for (operand_iter i = operands_of(ins); next_operand(&i);) {
    const uint32_t tid = i.operand.tid;
    const bool is_out = (i.operand.flags & IR_OUT) != 0;
    if (is_out ? planner->keeps_bf16[tid] : schedule->now[tid].t.type != schedule->types[tid].type)
      return true;
  }
  return false;
}

/* Fails if a device's largest buffer is too small for an operand's storage. */
static clave_status check_sizes(const planner *planner, const ir_instruction *ins, int b) {
  const schedule *schedule = planner->schedule;
  const backend_info *info = &planner->executable->devices.backends[b]->info;
  for (operand_iter i = operands_of(ins); next_operand(&i);) {
    size_t bytes;
    if (i.operand.flags & IR_OUT)
      TRY(known_bytes(&schedule->types[i.operand.tid], &bytes));
    else
      bytes = schedule->storages[schedule->now[i.operand.tid].storage].bytes;
    if (!fits(planner, b, bytes))
      return UNSUPPORTED("a tensor of %zu bytes exceeds the device's largest buffer, %llu bytes",
                         bytes, (unsigned long long)info->max_alloc);
  }
  return NULL;
}

static clave_status plan_op(planner *planner, uint32_t index) {
  const ir_instruction *ins = &planner->graph->instructions[index];
  const int b = planner->where[index], fallback = fallback_of(planner, b);
  clave_status st = check_sizes(planner, ins, b);
  if (!st) st = plan_on_device(planner, index);
  if (status_code_of(st) != STATUS_UNSUPPORTED || fallback == b || ins->op_type == IR_OP_CUSTOM ||
      has_bf16(planner, ins))
    return st;
  status_free(st);
  planner->where[index] = (uint8_t)fallback;
  return plan_on_device(planner, index);
}

clave_status plan_instruction(planner *planner, uint32_t index) {
  const ir_instruction *ins = &planner->graph->instructions[index];
  const op_info *info = &op_table[ins->op_type];
  schedule *schedule = planner->schedule;
  if (info->is_host) return scalar_run(&planner->executable->prog->ir, ins, schedule->values);
  if (planner->where[index] == WHERE_CONTROL) return plan_control(planner, index);
  TRY(resolve_operands(planner, ins));
  if (ins->op_type == IR_OP_CUSTOM) TRY(resolve_bodies(planner, index));
  rule_context context = {&planner->executable->prog->ir, schedule->types, schedule->values};
  TRY(rule_sizes(&context, ins));
  if (info->is_view) return plan_view(planner, index, &context);
  if (is_kept_decoded(planner, ins))
    return import_slot(planner, ((const ir_dequantize *)ins->op)->out);
  if (ins->op_type != IR_OP_ITEM) return plan_op(planner, index);
  uint32_t x = schedule->now[first_slot(ins, false)].storage;
  return materialize(planner, x, schedule_home(schedule, x), index);
}

/* ---------------------------------------------------------------- state */

static int home_of_state(const planner *planner, uint32_t tid) {
  return planner->executable->state_home[tid - first_state(planner->executable->prog)];
}

/* True if the value is already stored in the state's own memory. */
static bool is_in_state(const planner *planner, uint32_t state, location location) {
  const storage *storage = &planner->schedule->storages[location.storage];
  uint32_t i = storage->block[home_of_state(planner, state)];
  return i != NO_INDEX && planner->schedule->blocks[i].kind == BLOCK_STATE &&
         storage->slot == state && location.t.offset == 0 && tensor_is_contiguous(&location.t);
}

/* Finds a state's new value, and copies it if it is in another state: states may swap values. */
static clave_status stage_update(planner *planner, const ir_state_update *update, location *place) {
  schedule *schedule = planner->schedule;
  int home = home_of_state(planner, update->state);
  TRY(import_slot(planner, update->state));
  TRY(import_slot(planner, update->value));
  *place = schedule->now[update->value];
  if (is_in_state(planner, update->state, *place)) {
    place->storage = NO_INDEX;
    return NULL;
  }
  TRY(materialize(planner, place->storage, home, planner->graph->n));
  if (schedule->blocks[schedule->storages[place->storage].block[home]].kind != BLOCK_STATE)
    return NULL;
  location made, from = *place;
  TRY(new_place(schedule, &from.t, home, planner->graph->n, &made));
  *place = made;
  return add_copy(planner, home, planner->graph->n, from, made, NO_INDEX);
}

static clave_status op_write_state(planner *planner, uint32_t state, location place) {
  if (place.storage == NO_INDEX) return NULL;
  int home = home_of_state(planner, state);
  location to = planner->schedule->at[state];
  to.t = place.t;
  tensor_set_contiguous(&to.t);
  TRY(materialize(planner, place.storage, home, planner->graph->n));
  return add_copy(planner, home, planner->graph->n, place, to, NO_INDEX);
}

clave_status plan_updates(planner *planner) {
  const ir_state_updates *updates = &planner->graph->method->updates;
  if (!updates->count) return NULL;
  location *values = calloc(updates->count, sizeof *values);
  clave_status st = values ? NULL : status_no_memory();
  for (uint32_t i = 0; i < updates->count && !st; i++)
    st = stage_update(planner, &updates->items[i], &values[i]);
  for (uint32_t i = 0; i < updates->count && !st; i++)
    st = op_write_state(planner, updates->items[i].state, values[i]);
  free(values);
  return st;
}
