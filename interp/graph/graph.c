/* A method's list of instructions, who writes a slot and who reads it last. */
#include "interp/graph/graph.h"

#include <string.h>

/* ---------------------------------------------------------------- the list */

/* number: that of the next chain's first instruction. */
static void flatten_chain(graph *g, uint32_t chain, uint32_t parent, uint32_t *number) {
  const ir_instructions *list = &g->prog->ir.chains.items[chain].instructions;
  uint32_t first = *number;
  *number += list->count;
  for (uint32_t k = 0; k < list->count; k++) {
    uint32_t chains[2], i = g->n++;
    int bodies = control_chains(&list->items[k], chains);
    g->instructions[i] = list->items[k];
    g->source[i] = first + k;
    g->chain[i] = chain;
    g->parent[i] = parent;
    for (int b = 0; b < 2; b++) {
      g->bodies[i][b].first = g->n;
      if (b < bodies) flatten_chain(g, chains[b], i, number);
      g->bodies[i][b].end = g->n;
    }
  }
}

clave_status graph_create(const program *p, const ir_method *m, mem_pool *pool, graph *out) {
  uint32_t n = program_count_nodes(&p->ir, m->chain), number = 0;
  graph *g = out;
  *g = (graph){.prog = p, .method = m, .pool = pool};
  g->instructions = mem_pool_alloc(pool, n + 1, sizeof *g->instructions);
  g->source = mem_pool_alloc(pool, n + 1, sizeof *g->source);
  g->joined = mem_pool_alloc(pool, n + 1, sizeof *g->joined);
  g->chain = mem_pool_alloc(pool, n + 1, sizeof *g->chain);
  g->parent = mem_pool_alloc(pool, n + 1, sizeof *g->parent);
  g->bodies = mem_pool_alloc(pool, n + 1, sizeof *g->bodies);
  g->last_use = mem_pool_alloc(pool, slot_count(p) + 1, sizeof *g->last_use);
  g->writer = mem_pool_alloc(pool, slot_count(p) + 1, sizeof *g->writer);
  if (!g->instructions || !g->source || !g->joined || !g->chain || !g->parent || !g->bodies ||
      !g->last_use || !g->writer)
    return status_no_memory();
  for (uint32_t i = 0; i < n; i++) g->joined[i] = i;
  flatten_chain(g, m->chain, NO_INDEX, &number);
  return NULL;
}

clave_status graph_compact(graph *g) {
  uint32_t *moved = mem_pool_alloc(g->pool, g->n + 1, sizeof *moved), kept = 0;
  if (!moved) return status_no_memory();
  for (uint32_t i = 0; i <= g->n; i++) {
    moved[i] = kept;
    kept += i < g->n && g->instructions[i].op_type != IR_OP_NONE;
  }
  for (uint32_t i = 0; i < g->n; i++) {
    uint32_t to = moved[i];
    if (g->instructions[i].op_type == IR_OP_NONE) continue;
    g->instructions[to] = g->instructions[i];
    g->source[to] = g->source[i];
    g->chain[to] = g->chain[i];
    g->parent[to] = g->parent[i] == NO_INDEX ? NO_INDEX : moved[g->parent[i]];
    for (int b = 0; b < 2; b++)
      g->bodies[to][b] = (range){moved[g->bodies[i][b].first], moved[g->bodies[i][b].end]};
  }
  g->n = kept;
  return NULL;
}

uint32_t node_number(const graph *g, uint32_t i) {
  return i < g->n ? g->source[i] : program_count_nodes(&g->prog->ir, g->method->chain);
}

/* ---------------------------------------------------------------- uses */

/* Read at an instruction's index, in a control op's body (NO_INDEX: in none). A loop that a slot
 * comes into from outside reads it until its last step. */
static void note_use(graph *g, uint32_t tid, uint32_t at, uint32_t in) {
  uint32_t w = g->writer[tid];
  for (; in != NO_INDEX; in = g->parent[in]) {
    bool inside = w != NO_INDEX && w >= in && w < g->bodies[in][1].end;
    if (inside) break;
    if (is_loop(&g->instructions[in])) at = g->bodies[in][1].end;
  }
  if (g->last_use[tid] == NO_INDEX || g->last_use[tid] < at) g->last_use[tid] = at;
}

static void note_args(graph *g, uint32_t i) {
  uint32_t chains[2];
  int n = control_chains(&g->instructions[i], chains);
  for (int b = 0; b < n; b++) {
    const ir_u32s *args = &g->prog->ir.chains.items[chains[b]].args;
    for (uint32_t k = 0; k < args->count; k++) g->writer[args->items[k]] = i;
  }
}

static void note_results(graph *g, uint32_t i) {
  uint32_t chains[2];
  int n = control_chains(&g->instructions[i], chains);
  for (int b = 0; b < n; b++) {
    const ir_u32s *results = &g->prog->ir.chains.items[chains[b]].results;
    for (uint32_t k = 0; k < results->count; k++)
      note_use(g, results->items[k], g->bodies[i][b].end, i);
  }
}

static void find_writers(graph *g) {
  for (uint32_t i = 0; i < g->n; i++) {
    for (operand_iter k = operands_of(&g->instructions[i]); next_operand(&k);)
      if (k.o.flags & IR_OUT) g->writer[k.o.tid] = i;
    note_args(g, i);
  }
}

static void find_readers(graph *g) {
  for (uint32_t i = 0; i < g->n; i++) {
    bool loops = is_loop(&g->instructions[i]);
    uint32_t at = loops ? g->bodies[i][1].end : i;
    for (operand_iter k = operands_of(&g->instructions[i]); next_operand(&k);)
      if (!(k.o.flags & IR_OUT)) note_use(g, k.o.tid, at, g->parent[i]);
    note_results(g, i);
  }
}

void graph_find_uses(graph *g) {
  for (uint32_t i = 0; i < slot_count(g->prog); i++) g->last_use[i] = g->writer[i] = NO_INDEX;
  find_writers(g);
  find_readers(g);
  const ir_method *m = g->method;
  for (uint32_t i = 0; i < m->updates.count; i++) g->last_use[m->updates.items[i].value] = g->n;
  for (uint32_t i = 0; i < m->outputs.count; i++)
    if (m->outputs.items[i].tensor != IR_NONE) g->last_use[m->outputs.items[i].tensor] = g->n;
}

clave_status graph_find_multiplied(const graph *g, bool *out) {
  uint32_t *viewed = mem_pool_alloc(g->pool, slot_count(g->prog) + 1, sizeof *viewed);
  if (!viewed) return status_no_memory();
  for (uint32_t i = 0; i < slot_count(g->prog); i++) viewed[i] = i;
  for (uint32_t i = 0; i < g->n; i++) {
    const ir_instruction *ins = &g->instructions[i];
    if (op_table[ins->op_type].is_view)
      viewed[first_slot(ins, true)] = viewed[first_slot(ins, false)];
    if (ins->op_type != IR_OP_MATMUL) continue;
    const uint32_t b = viewed[((const ir_matmul *)ins->op)->b];
    if (is_slot(g->prog, b, SLOT_CONSTANT)) out[b] = true;
  }
  return NULL;
}

/* ---------------------------------------------------------------- slots */

static void begin_instruction(slot_iter *i) {
  i->body = i->arg = 0;
  if (i->left.first < i->left.end) i->operands = operands_of(&i->g->instructions[i->left.first]);
}

slot_iter slots_of(const graph *g, range r) {
  slot_iter i = {.g = g, .left = r};
  begin_instruction(&i);
  return i;
}

static bool next_arg(slot_iter *i) {
  uint32_t chains[2];
  int n = control_chains(&i->g->instructions[i->left.first], chains);
  for (; i->body < (uint32_t)n; i->body++, i->arg = 0) {
    const ir_u32s *args = &i->g->prog->ir.chains.items[chains[i->body]].args;
    if (i->arg == args->count) continue;
    i->tid = args->items[i->arg++];
    return true;
  }
  return false;
}

bool next_slot(slot_iter *i) {
  while (i->left.first < i->left.end) {
    if (next_operand(&i->operands)) {
      i->tid = i->operands.o.tid;
      return true;
    }
    if (next_arg(i)) return true;
    i->left.first++;
    begin_instruction(i);
  }
  return false;
}

/* ---------------------------------------------------------------- errors */

const char *name_of_op(const ir_instruction *ins) {
  const ir_custom *custom = ins->op;
  return ins->op_type == IR_OP_CUSTOM ? custom->target : op_table[ins->op_type].name;
}

clave_status while_in_node(clave_status st, const graph *g, uint32_t i) {
  if (!st || i >= g->n) return st;
  const ir_instruction *ins = &g->instructions[i];
  return status_while(st, "node %u (%s, %s)", g->source[i], op_table[ins->op_type].name, ins->name);
}

clave_status known_bytes(const tensor *t, size_t *out) {
  return tensor_bytes(t, out) ? NULL : INVALID("a tensor's size overflows");
}
