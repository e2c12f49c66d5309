/* The operands of the instruction that is being planned: their sizes, where ops read them, and how
 * they are recorded. */
#include "interp/plan/operands.h"

#include "interp/plan/storage.h"

clave_status resolve_type(planner *planner, uint32_t tid) {
  const ir_tensor *declared = &planner->executable->prog->ir.tensors.items[tid];
  tensor *tensor = &planner->schedule->types[tid];
  for (uint32_t i = 0; i < declared->shape.count; i++) {
    const ir_int_or_vid *value = &declared->shape.items[i];
    int64_t n = value->vid == IR_NONE ? value->literal : planner->schedule->values[value->vid].i;
    if (n < 0)
      return INVALID("dimension %u of '%s' is %lld: expected 0 or more", i, declared->name,
                     (long long)n);
    tensor->dims[i] = n;
  }
  size_t bytes;
  return status_while(known_bytes(tensor, &bytes), "'%s'", declared->name);
}

clave_status resolve_operands(planner *planner, const ir_instruction *ins) {
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    TRY(i.operand.flags & IR_OUT ? resolve_type(planner, i.operand.tid)
                                 : import_slot(planner, i.operand.tid));
  return NULL;
}

clave_status record_instruction(planner *planner, int b, const ir_instruction *ins, void **cache,
                                recording **out) {
  backend *be = planner->executable->devices.backends[b];
  const node node = {.instruction = ins,
                     .tensors = planner->operands,
                     .types = planner->schedule->types,
                     .values = planner->schedule->values,
                     .cache = cache};
  if (planner->executable->observer)
    TRY(planner->executable->observer->planned(planner->executable->observer->ctx, b, &node));
  TRY(be->vt->record(be, &node, planner->executable->options.fast, out));
  hold_first(*out);
  size_t *scratch = &planner->schedule->scratch_bytes[b];
  if (*scratch < (*out)->scratch_bytes) *scratch = (*out)->scratch_bytes;
  return NULL;
}

/* A low-memory schedule marks no operand as constant, so no packed weights are requested. */
void put_operand(planner *planner, uint32_t slot, const tensor *tensor, uint32_t of) {
  const storage *storage = of == NO_INDEX ? NULL : &planner->schedule->storages[of];
  const bool is_constant =
      storage && holds_constant(planner, storage) && !planner->schedule->low_memory;
  planner->operands[slot] = (bound_tensor){
      .tensor = *tensor,
      .slot = slot,
      .is_constant = is_constant,
      .constant = storage ? storage->slot : NO_INDEX,
      .is_multiplied = is_constant && planner->executable->is_multiplied[storage->slot]};
}

clave_status record_copy(planner *planner, int b, const tensor *input, const tensor *out,
                         recording **recorded) {
  put_operand(planner, planner->executable->copy.x, input, NO_INDEX);
  put_operand(planner, planner->executable->copy.out, out, NO_INDEX);
  return record_instruction(planner, b, &planner->executable->copy_instruction,
                            &planner->executable->copy_cache[b], recorded);
}

clave_status add_copy(planner *planner, int b, uint32_t index, location input, location out,
                      uint32_t rebind) {
  command command = {.kind = COMMAND_COPY,
                     .backend = (uint8_t)b,
                     .instruction = index,
                     .x = input,
                     .out = out,
                     .rebind = rebind};
  if (tensor_numel(&input.t) == 0) return NULL;
  TRY(record_copy(planner, b, &input.t, &out.t, &command.recorded));
  return add_command(planner->schedule, command);
}

bool is_kept_decoded(const planner *planner, const ir_instruction *ins) {
  const ir_dequantize *op = ins->op;
  return ins->op_type == IR_OP_DEQUANTIZE && !planner->schedule->low_memory &&
         is_slot(planner->executable->prog, op->out, SLOT_TEMPORARY) &&
         planner->schedule->target[op->out] == NO_INDEX;
}

bool stored_as_read(const operand *operand, const tensor *tensor) {
  if (operand->flags & IR_DENSE) return tensor_is_contiguous(tensor);
  return !(operand->flags & IR_ROWS) || tensor_rows_contiguous(tensor);
}

clave_status materialize_operand(planner *planner, uint32_t index, int b, const operand *operand) {
  schedule *schedule = planner->schedule;
  TRY(materialize(planner, schedule->now[operand->tid].storage, b, index));
  const tensor *tensor = &schedule->now[operand->tid].t;
  if (stored_as_read(operand, tensor)) return NULL;
  location made;
  TRY(new_place(schedule, tensor, b, planner->graph->last_use[operand->tid], &made));
  TRY(add_copy(planner, b, index, schedule->now[operand->tid], made, operand->tid));
  schedule->now[operand->tid] = made;
  return NULL;
}
