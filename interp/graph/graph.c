/* A method's list of instructions, and the writer and last reader of each slot. */
#include "interp/graph/graph.h"

#include <string.h>

/* ---------------------------------------------------------------- the list */

/* Appends a chain and its bodies. *number: node number of the next chain's first instruction. */
static void flatten_chain(graph *graph, uint32_t chain, uint32_t parent, uint32_t *number) {
  const ir_instructions *list = &graph->prog->ir.chains.items[chain].instructions;
  uint32_t first = *number;
  *number += list->count;
  for (uint32_t k = 0; k < list->count; k++) {
    uint32_t chains[2], i = graph->n++;
    int bodies = control_chains(&list->items[k], chains);
    graph->instructions[i] = list->items[k];
    graph->source[i] = first + k;
    graph->chain[i] = chain;
    graph->parent[i] = parent;
    for (int b = 0; b < 2; b++) {
      graph->bodies[i][b].first = graph->n;
      if (b < bodies) flatten_chain(graph, chains[b], i, number);
      graph->bodies[i][b].end = graph->n;
    }
  }
}

clave_status graph_create(const program *program, const ir_method *method, mem_pool *pool,
                          graph *out) {
  uint32_t n = program_count_nodes(&program->ir, method->chain), number = 0;
  graph *method_graph = out;
  *method_graph = (graph){.prog = program, .method = method, .pool = pool};
  method_graph->instructions = mem_pool_alloc(pool, n + 1, sizeof *method_graph->instructions);
  method_graph->source = mem_pool_alloc(pool, n + 1, sizeof *method_graph->source);
  method_graph->joined = mem_pool_alloc(pool, n + 1, sizeof *method_graph->joined);
  method_graph->chain = mem_pool_alloc(pool, n + 1, sizeof *method_graph->chain);
  method_graph->parent = mem_pool_alloc(pool, n + 1, sizeof *method_graph->parent);
  method_graph->bodies = mem_pool_alloc(pool, n + 1, sizeof *method_graph->bodies);
  method_graph->last_use =
      mem_pool_alloc(pool, slot_count(program) + 1, sizeof *method_graph->last_use);
  method_graph->writer =
      mem_pool_alloc(pool, slot_count(program) + 1, sizeof *method_graph->writer);
  if (!method_graph->instructions || !method_graph->source || !method_graph->joined ||
      !method_graph->chain || !method_graph->parent || !method_graph->bodies ||
      !method_graph->last_use || !method_graph->writer)
    return status_no_memory();
  for (uint32_t i = 0; i < n; i++) method_graph->joined[i] = i;
  flatten_chain(method_graph, method->chain, NO_INDEX, &number);
  return NULL;
}

clave_status graph_compact(graph *graph) {
  uint32_t *moved = mem_pool_alloc(graph->pool, graph->n + 1, sizeof *moved), kept = 0;
  if (!moved) return status_no_memory();
  for (uint32_t i = 0; i <= graph->n; i++) {
    moved[i] = kept;
    kept += i < graph->n && graph->instructions[i].op_type != IR_OP_NONE;
  }
  for (uint32_t i = 0; i < graph->n; i++) {
    uint32_t to = moved[i];
    if (graph->instructions[i].op_type == IR_OP_NONE) continue;
    graph->instructions[to] = graph->instructions[i];
    graph->source[to] = graph->source[i];
    graph->chain[to] = graph->chain[i];
    graph->parent[to] = graph->parent[i] == NO_INDEX ? NO_INDEX : moved[graph->parent[i]];
    for (int b = 0; b < 2; b++)
      graph->bodies[to][b] =
          (range){moved[graph->bodies[i][b].first], moved[graph->bodies[i][b].end]};
  }
  graph->n = kept;
  return NULL;
}

uint32_t node_number(const graph *graph, uint32_t i) {
  return i < graph->n ? graph->source[i]
                      : program_count_nodes(&graph->prog->ir, graph->method->chain);
}

/* ---------------------------------------------------------------- uses of tensors */

/* Notes that a slot is read at instruction `at`, inside control op `in` (NO_INDEX: none). A loop
 * needs a slot that it reads from outside until its last iteration. */
static void note_use(graph *graph, uint32_t tid, uint32_t at, uint32_t in) {
  uint32_t w = graph->writer[tid];
  for (; in != NO_INDEX; in = graph->parent[in]) {
    bool inside = w != NO_INDEX && w >= in && w < graph->bodies[in][1].end;
    if (inside) break;
    if (is_loop(&graph->instructions[in])) at = graph->bodies[in][1].end;
  }
  if (graph->last_use[tid] == NO_INDEX || graph->last_use[tid] < at) graph->last_use[tid] = at;
}

static void note_args(graph *graph, uint32_t i) {
  uint32_t chains[2];
  int n = control_chains(&graph->instructions[i], chains);
  for (int b = 0; b < n; b++) {
    const ir_u32s *args = &graph->prog->ir.chains.items[chains[b]].args;
    for (uint32_t k = 0; k < args->count; k++) graph->writer[args->items[k]] = i;
  }
}

static void note_results(graph *graph, uint32_t i) {
  uint32_t chains[2];
  int n = control_chains(&graph->instructions[i], chains);
  for (int b = 0; b < n; b++) {
    const ir_u32s *results = &graph->prog->ir.chains.items[chains[b]].results;
    for (uint32_t k = 0; k < results->count; k++)
      note_use(graph, results->items[k], graph->bodies[i][b].end, i);
  }
}

static void find_slot_writers(graph *graph) {
  for (uint32_t i = 0; i < graph->n; i++) {
    for (operand_iter k = operands_of(&graph->instructions[i]); next_operand(&k);)
      if (k.operand.flags & IR_OUT) graph->writer[k.operand.tid] = i;
    note_args(graph, i);
  }
}

static void find_readers(graph *graph) {
  for (uint32_t i = 0; i < graph->n; i++) {
    bool loops = is_loop(&graph->instructions[i]);
    uint32_t at = loops ? graph->bodies[i][1].end : i;
    for (operand_iter k = operands_of(&graph->instructions[i]); next_operand(&k);)
      if (!(k.operand.flags & IR_OUT)) note_use(graph, k.operand.tid, at, graph->parent[i]);
    note_results(graph, i);
  }
}

void graph_find_uses(graph *graph) {
  for (uint32_t i = 0; i < slot_count(graph->prog); i++)
    graph->last_use[i] = graph->writer[i] = NO_INDEX;
  find_slot_writers(graph);
  find_readers(graph);
  const ir_method *method = graph->method;
  for (uint32_t i = 0; i < method->updates.count; i++)
    graph->last_use[method->updates.items[i].value] = graph->n;
  for (uint32_t i = 0; i < method->outputs.count; i++)
    if (method->outputs.items[i].tensor != IR_NONE)
      graph->last_use[method->outputs.items[i].tensor] = graph->n;
}

clave_status graph_find_multiplied(const graph *graph, bool *out) {
  uint32_t *viewed = mem_pool_alloc(graph->pool, slot_count(graph->prog) + 1, sizeof *viewed);
  if (!viewed) return status_no_memory();
  for (uint32_t i = 0; i < slot_count(graph->prog); i++) viewed[i] = i;
  for (uint32_t i = 0; i < graph->n; i++) {
    const ir_instruction *ins = &graph->instructions[i];
    if (op_table[ins->op_type].is_view)
      viewed[first_slot(ins, true)] = viewed[first_slot(ins, false)];
    if (ins->op_type != IR_OP_MATMUL) continue;
    const uint32_t b = viewed[((const ir_matmul *)ins->op)->b];
    if (is_slot(graph->prog, b, SLOT_CONSTANT)) out[b] = true;
  }
  return NULL;
}

/* ---------------------------------------------------------------- slots */

static void begin_instruction(slot_iter *iter) {
  iter->body = iter->arg = 0;
  if (iter->left.first < iter->left.end)
    iter->operands = operands_of(&iter->graph->instructions[iter->left.first]);
}

slot_iter slots_of(const graph *graph, range range) {
  slot_iter iter = {.graph = graph, .left = range};
  begin_instruction(&iter);
  return iter;
}

static bool next_arg(slot_iter *iter) {
  uint32_t chains[2];
  int n = control_chains(&iter->graph->instructions[iter->left.first], chains);
  for (; iter->body < (uint32_t)n; iter->body++, iter->arg = 0) {
    const ir_u32s *args = &iter->graph->prog->ir.chains.items[chains[iter->body]].args;
    if (iter->arg == args->count) continue;
    iter->tid = args->items[iter->arg++];
    return true;
  }
  return false;
}

bool next_slot(slot_iter *iter) {
  while (iter->left.first < iter->left.end) {
    if (next_operand(&iter->operands)) {
      iter->tid = iter->operands.operand.tid;
      return true;
    }
    if (next_arg(iter)) return true;
    iter->left.first++;
    begin_instruction(iter);
  }
  return false;
}

/* ---------------------------------------------------------------- errors */

const char *name_of_op(const ir_instruction *ins) {
  const ir_custom *custom = ins->op;
  return ins->op_type == IR_OP_CUSTOM ? custom->target : op_table[ins->op_type].name;
}

clave_status while_in_node(clave_status st, const graph *graph, uint32_t i) {
  if (!st || i >= graph->n) return st;
  const ir_instruction *ins = &graph->instructions[i];
  return status_while(st, "node %u (%s, %s)", graph->source[i], op_table[ins->op_type].name,
                      ins->name);
}

clave_status known_bytes(const tensor *tensor, size_t *out) {
  return tensor_bytes(tensor, out) ? NULL : INVALID("the size of a tensor overflows");
}
