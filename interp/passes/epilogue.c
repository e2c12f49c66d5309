/* Makes an elementwise node the epilogue of a product, convolution or norm whose result only this
 * node reads. If it reads several such results, it becomes the epilogue of the last op. The op
 * moves to the node's position. Its result is still rounded before the steps, so no bits change. */
#include "ops/epilogue.h"

#include <string.h>

#include "interp/passes/fusion.h"

static dtype epilogue_type_of(const graph *graph, uint32_t tid) {
  return (dtype)graph->prog->ir.tensors.items[tid].dtype;
}

/* True if steps need F64 and the op, which may run on a device without F64, does not. */
static bool needs_more_than(const ir_steps *steps, dtype type) {
  for (uint32_t i = 0; i < steps->count; i++)
    if ((dtype)steps->items[i].dtype == DTYPE_F64 && type != DTYPE_F64) return true;
  return false;
}

static bool can_be_epilogue(const fusion *fusion, uint32_t index, uint32_t which) {
  const graph *graph = fusion->graph;
  const ir_elementwise *elementwise = graph->instructions[index].op;
  uint32_t tid = elementwise->inputs.items[which];
  if (!fusion_is_inner(fusion, tid, index, elementwise->out)) return false;
  const ir_instruction *instruction = &graph->instructions[fusion->producer[tid]];
  const dtype own = op_result_type(instruction->op_type, epilogue_type_of(graph, elementwise->out));
  return accepts_epilogue(instruction->op_type) && !epilogue_of(instruction) &&
         epilogue_type_of(graph, tid) == own &&
         !needs_more_than(&elementwise->steps, epilogue_type_of(graph, tid)) &&
         fusion_count_values(&elementwise->steps) <= MAX_FUSED_VALUES;
}

/* Returns the input whose producer gets the node as its epilogue; NO_INDEX if none exists. */
static uint32_t find_input(const fusion *fusion, uint32_t index) {
  const ir_elementwise *elementwise = fusion->graph->instructions[index].op;
  uint32_t best = NO_INDEX;
  for (uint32_t i = 0; i < elementwise->inputs.count; i++) {
    if (!can_be_epilogue(fusion, index, i)) continue;
    if (best == NO_INDEX || fusion->producer[elementwise->inputs.items[i]] >
                                fusion->producer[elementwise->inputs.items[best]])
      best = i;
  }
  return best;
}

/* Builds steps in which the op's result is input 0 and the other inputs follow. */
static clave_status make_epilogue(mem_pool *pool, const ir_elementwise *elementwise, uint32_t which,
                                  ir_steps *steps, ir_u32s *inputs) {
  uint32_t map[MAX_STEP_INPUTS] = {0};
  uint32_t *others = mem_pool_alloc(pool, elementwise->inputs.count, sizeof *others);
  ir_step *copies = mem_pool_alloc(pool, elementwise->steps.count, sizeof *copies);
  if (!others || !copies) return status_no_memory();
  *inputs = (ir_u32s){.items = others};
  for (uint32_t i = 0; i < elementwise->inputs.count; i++) {
    if (i == which) continue;
    others[inputs->count++] = elementwise->inputs.items[i];
    map[i] = inputs->count;
  }
  const step_map to = {map, 0, which, IR_OPERAND_SOURCE_INPUT, 0};
  *steps = (ir_steps){.items = copies, .count = elementwise->steps.count};
  return fusion_copy_steps(pool, &elementwise->steps, &to, copies);
}

static clave_status join_epilogue(const fusion *fusion, uint32_t index, uint32_t which) {
  graph *graph = fusion->graph;
  const ir_elementwise *elementwise = graph->instructions[index].op;
  uint32_t from = fusion->producer[elementwise->inputs.items[which]];
  ir_instruction *instruction = &graph->instructions[from];
  size_t size = ir_op_tables[instruction->op_type]->size;
  ir_steps steps;
  ir_u32s inputs;
  TRY(make_epilogue(graph->pool, elementwise, which, &steps, &inputs));
  void *op = mem_pool_alloc(graph->pool, 1, size);
  if (!op) return status_no_memory();
  memcpy(op, instruction->op, size);
  set_epilogue(instruction, op, &steps, &inputs, elementwise->out);
  graph->instructions[index] =
      (ir_instruction){.op_type = instruction->op_type, .op = op, .name = instruction->name};
  graph->joined[graph->source[index]] = graph->source[from];
  graph->source[index] = graph->source[from];
  instruction->op_type = IR_OP_NONE;
  return NULL;
}

clave_status fuse_epilogues(graph *graph) {
  fusion fusion;
  TRY(fusion_begin(graph, &fusion));
  for (uint32_t i = 0; i < graph->n; i++) {
    uint32_t which =
        graph->instructions[i].op_type == IR_OP_ELEMENTWISE ? find_input(&fusion, i) : NO_INDEX;
    if (which != NO_INDEX) TRY(join_epilogue(&fusion, i, which));
    fusion_add_results(&fusion, i);
  }
  return NULL;
}
