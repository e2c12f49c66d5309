/* Interprets slot and node numbers of a program. */
#include <assert.h>

#include "ops/ops.h"
#include "serialize/program.h"

slot_kind program_slot_kind(const ir_program *program, uint32_t tid) {
  uint64_t end = program->constants.count;
  if (tid < end) return SLOT_CONSTANT;
  if (tid < (end += program->n_inputs)) return SLOT_INPUT;
  if (tid < (end += program->n_outputs)) return SLOT_OUTPUT;
  return tid < end + program->n_state ? SLOT_STATE : SLOT_TEMPORARY;
}

bool program_state_bytes(const ir_program *program, uint32_t tid, size_t *bytes) {
  const ir_tensor *declared = &program->tensors.items[tid];
  tensor tensor = {.type = declared->dtype, .rank = (int)declared->shape.count};
  for (int i = 0; i < tensor.rank; i++) {
    const ir_int_or_vid *dim = &declared->shape.items[i];
    tensor.dims[i] = dim->vid == IR_NONE ? dim->literal : program->values.items[dim->vid].max.value;
  }
  return tensor_bytes(&tensor, bytes);
}

const char *slot_kind_name(slot_kind kind) {
  static const char *const names[] = {"constant", "input", "output", "state", "temporary"};
  return names[kind];
}

uint32_t program_count_nodes(const ir_program *program, uint32_t chain) {
  const ir_instructions *list = &program->chains.items[chain].instructions;
  uint32_t n = list->count;
  for (uint32_t i = 0; i < list->count; i++) {
    uint32_t chains[2];
    int bodies = control_chains(&list->items[i], chains);
    for (int b = 0; b < bodies; b++) n += program_count_nodes(program, chains[b]);
  }
  return n;
}

/* Searches a chain and its bodies. *number is relative to the chain's first node. If the node is
 * not found, *number is reduced by the number of nodes searched. */
static bool find_node(const ir_program *program, uint32_t chain, uint32_t *number,
                      uint32_t *found) {
  const ir_instructions *list = &program->chains.items[chain].instructions;
  *found = chain;
  if (*number < list->count) return true;
  *number -= list->count;
  for (uint32_t i = 0; i < list->count; i++) {
    uint32_t chains[2];
    int bodies = control_chains(&list->items[i], chains);
    for (int b = 0; b < bodies; b++)
      if (find_node(program, chains[b], number, found)) return true;
  }
  return false;
}

void program_find_node(const ir_program *program, uint32_t number, uint32_t *chain,
                       uint32_t *index) {
  bool found = find_node(program, *chain, &number, chain);
  assert(found);
  (void)found;
  *index = number;
}
