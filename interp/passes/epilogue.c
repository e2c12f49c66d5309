/* An elementwise node becomes the epilogue of the product, convolution or norm whose result it
 * alone reads: of the last one, if there are several. The op then runs where the node stood. Its
 * result is rounded before the steps, so the results are the same bits. */
#include "ops/epilogue.h"

#include <string.h>

#include "interp/passes/fusion.h"

static dtype type_of(const graph *g, uint32_t tid) {
  return (dtype)g->prog->ir.tensors.items[tid].dtype;
}

/* A device without 64-bit floats may run the op all the same. */
static bool needs_more_than(const ir_steps *steps, dtype type) {
  for (uint32_t i = 0; i < steps->count; i++)
    if ((dtype)steps->items[i].dtype == DTYPE_F64 && type != DTYPE_F64) return true;
  return false;
}

static bool can_take(const fusion *f, uint32_t index, uint32_t which) {
  const graph *g = f->g;
  const ir_elementwise *e = g->instructions[index].op;
  uint32_t tid = e->inputs.items[which];
  if (!fusion_is_inner(f, tid, index, e->out)) return false;
  const ir_instruction *a = &g->instructions[f->producer[tid]];
  const dtype own = op_result_type(a->op_type, type_of(g, e->out));
  return takes_epilogue(a->op_type) && !epilogue_of(a) && type_of(g, tid) == own &&
         !needs_more_than(&e->steps, type_of(g, tid)) &&
         fusion_count_values(&e->steps) <= MAX_FUSED_VALUES;
}

/* The number of the input whose maker takes the node as its epilogue; NO_INDEX. */
static uint32_t find_input(const fusion *f, uint32_t index) {
  const ir_elementwise *e = f->g->instructions[index].op;
  uint32_t best = NO_INDEX;
  for (uint32_t i = 0; i < e->inputs.count; i++) {
    if (!can_take(f, index, i)) continue;
    if (best == NO_INDEX || f->producer[e->inputs.items[i]] > f->producer[e->inputs.items[best]])
      best = i;
  }
  return best;
}

/* The steps with the result as input 0, and the other inputs from 1 on. */
static clave_status make_epilogue(mem_pool *pool, const ir_elementwise *e, uint32_t which,
                                  ir_steps *steps, ir_u32s *inputs) {
  uint32_t map[MAX_STEP_INPUTS] = {0};
  uint32_t *others = mem_pool_alloc(pool, e->inputs.count, sizeof *others);
  ir_step *copies = mem_pool_alloc(pool, e->steps.count, sizeof *copies);
  if (!others || !copies) return status_no_memory();
  *inputs = (ir_u32s){.items = others};
  for (uint32_t i = 0; i < e->inputs.count; i++) {
    if (i == which) continue;
    others[inputs->count++] = e->inputs.items[i];
    map[i] = inputs->count;
  }
  const step_map to = {map, 0, which, IR_OPERAND_SOURCE_INPUT, 0};
  *steps = (ir_steps){.items = copies, .count = e->steps.count};
  return fusion_copy_steps(pool, &e->steps, &to, copies);
}

static clave_status join(const fusion *f, uint32_t index, uint32_t which) {
  graph *g = f->g;
  const ir_elementwise *e = g->instructions[index].op;
  uint32_t from = f->producer[e->inputs.items[which]];
  ir_instruction *a = &g->instructions[from];
  size_t size = ir_op_tables[a->op_type]->size;
  ir_steps steps;
  ir_u32s inputs;
  TRY(make_epilogue(g->pool, e, which, &steps, &inputs));
  void *op = mem_pool_alloc(g->pool, 1, size);
  if (!op) return status_no_memory();
  memcpy(op, a->op, size);
  set_epilogue(a, op, &steps, &inputs, e->out);
  g->instructions[index] = (ir_instruction){.op_type = a->op_type, .op = op, .name = a->name};
  g->joined[g->source[index]] = g->source[from];
  g->source[index] = g->source[from];
  a->op_type = IR_OP_NONE;
  return NULL;
}

clave_status fuse_epilogues(graph *g) {
  fusion f;
  TRY(fusion_begin(g, &f));
  for (uint32_t i = 0; i < g->n; i++) {
    uint32_t which = g->instructions[i].op_type == IR_OP_ELEMENTWISE ? find_input(&f, i) : NO_INDEX;
    if (which != NO_INDEX) TRY(join(&f, i, which));
    fusion_add_results(&f, i);
  }
  return NULL;
}
