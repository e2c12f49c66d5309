/* Elementwise chains become one node: a result that one later elementwise node alone reads, of the
 * same shape, is computed there. Each step rounds to its dtype, so the results are the same bits
 * fused or not. */
#include <string.h>

#include "interp/passes/passes.h"

typedef struct fusion {
  graph *g;
  uint32_t *producer; /* (n_slots) instruction, or NO_INDEX */
  uint32_t *readers;  /* (n_slots) instructions that read it; outputs and state updates count */
} fusion;

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

/* Index of `tid` among the inputs, added if absent; NO_INDEX when full. */
static uint32_t input_index(uint32_t *inputs, uint32_t *n, uint32_t tid) {
  for (uint32_t i = 0; i < *n; i++)
    if (inputs[i] == tid) return i;
  if (*n == MAX_STEP_INPUTS) return NO_INDEX;
  inputs[*n] = tid;
  return (*n)++;
}

/* Copies steps with inputs renumbered through `map` and step operands moved by `base`; uses of
 * input `inlined` become the step `result`. */
static clave_status copy_steps(mem_pool *pool, const ir_steps *from, const uint32_t *map,
                               uint32_t base, uint32_t inlined, uint32_t result, ir_step *to) {
  for (uint32_t i = 0; i < from->count; i++) {
    to[i] = from->items[i];
    uint32_t n = to[i].operands.count;
    ir_operand *ops = mem_pool_alloc(pool, n + 1, sizeof *ops);
    if (!ops) return status_no_memory();
    memcpy(ops, from->items[i].operands.items, n * sizeof *ops);
    for (uint32_t k = 0; k < n; k++) {
      if (ops[k].source == IR_OPERAND_SOURCE_STEP) ops[k].index += base;
      if (ops[k].source != IR_OPERAND_SOURCE_INPUT) continue;
      if (ops[k].index == inlined) {
        ops[k].source = IR_OPERAND_SOURCE_STEP;
        ops[k].index = result;
      } else {
        ops[k].index = map[ops[k].index];
      }
    }
    to[i].operands.items = ops;
  }
  return NULL;
}

/* Host values become kernel arguments, of which devices take few. */
enum { MAX_FUSED_VALUES = 16 };

static uint32_t count_values(const ir_elementwise *e) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < e->steps.count; i++)
    for (uint32_t k = 0; k < e->steps.items[i].operands.count; k++)
      n += e->steps.items[i].operands.items[k].source == IR_OPERAND_SOURCE_VALUE;
  return n;
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
  if (total > MAX_STEPS || count_values(a) + count_values(b) > MAX_FUSED_VALUES) return NULL;
  ir_elementwise *e = mem_pool_alloc(pool, 1, sizeof *e);
  ir_step *steps = mem_pool_alloc(pool, total, sizeof *steps);
  uint32_t *ids = mem_pool_alloc(pool, n + 1, sizeof *ids);
  if (!e || !steps || !ids) return status_no_memory();
  memcpy(ids, inputs, n * sizeof *ids);
  TRY(copy_steps(pool, &a->steps, map_a, 0, NO_INDEX, 0, steps));
  TRY(copy_steps(pool, &b->steps, map_b, a->steps.count, which, a->steps.count - 1,
                 steps + a->steps.count));
  e->inputs.items = ids;
  e->inputs.count = n;
  e->steps.items = steps;
  e->steps.count = total;
  e->out = b->out;
  *out = e;
  return NULL;
}

/* Not into a body: a loop would compute it in every step. */
static bool can_inline(const fusion *f, uint32_t tid, uint32_t index, uint32_t out) {
  const graph *g = f->g;
  uint32_t a = f->producer[tid];
  return a != NO_INDEX && g->instructions[a].op_type == IR_OP_ELEMENTWISE && f->readers[tid] == 1 &&
         g->chain[a] == g->chain[index] && same_shape(&g->prog->ir, tid, out);
}

/* The same slot may be read twice by one node; readers counts that as two, so such chains stay
 * apart. */
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
  uint32_t n_slots = slot_count(g->prog);
  fusion f = {.g = g};
  f.producer = mem_pool_alloc(g->pool, n_slots + 1, sizeof *f.producer);
  f.readers = mem_pool_alloc(g->pool, n_slots + 1, sizeof *f.readers);
  if (!f.producer || !f.readers) return status_no_memory();
  for (uint32_t i = 0; i < n_slots; i++) f.producer[i] = NO_INDEX;
  count_readers(&f);
  for (uint32_t i = 0; i < g->n; i++) {
    if (g->instructions[i].op_type == IR_OP_ELEMENTWISE) TRY(fuse_into(&f, i));
    for (operand_iter k = operands_of(&g->instructions[i]); next_operand(&k);)
      if (k.o.flags & IR_OUT) f.producer[k.o.tid] = i;
  }
  return NULL;
}
