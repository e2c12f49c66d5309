/* Merges chains of elementwise nodes. A node is merged into the node that reads its result if there
 * is only one reader, which is elementwise and of the same shape. Each step still rounds to its
 * dtype, so results have the same bits. */
#include <string.h>

#include "interp/passes/fusion.h"

/* Returns the index of `tid` among the inputs, adding it if absent; NO_INDEX if full. */
static uint32_t input_index(uint32_t *inputs, uint32_t *count, uint32_t tid) {
  for (uint32_t i = 0; i < *count; i++)
    if (inputs[i] == tid) return i;
  if (*count == MAX_STEP_INPUTS) return NO_INDEX;
  inputs[*count] = tid;
  return (*count)++;
}

/* Merges `first` into `second`, whose input `which` is first's result. *out is NULL if the lists
 * would become too long. */
static clave_status fuse_merge(mem_pool *pool, const ir_elementwise *first,
                               const ir_elementwise *second, uint32_t which, ir_elementwise **out) {
  uint32_t inputs[MAX_STEP_INPUTS], n = 0, map_first[MAX_STEP_INPUTS] = {0},
                                    map_second[MAX_STEP_INPUTS] = {0};
  *out = NULL;
  for (uint32_t i = 0; i < first->inputs.count; i++)
    if ((map_first[i] = input_index(inputs, &n, first->inputs.items[i])) == NO_INDEX) return NULL;
  for (uint32_t i = 0; i < second->inputs.count; i++)
    if (i != which &&
        (map_second[i] = input_index(inputs, &n, second->inputs.items[i])) == NO_INDEX)
      return NULL;
  uint32_t total = first->steps.count + second->steps.count;
  if (total > MAX_STEPS ||
      fusion_count_values(&first->steps) + fusion_count_values(&second->steps) > MAX_FUSED_VALUES)
    return NULL;
  ir_elementwise *merged = mem_pool_alloc(pool, 1, sizeof *merged);
  ir_step *steps = mem_pool_alloc(pool, total, sizeof *steps);
  uint32_t *ids = mem_pool_alloc(pool, n + 1, sizeof *ids);
  if (!merged || !steps || !ids) return status_no_memory();
  memcpy(ids, inputs, n * sizeof *ids);
  const step_map in_first = {map_first, 0, NO_INDEX, IR_OPERAND_SOURCE_INPUT, 0};
  const step_map in_second = {map_second, first->steps.count, which, IR_OPERAND_SOURCE_STEP,
                              first->steps.count - 1};
  TRY(fusion_copy_steps(pool, &first->steps, &in_first, steps));
  TRY(fusion_copy_steps(pool, &second->steps, &in_second, steps + first->steps.count));
  merged->inputs.items = ids;
  merged->inputs.count = n;
  merged->steps.items = steps;
  merged->steps.count = total;
  merged->out = second->out;
  *out = merged;
  return NULL;
}

static bool can_inline(const fusion *fusion, uint32_t tid, uint32_t index, uint32_t out) {
  return fusion_is_inner(fusion, tid, index, out) &&
         fusion->graph->instructions[fusion->producer[tid]].op_type == IR_OP_ELEMENTWISE;
}

static clave_status fuse_into(fusion *fusion, uint32_t index) {
  ir_instruction *list = fusion->graph->instructions;
  for (uint32_t i = 0;;) {
    const ir_elementwise *elementwise = list[index].op;
    if (i == elementwise->inputs.count) return NULL;
    uint32_t tid = elementwise->inputs.items[i];
    ir_elementwise *merged = NULL;
    if (can_inline(fusion, tid, index, elementwise->out))
      TRY(fuse_merge(fusion->graph->pool, list[fusion->producer[tid]].op, elementwise, i, &merged));
    if (!merged) {
      i++;
      continue;
    }
    list[fusion->producer[tid]].op_type = IR_OP_NONE;
    fusion->graph->joined[fusion->graph->source[fusion->producer[tid]]] =
        fusion->graph->source[index];
    list[index].op = merged;
    i = 0;
  }
}

clave_status fuse_elementwise(graph *graph) {
  fusion fusion;
  TRY(fusion_begin(graph, &fusion));
  for (uint32_t i = 0; i < graph->n; i++) {
    if (graph->instructions[i].op_type == IR_OP_ELEMENTWISE) TRY(fuse_into(&fusion, i));
    fusion_add_results(&fusion, i);
  }
  return NULL;
}
