/* Elementwise chains become one node: a result that one later elementwise node alone reads, of the
 * same shape, is computed there. Each step rounds to its dtype, so the results are the same bits
 * fused or not. */
#include <string.h>

#include "interp/passes/fusion.h"

/* Index of `tid` among the inputs, added if absent; NO_INDEX when full. */
static uint32_t input_index(uint32_t *inputs, uint32_t *n, uint32_t tid) {
  for (uint32_t i = 0; i < *n; i++)
    if (inputs[i] == tid) return i;
  if (*n == MAX_STEP_INPUTS) return NO_INDEX;
  inputs[*n] = tid;
  return (*n)++;
}

/* b with input number `which`, the result of a, computed inside. *out stays NULL when the lists
 * would grow too long. */
static clave_status merge(mem_pool *pool, const ir_elementwise *a, const ir_elementwise *b,
                          uint32_t which, ir_elementwise **out) {
  uint32_t inputs[MAX_STEP_INPUTS], n = 0, map_a[MAX_STEP_INPUTS] = {0},
                                    map_b[MAX_STEP_INPUTS] = {0};
  *out = NULL;
  for (uint32_t i = 0; i < a->inputs.count; i++)
    if ((map_a[i] = input_index(inputs, &n, a->inputs.items[i])) == NO_INDEX) return NULL;
  for (uint32_t i = 0; i < b->inputs.count; i++)
    if (i != which && (map_b[i] = input_index(inputs, &n, b->inputs.items[i])) == NO_INDEX)
      return NULL;
  uint32_t total = a->steps.count + b->steps.count;
  if (total > MAX_STEPS ||
      fusion_count_values(&a->steps) + fusion_count_values(&b->steps) > MAX_FUSED_VALUES)
    return NULL;
  ir_elementwise *e = mem_pool_alloc(pool, 1, sizeof *e);
  ir_step *steps = mem_pool_alloc(pool, total, sizeof *steps);
  uint32_t *ids = mem_pool_alloc(pool, n + 1, sizeof *ids);
  if (!e || !steps || !ids) return status_no_memory();
  memcpy(ids, inputs, n * sizeof *ids);
  const step_map in_a = {map_a, 0, NO_INDEX, IR_OPERAND_SOURCE_INPUT, 0};
  const step_map in_b = {map_b, a->steps.count, which, IR_OPERAND_SOURCE_STEP, a->steps.count - 1};
  TRY(fusion_copy_steps(pool, &a->steps, &in_a, steps));
  TRY(fusion_copy_steps(pool, &b->steps, &in_b, steps + a->steps.count));
  e->inputs.items = ids;
  e->inputs.count = n;
  e->steps.items = steps;
  e->steps.count = total;
  e->out = b->out;
  *out = e;
  return NULL;
}

static bool can_inline(const fusion *f, uint32_t tid, uint32_t index, uint32_t out) {
  return fusion_is_inner(f, tid, index, out) &&
         f->g->instructions[f->producer[tid]].op_type == IR_OP_ELEMENTWISE;
}

static clave_status fuse_into(fusion *f, uint32_t index) {
  ir_instruction *list = f->g->instructions;
  for (uint32_t i = 0;;) {
    const ir_elementwise *b = list[index].op;
    if (i == b->inputs.count) return NULL;
    uint32_t tid = b->inputs.items[i];
    ir_elementwise *merged = NULL;
    if (can_inline(f, tid, index, b->out))
      TRY(merge(f->g->pool, list[f->producer[tid]].op, b, i, &merged));
    if (!merged) {
      i++;
      continue;
    }
    list[f->producer[tid]].op_type = IR_OP_NONE;
    f->g->joined[f->g->source[f->producer[tid]]] = f->g->source[index];
    list[index].op = merged;
    i = 0;
  }
}

clave_status fuse_elementwise(graph *g) {
  fusion f;
  TRY(fusion_begin(g, &f));
  for (uint32_t i = 0; i < g->n; i++) {
    if (g->instructions[i].op_type == IR_OP_ELEMENTWISE) TRY(fuse_into(&f, i));
    fusion_add_results(&f, i);
  }
  return NULL;
}
