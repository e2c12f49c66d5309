/* Finds producers and readers of slots, and copies steps to another list. */
#include "interp/passes/fusion.h"

#include <string.h>

static void count_results(fusion *fusion, const ir_instruction *ins) {
  uint32_t chains[2];
  int n = control_chains(ins, chains);
  for (int b = 0; b < n; b++) {
    const ir_u32s *results = &fusion->graph->prog->ir.chains.items[chains[b]].results;
    for (uint32_t i = 0; i < results->count; i++) fusion->readers[results->items[i]] += 2;
  }
}

static void count_readers(fusion *fusion) {
  const graph *graph = fusion->graph;
  for (uint32_t i = 0; i < graph->n; i++) {
    for (operand_iter k = operands_of(&graph->instructions[i]); next_operand(&k);)
      if (!(k.operand.flags & IR_OUT)) fusion->readers[k.operand.tid]++;
    count_results(fusion, &graph->instructions[i]);
  }
  for (uint32_t i = 0; i < graph->method->updates.count; i++)
    fusion->readers[graph->method->updates.items[i].value] += 2;
  for (uint32_t i = 0; i < graph->method->outputs.count; i++) {
    uint32_t tid = graph->method->outputs.items[i].tensor;
    if (tid != IR_NONE) fusion->readers[tid] += 2;
  }
}

static bool fusion_same_shape(const ir_program *program, uint32_t a, uint32_t b) {
  const ir_int_or_vids *values = &program->tensors.items[a].shape,
                       *y = &program->tensors.items[b].shape;
  if (values->count != y->count) return false;
  for (uint32_t i = 0; i < values->count; i++) {
    if (values->items[i].vid != y->items[i].vid) return false;
    if (values->items[i].vid == IR_NONE && values->items[i].literal != y->items[i].literal)
      return false;
  }
  return true;
}

clave_status fusion_begin(graph *graph, fusion *state) {
  uint32_t n_slots = slot_count(graph->prog);
  *state = (fusion){.graph = graph};
  state->producer = mem_pool_alloc(graph->pool, n_slots + 1, sizeof *state->producer);
  state->readers = mem_pool_alloc(graph->pool, n_slots + 1, sizeof *state->readers);
  if (!state->producer || !state->readers) return status_no_memory();
  for (uint32_t i = 0; i < n_slots; i++) state->producer[i] = NO_INDEX;
  count_readers(state);
  return NULL;
}

void fusion_add_results(fusion *fusion, uint32_t index) {
  for (operand_iter k = operands_of(&fusion->graph->instructions[index]); next_operand(&k);)
    if (k.operand.flags & IR_OUT) fusion->producer[k.operand.tid] = index;
}

/* A node that reads the slot twice counts as two readers, so it is not merged. */
bool fusion_is_inner(const fusion *fusion, uint32_t tid, uint32_t index, uint32_t out) {
  const graph *graph = fusion->graph;
  uint32_t a = fusion->producer[tid];
  return a != NO_INDEX && fusion->readers[tid] == 1 && graph->chain[a] == graph->chain[index] &&
         fusion_same_shape(&graph->prog->ir, tid, out);
}

uint32_t fusion_count_values(const ir_steps *steps) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < steps->count; i++)
    for (uint32_t k = 0; k < steps->items[i].operands.count; k++)
      n += steps->items[i].operands.items[k].source == IR_OPERAND_SOURCE_VALUE;
  return n;
}

static void map_operand(ir_operand *op, const step_map *map) {
  if (op->source == IR_OPERAND_SOURCE_STEP) {
    op->index += map->base;
  } else if (op->source == IR_OPERAND_SOURCE_INPUT && op->index == map->inlined) {
    op->source = map->source;
    op->index = map->index;
  } else if (op->source == IR_OPERAND_SOURCE_INPUT) {
    op->index = map->inputs[op->index];
  }
}

clave_status fusion_copy_steps(mem_pool *pool, const ir_steps *from, const step_map *map,
                               ir_step *to) {
  for (uint32_t i = 0; i < from->count; i++) {
    to[i] = from->items[i];
    uint32_t n = to[i].operands.count;
    ir_operand *ops = mem_pool_alloc(pool, n + 1, sizeof *ops);
    if (!ops) return status_no_memory();
    memcpy(ops, from->items[i].operands.items, n * sizeof *ops);
    for (uint32_t k = 0; k < n; k++) map_operand(&ops[k], map);
    to[i].operands.items = ops;
  }
  return NULL;
}
