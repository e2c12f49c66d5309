/* Who makes and reads each slot, and steps that move to another list. */
#include "interp/passes/fusion.h"

#include <string.h>

static void count_results(fusion *f, const ir_instruction *ins) {
  uint32_t chains[2];
  int n = control_chains(ins, chains);
  for (int b = 0; b < n; b++) {
    const ir_u32s *results = &f->g->prog->ir.chains.items[chains[b]].results;
    for (uint32_t i = 0; i < results->count; i++) f->readers[results->items[i]] += 2;
  }
}

static void count_readers(fusion *f) {
  const graph *g = f->g;
  for (uint32_t i = 0; i < g->n; i++) {
    for (operand_iter k = operands_of(&g->instructions[i]); next_operand(&k);)
      if (!(k.o.flags & IR_OUT)) f->readers[k.o.tid]++;
    count_results(f, &g->instructions[i]);
  }
  for (uint32_t i = 0; i < g->method->updates.count; i++)
    f->readers[g->method->updates.items[i].value] += 2;
  for (uint32_t i = 0; i < g->method->outputs.count; i++) {
    uint32_t tid = g->method->outputs.items[i].tensor;
    if (tid != IR_NONE) f->readers[tid] += 2;
  }
}

static bool same_shape(const ir_program *p, uint32_t a, uint32_t b) {
  const ir_int_or_vids *x = &p->tensors.items[a].shape, *y = &p->tensors.items[b].shape;
  if (x->count != y->count) return false;
  for (uint32_t i = 0; i < x->count; i++) {
    if (x->items[i].vid != y->items[i].vid) return false;
    if (x->items[i].vid == IR_NONE && x->items[i].literal != y->items[i].literal) return false;
  }
  return true;
}

clave_status fusion_begin(graph *g, fusion *f) {
  uint32_t n_slots = slot_count(g->prog);
  *f = (fusion){.g = g};
  f->producer = mem_pool_alloc(g->pool, n_slots + 1, sizeof *f->producer);
  f->readers = mem_pool_alloc(g->pool, n_slots + 1, sizeof *f->readers);
  if (!f->producer || !f->readers) return status_no_memory();
  for (uint32_t i = 0; i < n_slots; i++) f->producer[i] = NO_INDEX;
  count_readers(f);
  return NULL;
}

void fusion_add_results(fusion *f, uint32_t index) {
  for (operand_iter k = operands_of(&f->g->instructions[index]); next_operand(&k);)
    if (k.o.flags & IR_OUT) f->producer[k.o.tid] = index;
}

/* The same slot may be read twice by one node; readers counts that as two, so such chains stay
 * apart. */
bool fusion_is_inner(const fusion *f, uint32_t tid, uint32_t index, uint32_t out) {
  const graph *g = f->g;
  uint32_t a = f->producer[tid];
  return a != NO_INDEX && f->readers[tid] == 1 && g->chain[a] == g->chain[index] &&
         same_shape(&g->prog->ir, tid, out);
}

uint32_t fusion_count_values(const ir_steps *steps) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < steps->count; i++)
    for (uint32_t k = 0; k < steps->items[i].operands.count; k++)
      n += steps->items[i].operands.items[k].source == IR_OPERAND_SOURCE_VALUE;
  return n;
}

static void map_operand(ir_operand *o, const step_map *map) {
  if (o->source == IR_OPERAND_SOURCE_STEP) {
    o->index += map->base;
  } else if (o->source == IR_OPERAND_SOURCE_INPUT && o->index == map->inlined) {
    o->source = map->source;
    o->index = map->index;
  } else if (o->source == IR_OPERAND_SOURCE_INPUT) {
    o->index = map->inputs[o->index];
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
