/* A method's instructions in one list, in which a control op is followed by those of its bodies,
 * and what can be told of them before any size is known: who writes a slot, who reads it last. */
#include <string.h>

#include "interp/internal.h"

/* ---------------------------------------------------------------- the list */

/* number: that of the next chain's first instruction. */
static void flatten_chain(const ir_program *p, method *m, uint32_t chain, uint32_t parent,
                          uint32_t *number) {
  const ir_instructions *list = &p->chains.items[chain].instructions;
  uint32_t first = *number;
  *number += list->count;
  for (uint32_t k = 0; k < list->count; k++) {
    uint32_t chains[2], i = m->n++;
    int bodies = control_chains(&list->items[k], chains);
    m->instructions[i] = list->items[k];
    m->source[i] = first + k;
    m->chain[i] = chain;
    m->parent[i] = parent;
    for (int b = 0; b < 2; b++) {
      m->bodies[i][b].first = m->n;
      if (b < bodies) flatten_chain(p, m, chains[b], i, number);
      m->bodies[i][b].end = m->n;
    }
  }
}

clave_status flatten_method(session *s, method *m) {
  uint32_t n = program_count_nodes(&s->prog->ir, m->ir->chain), number = 0;
  m->instructions = mem_pool_alloc(s->pool, n + 1, sizeof *m->instructions);
  m->source = mem_pool_alloc(s->pool, n + 1, sizeof *m->source);
  m->chain = mem_pool_alloc(s->pool, n + 1, sizeof *m->chain);
  m->parent = mem_pool_alloc(s->pool, n + 1, sizeof *m->parent);
  m->bodies = mem_pool_alloc(s->pool, n + 1, sizeof *m->bodies);
  if (!m->instructions || !m->source || !m->chain || !m->parent || !m->bodies)
    return status_no_memory();
  flatten_chain(&s->prog->ir, m, m->ir->chain, NO_INDEX, &number);
  return NULL;
}

clave_status drop_instructions(session *s, method *m) {
  uint32_t *moved = mem_pool_alloc(s->pool, m->n + 1, sizeof *moved), kept = 0;
  if (!moved) return status_no_memory();
  for (uint32_t i = 0; i <= m->n; i++) {
    moved[i] = kept;
    kept += i < m->n && m->instructions[i].op_type != IR_OP_NONE;
  }
  for (uint32_t i = 0; i < m->n; i++) {
    uint32_t to = moved[i];
    if (m->instructions[i].op_type == IR_OP_NONE) continue;
    m->instructions[to] = m->instructions[i];
    m->source[to] = m->source[i];
    m->chain[to] = m->chain[i];
    m->parent[to] = m->parent[i] == NO_INDEX ? NO_INDEX : moved[m->parent[i]];
    for (int b = 0; b < 2; b++)
      m->bodies[to][b] = (span){moved[m->bodies[i][b].first], moved[m->bodies[i][b].end]};
  }
  m->n = kept;
  return NULL;
}

/* ---------------------------------------------------------------- uses */

static bool is_loop(const method *m, uint32_t index) {
  return m->instructions[index].op_type != IR_OP_IF;
}

/* Read at an instruction's index, in a control op's body (NO_INDEX: in none). A loop that a slot
 * comes into from outside reads it until its last step. */
static void note_use(method *m, uint32_t tid, uint32_t at, uint32_t in) {
  uint32_t w = m->writer[tid];
  for (; in != NO_INDEX; in = m->parent[in]) {
    bool inside = w != NO_INDEX && w >= in && w < m->bodies[in][1].end;
    if (inside) break;
    if (is_loop(m, in)) at = m->bodies[in][1].end;
  }
  if (m->last_use[tid] == NO_INDEX || m->last_use[tid] < at) m->last_use[tid] = at;
}

static void note_chains(const session *s, method *m, uint32_t i, bool args) {
  uint32_t chains[2];
  int n = control_chains(&m->instructions[i], chains);
  for (int b = 0; b < n; b++) {
    const ir_chain *c = &s->prog->ir.chains.items[chains[b]];
    for (uint32_t k = 0; args && k < c->args.count; k++) m->writer[c->args.items[k]] = i;
    for (uint32_t k = 0; !args && k < c->results.count; k++)
      note_use(m, c->results.items[k], m->bodies[i][b].end, i);
  }
}

void find_last_uses(const session *s, method *m) {
  for (uint32_t i = 0; i < slot_count(s); i++) m->last_use[i] = m->writer[i] = NO_INDEX;
  for (uint32_t i = 0; i < m->n; i++) {
    for (operand_iter k = operands_of(&m->instructions[i]); next_operand(&k);)
      if (k.o.flags & IR_OUT) m->writer[k.o.tid] = i;
    note_chains(s, m, i, true);
  }
  for (uint32_t i = 0; i < m->n; i++) {
    uint32_t chains[2];
    bool loops = control_chains(&m->instructions[i], chains) > 0 && is_loop(m, i);
    uint32_t at = loops ? m->bodies[i][1].end : i;
    for (operand_iter k = operands_of(&m->instructions[i]); next_operand(&k);)
      if (!(k.o.flags & IR_OUT)) note_use(m, k.o.tid, at, m->parent[i]);
    note_chains(s, m, i, false);
  }
  for (uint32_t i = 0; i < m->ir->updates.count; i++)
    m->last_use[m->ir->updates.items[i].value] = m->n;
  for (uint32_t i = 0; i < m->ir->outputs.count; i++)
    if (m->ir->outputs.items[i].tensor != IR_NONE)
      m->last_use[m->ir->outputs.items[i].tensor] = m->n;
}

/* ---------------------------------------------------------------- slots */

void for_each_slot(const session *s, const method *m, span r,
                   void (*visit)(void *ctx, uint32_t tid), void *ctx) {
  for (uint32_t i = r.first; i < r.end; i++) {
    uint32_t chains[2];
    int n = control_chains(&m->instructions[i], chains);
    for (operand_iter k = operands_of(&m->instructions[i]); next_operand(&k);) visit(ctx, k.o.tid);
    for (int b = 0; b < n; b++) {
      const ir_u32s *args = &s->prog->ir.chains.items[chains[b]].args;
      for (uint32_t k = 0; k < args->count; k++) visit(ctx, args->items[k]);
    }
  }
}
